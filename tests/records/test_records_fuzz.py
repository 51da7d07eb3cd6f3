"""Whatever bytes arrive, the answer is a value or `InvalidBatch`."""

import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.records.builder import Record, build_batch
from ottla.records.codec import Codec
from ottla.records.crc import crc32c
from ottla.records.errors import InvalidBatch
from ottla.records.header import HEADER_SIZE, batches, read_header
from ottla.records.payload import decode_records
from ottla.records.reader import read_records
from ottla.records.validation import ProduceRules, check_produced, must_open, open_produced

NOW = 1_700_000_000_000
RULES = [
    ProduceRules(),
    ProduceRules(compacted=True, timestamp_before_max_ms=1000),
    ProduceRules(compression=Codec.LZ4, timestamp_type="LogAppendTime"),
    ProduceRules(compression=Codec.NONE, max_message_bytes=2000),
]
RECORDS = [
    Record(i, NOW + i, b"key" * i, None if i == 2 else b"value" * i, (("h", b"x"),) * i)
    for i in range(5)
]


def survive(data: bytes, rules: ProduceRules) -> None:
    try:
        list(batches(data))
    except InvalidBatch:
        pass
    try:
        read_records(data, 1 << 20)
    except InvalidBatch:
        pass
    try:
        header = check_produced(memoryview(data), rules, 12)
        batch = memoryview(data)[: header.size]
        if must_open(header, batch, rules, NOW):
            batch = memoryview(open_produced(batch, header, rules, NOW))
            assert read_header(batch).size == len(batch) <= rules.max_message_bytes
            read_records(batch)
    except InvalidBatch:
        pass


@given(data=st.binary(max_size=300), rules=st.sampled_from(RULES))
def test_noise(data: bytes, rules: ProduceRules) -> None:
    survive(data, rules)


@given(
    codec=st.sampled_from(Codec),
    rules=st.sampled_from(RULES),
    changes=st.lists(
        st.tuples(st.integers(0, 500), st.sampled_from([0, 1, 2, 0x7F, 0x80, 0xFE, 0xFF])),
        max_size=5,
    ),
    cut=st.none() | st.integers(0, 400),
    sealed=st.booleans(),
)
@settings(deadline=None, max_examples=1000)
def test_changed_batches_even_with_a_right_checksum(
    codec: Codec,
    rules: ProduceRules,
    changes: list[tuple[int, int]],
    cut: int | None,
    sealed: bool,
) -> None:
    batch = bytearray(build_batch(RECORDS, codec=codec))[:cut]
    for position, byte in changes:
        if batch:
            batch[position % len(batch)] = byte
    if sealed and len(batch) >= HEADER_SIZE:
        struct.pack_into(">i", batch, 8, len(batch) - 12)
        struct.pack_into(">I", batch, 17, crc32c(memoryview(batch)[21:]))
    survive(bytes(batch), rules)


@given(payload=st.binary(max_size=200), count=st.integers(-5, 40))
@settings(max_examples=500)
def test_payloads_of_noise(payload: bytes, count: int) -> None:
    try:
        records = list(decode_records(payload, count, 0, NOW))
    except InvalidBatch:
        return
    assert len(records) == count


@given(count=st.integers(1 << 20, (1 << 31) - 1))
def test_a_huge_claimed_count_costs_nothing(count: int) -> None:
    batch = bytearray(build_batch(RECORDS))
    struct.pack_into(">i", batch, 57, count)
    with pytest.raises(InvalidBatch, match=f"{count} records"):
        read_records(batch)
