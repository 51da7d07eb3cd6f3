"""The parts of compaction: the map of keys, the walk over records, groups, pacing."""

from __future__ import annotations

import random

import pytest
from cleaner_tools import compacted
from hypothesis import given, settings
from hypothesis import strategies as st
from storage_tools import NOW_MS

from ottla.config.topic import TopicConfig
from ottla.records.errors import InvalidBatch
from ottla.records.payload import decode_records, encode_records
from ottla.records.record import Record
from ottla.storage.cleaner.grouping import Source, group_segments
from ottla.storage.cleaner.offset_map import ENTRY_BYTES, OffsetMap
from ottla.storage.cleaner.pacing import Pacer
from ottla.storage.cleaner.record_walk import from_zigzag, moved_timestamp, to_varint, walk

unhurried = settings(deadline=None)  # Other work on the machine must not fail a test.
BYTES = st.binary(max_size=300)
RECORDS = st.lists(
    st.tuples(
        st.integers(-(2**40), 2**40),
        st.none() | BYTES,
        st.none() | BYTES,
        st.lists(st.tuples(st.text(max_size=20), st.none() | BYTES), max_size=3),
    ),
    min_size=1,
    max_size=20,
).map(
    lambda rows: [
        Record(index * 3, NOW_MS + stamp, key, value, tuple(headers))
        for index, (stamp, key, value, headers) in enumerate(rows)
    ]
)


# The map


@unhurried
@given(st.lists(st.tuples(st.binary(max_size=40), st.booleans()), max_size=200))
def test_the_map_knows_the_last_offset_of_each_key(rows: list[tuple[bytes, bool]]) -> None:
    offsets = OffsetMap(ENTRY_BYTES * 300, 0.9)
    expected: dict[bytes, int] = {}
    for offset, (key, is_put) in enumerate(rows):
        if is_put:
            assert offsets.put([key], [offset], 0, 0) is None
            expected[key] = offset
    keys = [key for key, _ in rows]
    assert offsets.find(keys) == [expected.get(key, -1) for key in keys]
    assert offsets.entries == len(expected)
    assert offsets.find([None]) == [-1]


def test_a_full_map_says_where_it_stopped_and_still_takes_known_keys() -> None:
    offsets = OffsetMap(ENTRY_BYTES * 101, 0.9)
    keys = [b"%d" % number for number in range(200)]
    assert offsets.put(keys, range(200), 0, 0) == 90
    assert offsets.entries == 90
    assert offsets.put([b"5"], [500], 0, 0) is None
    assert offsets.put([b"new"], [1], 500, 0) == 501
    assert offsets.find([b"5", b"89", b"90", b"new"]) == [500, 89, -1, -1]


def test_the_map_never_uses_more_memory_than_it_was_given() -> None:
    given_bytes = 1 << 20
    offsets = OffsetMap(given_bytes, 0.9)
    assert len(offsets._buffer) <= given_bytes
    assert len(offsets._buffer) > 0.99 * given_bytes
    chance = random.Random(1)
    count = 0
    while offsets.put([chance.randbytes(20)], [count], 0, 0) is None:
        count += 1
    assert len(offsets._buffer) <= given_bytes
    assert 0.89 < offsets.utilization <= 0.9


def test_a_map_too_small_for_any_key_is_refused() -> None:
    with pytest.raises(ValueError, match="dedupe"):
        OffsetMap(ENTRY_BYTES, 0.9)


def test_offset_zero_is_an_offset_like_any_other() -> None:
    offsets = OffsetMap(ENTRY_BYTES * 10, 0.9)
    offsets.put([b"a"], [0], 0, 0)
    assert offsets.find([b"a", b"b"]) == [0, -1]


def test_records_without_a_key_or_before_the_dirty_part_are_not_noted() -> None:
    offsets = OffsetMap(ENTRY_BYTES * 10, 0.9)
    assert offsets.put([b"a", None, b"b"], [0, 1, 2], 10, 12) is None
    assert offsets.find([b"a", b"b"]) == [-1, 12]


# The walk


@unhurried
@given(RECORDS)
def test_the_walk_finds_what_decoding_finds(records: list[Record]) -> None:
    payload = encode_records(records, 0, NOW_MS)
    walked = walk(payload, len(records))
    assert walked.keys == [record.key for record in records]
    assert walked.offset_deltas == [record.offset for record in records]
    assert walked.tombstones == [record.value is None for record in records]
    assert [NOW_MS + from_zigzag(raw) for raw in walked.timestamps] == [
        record.timestamp for record in records
    ]
    assert walked.ends[-1] == len(payload)


@unhurried
@given(RECORDS, st.integers(-(2**41), 2**41))
def test_a_record_with_a_moved_timestamp_is_otherwise_the_same(
    records: list[Record], base_timestamp: int
) -> None:
    payload = encode_records(records, 0, NOW_MS)
    starts = [0, *walk(payload, len(records)).ends]
    moved = b"".join(
        moved_timestamp(payload, start, end, record.timestamp - base_timestamp)
        for start, end, record in zip(starts, starts[1:], records, strict=False)
    )
    assert list(decode_records(moved, len(records), 0, base_timestamp)) == records


@unhurried
@given(RECORDS, st.data())
def test_damaged_records_are_refused_or_read_but_never_run_over(
    records: list[Record], data: st.DataObject
) -> None:
    payload = bytearray(encode_records(records, 0, NOW_MS))
    position = data.draw(st.integers(0, len(payload) - 1))
    payload[position] = data.draw(st.integers(0, 255))
    try:
        walked = walk(bytes(payload), len(records))
    except InvalidBatch:
        return
    assert walked.ends == sorted(walked.ends)
    assert walked.ends[-1] == len(payload)


@pytest.mark.parametrize("count", [0, 1, 3])
def test_a_wrong_count_is_refused(count: int) -> None:
    payload = encode_records([Record(0, 0, b"a", b"b"), Record(1, 0, b"a", b"b")], 0, 0)
    with pytest.raises(InvalidBatch):
        walk(payload, count)


def test_bytes_that_end_in_the_middle_of_a_varint_are_refused() -> None:
    with pytest.raises(InvalidBatch):
        walk(b"\xff" * 12, 1)
    with pytest.raises(InvalidBatch):
        walk(b"\xff", 1)


@unhurried
@given(st.integers(-(2**63), 2**63 - 1))
def test_varints_are_as_the_records_need_them(value: int) -> None:
    key = encode_records([Record(0, value, None, None)], 0, 0)
    assert to_varint(value) in key


# Groups


def source(base_offset: int, size: int, index_bytes: int = 8) -> Source:
    return Source(base_offset, size, index_bytes, index_bytes, 0)


def bases(groups: list[list[Source]]) -> list[list[int]]:
    return [[segment.base_offset for segment in group] for group in groups]


def test_segments_are_grouped_by_size() -> None:
    segments = [source(number * 10, 40) for number in range(6)]
    config = TopicConfig(segment_bytes=100)
    assert bases(group_segments(segments, config, 60)) == [[0, 10], [20, 30], [40, 50]]


def test_segments_are_grouped_by_the_size_of_their_indexes() -> None:
    segments = [source(number * 10, 1, index_bytes=40) for number in range(4)]
    config = TopicConfig(segment_index_bytes=100)
    assert bases(group_segments(segments, config, 40)) == [[0, 10], [20, 30]]


def test_a_group_never_spans_more_offsets_than_an_index_can_name() -> None:
    segments = [source(0, 1), source(2**30, 1), source(2**31 - 1, 1), source(2**31 + 5, 1)]
    found = bases(group_segments(segments, TopicConfig(), 2**31 + 6))
    assert found == [[0, 2**30], [2**31 - 1, 2**31 + 5]]


@unhurried
@given(st.lists(st.integers(0, 200), min_size=1, max_size=40), st.integers(1, 300))
def test_groups_hold_every_segment_once_and_in_order(sizes: list[int], limit: int) -> None:
    segments = [source(number, size) for number, size in enumerate(sizes)]
    groups = group_segments(segments, compacted(segment_bytes=limit), len(sizes))
    assert [segment for group in groups for segment in group] == segments
    for group in groups:
        assert len(group) == 1 or sum(segment.size for segment in group) <= limit


# Pacing


def test_a_pace_is_kept_on_average() -> None:
    pacer, now_s = Pacer(1000), 0.0
    for _ in range(100):
        now_s += pacer.delay_s(100, now_s)
    assert now_s == pytest.approx(10.0)


def test_without_a_limit_nobody_waits() -> None:
    pacer = Pacer(1.7976931348623157e308)
    assert all(pacer.delay_s(1 << 30, 0.0) == pytest.approx(0.0) for _ in range(100))


def test_time_that_was_not_used_is_not_saved_up_for_long() -> None:
    pacer = Pacer(1000)
    pacer.delay_s(100, 0.0)
    assert pacer.delay_s(1000, 100.0) == pytest.approx(0.7)
