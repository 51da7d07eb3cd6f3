"""The parts of compaction: groups, pacing."""

from __future__ import annotations

import pytest
from cleaner_tools import compacted
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.broker.storage.cleaner.grouping import Source, group_segments
from ottla.broker.storage.cleaner.pacing import Pacer
from ottla.config.topic import TopicConfig

unhurried = settings(deadline=None)  # Other work on the machine must not fail a test.


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
