"""Records -> batch -> records, and the same through the codecs of other people's clients."""

from typing import Any

import pytest
from aiokafka.record import default_records as aiokafka_records
from hypothesis import given, settings
from hypothesis import strategies as st
from kafka.record import default_records as kafka_python_records

from ottla.records.builder import Record, build_batch
from ottla.records.codec import Codec
from ottla.records.errors import InvalidBatch
from ottla.records.header import read_header
from ottla.records.reader import check_crc, read_records

TIMESTAMPS = st.integers(min_value=-1, max_value=1 << 45)
HEADERS = st.lists(st.tuples(st.text(max_size=20), st.none() | st.binary(max_size=200)), max_size=3)


@st.composite
def record_lists(draw: st.DrawFn) -> list[Record]:
    offset = draw(st.integers(min_value=0, max_value=1 << 50))
    records = []
    for _ in range(draw(st.integers(min_value=1, max_value=12))):
        records.append(
            Record(
                offset,
                draw(TIMESTAMPS),
                draw(st.none() | st.binary(max_size=300)),
                draw(st.none() | st.binary(max_size=20_000)),
                tuple(draw(HEADERS)),
            )
        )
        offset += draw(st.sampled_from([1, 1, 1, 70, 10_000]))
    return records


@given(records=record_lists(), codec=st.sampled_from(Codec))
@settings(deadline=None)
def test_records_come_back_as_they_went_in(records: list[Record], codec: Codec) -> None:
    batch = build_batch(records, codec=codec)
    header = read_header(batch)
    check_crc(header, batch)
    assert read_records(batch) == records
    assert read_records(memoryview(bytearray(batch))) == records
    assert header.size == len(batch)
    assert header.codec is codec
    assert header.base_offset == records[0].offset
    assert header.last_offset == records[-1].offset
    assert header.record_count == len(records)
    assert header.base_timestamp == records[0].timestamp
    assert header.max_timestamp == max(record.timestamp for record in records)


def test_the_extremes_of_the_format_survive() -> None:
    records = [
        Record(0, (1 << 63) - 1, b"", b"", (("", b""), ("", None))),
        Record((1 << 31) - 1, 0, b"k" * 5_000_000, None),
    ]
    assert read_records(build_batch(records)) == records


def test_log_append_time_is_the_timestamp_of_every_record() -> None:
    batch = build_batch([Record(i, 10 * i, None, b"") for i in range(3)], log_append_time=777)
    assert [record.timestamp for record in read_records(batch)] == [777] * 3
    assert read_header(batch).max_timestamp == 777


def test_a_compacted_batch_keeps_its_range_and_its_delete_horizon() -> None:
    kept = [Record(105, 2000, b"k", None)]
    batch = build_batch(kept, base_offset=100, last_offset=110, delete_horizon_ms=5000)
    header = read_header(batch)
    assert (header.base_offset, header.last_offset, header.delete_horizon_ms) == (100, 110, 5000)
    assert read_records(batch) == kept


def test_a_batch_without_records_is_not_built() -> None:
    with pytest.raises(ValueError, match="at least one record"):
        build_batch([])


def test_header_keys_that_are_not_text_do_not_make_a_record_unreadable() -> None:
    batch = bytearray(build_batch([Record(0, 0, None, b"v", (("ab", b"x"),))]))
    position = batch.index(b"ab")
    batch[position : position + 2] = b"\xff\xfe"
    assert read_records(batch)[0].headers == (("\ufffd\ufffd", b"x"),)


def test_a_changed_byte_is_caught_by_the_checksum() -> None:
    batch = build_batch([Record(0, 0, b"key", b"value")])
    for position in range(21, len(batch)):
        broken = bytearray(batch)
        broken[position] ^= 0x10
        with pytest.raises(InvalidBatch, match="damaged"):
            check_crc(read_header(broken), broken)


SAMPLE = [
    Record(i, 1_700_000_000_000 - 3 * i, None if i % 3 else b"key", b"value" * i, (("h", b"x"),))
    for i in range(40)
] + [Record(40, 1_700_000_000_000, b"k", None, (("null", None), ("empty", b"")))]


def foreign_batch(module: Any, codec: Codec) -> bytes:
    builder = module.DefaultRecordBatchBuilder(
        magic=2,
        compression_type=int(codec),
        is_transactional=1,
        producer_id=77,
        producer_epoch=3,
        base_sequence=9,
        batch_size=1 << 20,
    )
    for record in SAMPLE:
        added = builder.append(
            record.offset,
            timestamp=record.timestamp,
            key=record.key,
            value=record.value,
            headers=list(record.headers),
        )
        assert added is not None
    return bytes(builder.build())


def read_by(module: Any, batch: bytes) -> list[Record]:
    reader = module.DefaultRecordBatch(bytearray(batch))
    assert reader.validate_crc()
    return [Record(r.offset, r.timestamp, r.key, r.value, tuple(r.headers)) for r in reader]


PEERS = [(aiokafka_records, codec) for codec in Codec] + [
    (kafka_python_records, Codec.NONE),
    (kafka_python_records, Codec.GZIP),
]


@pytest.mark.parametrize(("module", "codec"), PEERS, ids=lambda value: getattr(value, "name", None))
def test_batches_of_other_clients_are_read(module: Any, codec: Codec) -> None:
    batch = foreign_batch(module, codec)
    header = read_header(batch)
    check_crc(header, batch)
    assert header.codec is codec
    assert header.is_transactional
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (77, 3, 9)
    assert read_records(batch) == SAMPLE


@pytest.mark.parametrize(("module", "codec"), PEERS, ids=lambda value: getattr(value, "name", None))
def test_other_clients_read_our_batches(module: Any, codec: Codec) -> None:
    assert read_by(module, build_batch(SAMPLE, codec=codec)) == SAMPLE
