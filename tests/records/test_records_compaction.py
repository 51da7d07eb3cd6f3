"""What compaction does record by record: the last offset of each key, and copying what stays."""

from __future__ import annotations

import random
from functools import partial
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_records_engine import ENGINES, PURE, RECORDS, records
from test_records_twins import CHANGES, hostile_payloads, needs_native, outcome

from ottla.records import engine
from ottla.records.errors import InvalidBatch
from ottla.records.payload import decode_records, encode_records
from ottla.records.pure.key_offsets import ENTRY_BYTES
from ottla.records.record import Record

__all__ = ["records"]

ROOM = ENTRY_BYTES * 300
INT64_MAX = (1 << 63) - 1


def payload_of(keys: list[bytes | None], value: bytes | None = b"v") -> bytes:
    return encode_records([Record(i, 0, key, value) for i, key in enumerate(keys)], 0, 0)


def noted(side: Any, keys: list[bytes | None], base_offset: int = 0, room: int = ROOM) -> Any:
    made = side.KeyOffsets(room, 0.9)
    made.put(payload_of(keys), len(keys), base_offset)
    return made


# The last offset of each key


@settings(deadline=None)
@given(st.lists(st.tuples(st.none() | st.binary(max_size=40), st.booleans()), max_size=100))
def test_the_last_offset_of_each_key_is_known(rows: list[tuple[bytes | None, bool]]) -> None:
    for param in ENGINES:
        made = param.values[0].KeyOffsets(ROOM, 0.9)
        expected: dict[bytes, int] = {}
        for offset, (key, is_put) in enumerate(rows):
            if is_put:
                assert made.put(payload_of([key]), 1, offset) is None
                if key is not None:
                    expected[key] = offset
        for key, _ in rows:
            if key is not None:
                assert made.last_offset(key) == expected.get(key, -1)
        assert made.entries == len(expected)


def test_full_memory_says_where_it_stopped_and_still_takes_known_keys(records: Any) -> None:
    made = records.KeyOffsets(ENTRY_BYTES * 101, 0.9)
    keys = [b"%d" % number for number in range(200)]
    assert made.put(payload_of(keys), 200, 0) == 90
    assert made.entries == 90
    assert made.put(payload_of([b"5"]), 1, 500) is None
    assert made.put(payload_of([b"5", b"new"]), 2, 500) == 501
    found = [made.last_offset(key) for key in (b"5", b"89", b"90", b"new")]
    assert found == [500, 89, -1, -1]


def test_no_more_memory_is_used_than_was_given(records: Any) -> None:
    given_bytes = 1 << 20
    made = records.KeyOffsets(given_bytes, 0.9)
    assert 0.99 * given_bytes < made.slots * ENTRY_BYTES <= given_bytes
    chance = random.Random(1)
    for start in range(0, made.slots, 1000):
        if made.put(payload_of([chance.randbytes(20) for _ in range(1000)]), 1000, start):
            break
    assert 0.89 < made.utilization <= 0.9


@pytest.mark.parametrize("load_factor", [1.0, 2.0])
def test_a_search_in_full_memory_ends(records: Any, load_factor: float) -> None:
    made = records.KeyOffsets(ENTRY_BYTES * 11, load_factor)
    assert made.put(payload_of([b"%d" % number for number in range(50)]), 50, 0) == 10
    assert made.last_offset(b"unknown") == -1


def test_memory_too_small_for_any_key_is_refused(records: Any) -> None:
    with pytest.raises(ValueError, match="dedupe"):
        records.KeyOffsets(ENTRY_BYTES, 0.9)


def test_offset_zero_is_an_offset_like_any_other(records: Any) -> None:
    made = noted(records, [b"a"])
    assert (made.last_offset(b"a"), made.last_offset(b"b")) == (0, -1)


def test_records_without_a_key_or_noted_before_are_passed_over(records: Any) -> None:
    made = records.KeyOffsets(ROOM, 0.9)
    made.end_offset = 12
    assert made.put(payload_of([b"a", None, b"b"]), 3, 10) is None
    assert (made.last_offset(b"a"), made.last_offset(b"b"), made.entries) == (-1, 12, 1)


def test_the_last_record_of_each_key_is_kept(records: Any) -> None:
    keys = [b"a", b"b", b"a", None, b"c"]
    made = noted(records, [*keys, b"c"])
    made.end_offset = 6
    kept = made.keep(payload_of(keys), 5, 0, False)
    assert kept == (bytes([0, 1, 1, 0, 0]), 2, False, 1)


def test_records_beyond_what_is_noted_are_kept_whatever_they_are(records: Any) -> None:
    made = noted(records, [b"a", b"a"])
    made.end_offset = 2
    kept = made.keep(payload_of([b"a", b"a", None, b"a"], None), 4, 0, True)
    assert kept == (bytes([0, 0, 1, 1]), 2, True, 0)


def test_tombstones_go_when_their_time_has_come(records: Any) -> None:
    made = noted(records, [b"a", b"b"])
    made.end_offset = 2
    payload = payload_of([b"a", b"b"], None)
    assert made.keep(payload, 2, 0, False) == (b"\1\1", 2, True, 0)
    assert made.keep(payload, 2, 0, True) == (b"\0\0", 0, False, 0)


@needs_native
def test_the_hash_of_keys_is_the_one_its_designers_published() -> None:
    from ottla.records.native.key_offsets import siphash_128

    secrets = (0x0706050403020100, 0x0F0E0D0C0B0A0908)
    known = {
        0: "a3817f04ba25a8e66df67214c7550293",
        1: "da87c1d86b99af44347659119b22fc45",
        15: "5493e99933b0a8117e08ec0f97cfc3d9",
    }
    for size, expected in known.items():
        assert siphash_128(bytes(range(size)), *secrets).hex() == expected


# Copying


@settings(deadline=None)
@given(rows=RECORDS, data=st.data(), append_time=st.none() | st.just(1 << 40))
def test_copied_records_are_those_of_the_mask(
    rows: list[Record], data: st.DataObject, append_time: int | None
) -> None:
    mask = bytes(data.draw(st.lists(st.integers(0, 1), min_size=len(rows), max_size=len(rows))))
    new_base = data.draw(st.none() | st.integers(0, 1 << 41))
    payload = encode_records(rows, 0, 7)
    stays = [row for row, mark in zip(rows, mask, strict=True) if mark]
    if append_time is not None:
        stays = [row._replace(timestamp=append_time) for row in stays]
    for param in ENGINES:
        copied, highest = param.values[0].copy_records(
            memoryview(payload), len(rows), mask, 7, append_time, new_base
        )
        assert highest == max((row.timestamp for row in stays), default=-1)
        if new_base is not None:
            assert list(decode_records(copied, len(stays), 0, new_base)) == stays
        elif append_time is None:
            assert copied == encode_records(stays, 0, 7)


def test_bytes_of_a_record_that_nobody_understands_are_copied_as_they_are(records: Any) -> None:
    record = bytearray(encode_records([Record(0, 0, b"k", b"v", (("ab", b"x"),))], 0, 0))
    record[1] = 0x55  # attributes
    record[record.index(b"ab")] = 0xFF  # no text any more
    assert records.copy_records(record, 1, b"\1", 0, None) == (bytes(record), 0)
    moved, _ = records.copy_records(record, 1, b"\1", 0, None, 1 << 40)
    assert moved[1] == 0x55
    assert moved.endswith(record[3:])


def test_a_time_too_far_from_its_new_base_comes_as_near_as_it_can(records: Any) -> None:
    payload = encode_records([Record(0, -INT64_MAX, b"k", b"v")], 0, 0)
    copied, _ = records.copy_records(payload, 1, b"\1", 0, None, 100)
    (record,) = decode_records(copied, 1, 0, 100)
    assert record.timestamp == -INT64_MAX - 1 + 100


def test_a_mask_of_another_length_is_refused(records: Any) -> None:
    with pytest.raises(ValueError, match="mask"):
        records.copy_records(payload_of([b"a"]), 1, b"\1\1", 0, None)


# Damage


def results(side: Any, payload: bytes, count: int) -> list[Any]:
    made = noted(side, [b"key", b"k", b"a" * 20])
    made.end_offset = 3
    mask = b"\1" * max(0, min(count, 1000))
    return [
        outcome(lambda: made.keep(payload, count, 0, False)),
        outcome(lambda: made.put(payload, count, 5)),
        made.entries,
        *(
            outcome(partial(side.copy_records, payload, len(mask), mask, 5, time, base))
            for time, base in ((None, None), (None, 77), (9, 77))
        ),
    ]


@needs_native
@given(rows=RECORDS, changes=CHANGES, off_by=st.sampled_from([0, 0, 0, 1, -1, 1 << 40]))
@settings(max_examples=500, deadline=None)
def test_the_twins_agree_on_changed_payloads(
    rows: list[Record], changes: list[tuple[int, int]], off_by: int
) -> None:
    payload = bytearray(encode_records(rows, 0, 0))
    for position, byte in changes:
        if payload:
            payload[position % len(payload)] = byte
    count = len(rows) + off_by
    assert results(engine, bytes(payload), count) == results(PURE, bytes(payload), count)


@needs_native
@pytest.mark.parametrize("count", [1, 2, 6])
def test_the_twins_agree_on_hostile_lengths(count: int) -> None:
    for payload in hostile_payloads():
        assert results(engine, payload, count) == results(PURE, payload, count)


@pytest.mark.parametrize("count", [0, 1, 3])
def test_a_wrong_count_is_refused(records: Any, count: int) -> None:
    payload = payload_of([b"a", b"b"])
    made = records.KeyOffsets(ROOM, 0.9)
    with pytest.raises(InvalidBatch):
        made.put(payload, count, 0)
    with pytest.raises(InvalidBatch):
        made.keep(payload, count, 0, False)
    with pytest.raises(InvalidBatch):
        records.copy_records(payload, count, b"\1" * count, 0, None)
