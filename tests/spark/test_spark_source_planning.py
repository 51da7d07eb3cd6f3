"""Limits spread over partitions, ranges cut into tasks, and what two sets of offsets mean. Pure."""

from __future__ import annotations

import itertools
from collections import defaultdict

from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.client.values import TopicPartition
from ottla.spark.source import data_loss
from ottla.spark.source.offsets import EARLIEST, LATEST, Offsets
from ottla.spark.source.planning import Range, needs_earliest, ranges_between, split, spread
from ottla.spark.source.topic_history import TopicHistory

A, B, C = (TopicPartition("t", number) for number in range(3))
COUNTS = st.integers(0, 10**12)
PARTITIONS = st.builds(TopicPartition, st.sampled_from(["a", "b"]), st.integers(0, 5))


@st.composite
def batches(draw) -> tuple[Offsets, Offsets]:
    start = draw(st.dictionaries(PARTITIONS, COUNTS, min_size=1, max_size=8))
    return start, {one: offset + draw(COUNTS) for one, offset in start.items()}


# Limits


@settings(deadline=None)
@given(batches(), st.integers(1, 10**12))
def test_a_limit_is_shared_in_proportion_and_starves_nobody(batch, limit: int) -> None:
    start, end = batch
    reached = spread(limit, start, end)
    total = sum(end[one] - start[one] for one in end)
    assert reached.keys() == end.keys()
    for one in end:
        size, got = end[one] - start[one], reached[one] - start[one]
        assert 0 <= got <= size
        assert got >= min(1, size)
        if total <= limit:
            assert got == size
        else:
            assert got <= max(1, limit * size / total + 1e-6 * size)
    assert sum(reached[one] - start[one] for one in end) <= limit + len(end)


@settings(deadline=None)
@given(batches(), st.integers(1, 1000))
def test_batch_after_batch_comes_to_the_end(batch, parts: int) -> None:
    start, end = batch
    total = sum(end[one] - start[one] for one in end)
    limit = max(2 * len(end), total // parts)
    # Rounding takes less than one offset of each partition, so a round passes half of the limit.
    for _ in range(2 * total // limit + 1):
        start = spread(limit, start, end)
    assert start == end


def test_shares_as_in_sparks_source() -> None:
    assert spread(15, {A: 0, B: 0, C: 0}, {A: 100, B: 50, C: 1}) == {A: 9, B: 4, C: 1}
    # What is not known to begin anywhere is not limited; the planner tells what is wrong with it.
    assert spread(1, {A: 0}, {A: 2, B: 9}) == {A: 1, B: 9}


# Tasks


@st.composite
def many_ranges(draw) -> list[Range]:
    starts = draw(st.dictionaries(PARTITIONS, COUNTS, max_size=8))
    return [Range(one, at, at + draw(COUNTS)) for one, at in starts.items()]


@settings(deadline=None)
@given(many_ranges(), st.none() | st.integers(1, 50), st.integers(1, 20))
def test_tasks_cover_the_ranges_once_and_in_order(ranges, min_partitions, share: int) -> None:
    largest = max((one.size for one in ranges), default=0)
    max_records = max(1, largest // share)
    for most in (None, max_records):
        tasks = split(ranges, min_partitions, most)
        assert all(task.size > 0 for task in tasks)
        assert most is None or all(task.size <= most for task in tasks)
        found = defaultdict(list)
        for task in tasks:
            found[task.partition].append((task.start, task.until))
        for one in ranges:
            parts = found.pop(one.partition, [])
            ends = [one.start, *(until for _, until in parts)]
            assert parts == list(itertools.pairwise(ends))
            assert ends[-1] == (one.until if one.size else one.start)
        assert not found


@settings(deadline=None)
@given(many_ranges(), st.integers(1, 50))
def test_about_as_many_tasks_as_wanted(ranges, min_partitions: int) -> None:
    filled = [one for one in ranges if one.size >= min_partitions]
    if filled:
        tasks = len(split(filled, min_partitions))
        assert max(len(filled), min_partitions - len(filled)) <= tasks
        assert tasks <= max(len(filled), min_partitions + len(filled))


def test_by_default_a_task_is_a_partition() -> None:
    ranges = [Range(A, 0, 1000), Range(B, 5, 5), Range(C, 0, 1)]
    assert split(ranges) == [ranges[0], ranges[2]]
    assert split(ranges, min_partitions=2) == [ranges[0], ranges[2]]
    assert split(ranges, min_partitions=4) == [
        *(Range(A, 0, 333), Range(A, 333, 666), Range(A, 666, 1000)),
        ranges[2],
    ]


# What two sets of offsets mean


def between(start: Offsets, end: Offsets, earliest: Offsets) -> list[Range]:
    wanted = needs_earliest(start, end)
    return ranges_between(start, end, {one: at for one, at in earliest.items() if one in wanted})


def test_a_range_begins_where_the_batch_before_ended() -> None:
    assert between({A: 3, B: 7}, {A: 5, B: 7}, {A: 0, B: 0}) == [Range(A, 3, 5)]


def test_what_begins_at_the_latest_reads_nothing_at_first() -> None:
    assert between({A: LATEST}, {A: 5}, {A: 0}) == []


def test_new_and_earliest_and_made_anew_begin_at_the_first_record() -> None:
    start, end = {B: EARLIEST, C: 50}, {A: 5, B: 6, C: 20}
    expected = [Range(A, 0, 5), Range(B, 2, 6), Range(C, 1, 20)]
    assert between(start, end, {A: 0, B: 2, C: 1}) == expected


def test_loss_is_told_of_what_is_gone_changed_or_began_too_late() -> None:
    assert data_loss.between({A: 1, B: LATEST}, {A: 2, B: 0, C: 5}, {C: 0}) == []
    (gone,) = data_loss.between({A: 1, B: 2}, {A: 1}, {})
    assert gone == "Partitions t-1 are gone: the topic was deleted."
    (changed,) = data_loss.between({A: 9}, {A: 5}, {A: 0})
    assert changed.startswith("Partition t-0's offset was changed from 9 to 5")
    (late,) = data_loss.between({A: 1}, {A: 1, B: 9}, {B: 4})
    assert late == "Added partition t-1 starts from 4 instead of 0."
    (lost,) = data_loss.between({}, {B: 9}, {})
    assert lost.startswith("The earliest offset of t-1 cannot be found")


def test_a_topic_made_anew_is_read_from_its_first_record_even_if_it_has_outgrown_the_old() -> None:
    old = TopicHistory().seen({"t": b"1" * 16})
    new = old.seen({"t": b"2" * 16})
    assert old.ends({A: 10}, {A: 30}) == {A: 30}
    end = new.ends({A: 10, B: 0}, {A: 30, B: 5, C: 7})
    assert end == {A: 9, B: 5, C: 7}
    assert between({A: 10, B: 0}, end, {A: 0, C: 0}) == [
        *(Range(A, 0, 9), Range(B, 0, 5), Range(C, 0, 7))
    ]
    assert new.seen({"t": b"2" * 16}).ends(end, {A: 30, B: 5, C: 7}) == {A: 30, B: 5, C: 7}


def test_a_log_cut_off_is_told_from_a_topic_made_anew() -> None:
    begin, until = {A: 10}, {A: 8}
    first = TopicHistory().seen({"t": b"1" * 16})
    assert first.truncated(begin, until) == set()  # after a restart: it cannot be known
    assert first.seen({"t": b"1" * 16}).truncated(begin, until) == {A}
    assert first.seen({"t": b"2" * 16}).truncated(begin, until) == set()
    assert (
        TopicHistory().seen({"t": bytes(16)}).seen({"t": bytes(16)}).truncated(begin, until)
        == set()
    )
