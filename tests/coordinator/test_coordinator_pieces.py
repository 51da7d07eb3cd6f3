"""The small parts under the runtime: hashing, timers, and reading a log back."""

from __future__ import annotations

from collections.abc import Hashable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.coordinator.hashing import java_string_hash, partition_of
from ottla.coordinator.loading import Ended, Written, end_of, events_of
from ottla.coordinator.outbox import CoordinatorRecord
from ottla.coordinator.record_codec import GROUP_RECORDS, encode
from ottla.coordinator.timers import TimerQueue
from ottla.protocol.coordinator_records.offset_commit import OffsetCommitKey, OffsetCommitValue
from ottla.records.builder import build_batch
from ottla.records.control import end_txn_marker
from ottla.records.record import Record

# --- hashing ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", 0),
        ("a", 97),
        ("foo", 101574),
        ("console-consumer-12345", 158455506),
        ("polygenelubricants", -(2**31)),
        ("grüße", 98768023),
        ("\U0001f600", 1772899),
    ],
)
def test_strings_hash_as_in_java(text: str, expected: int) -> None:
    assert java_string_hash(text) == expected


def test_the_one_hash_without_a_positive_twin_is_partition_zero() -> None:
    assert partition_of("polygenelubricants", 50) == 0


@given(st.text(), st.integers(1, 1000))
def test_every_key_has_a_partition(key: str, count: int) -> None:
    assert 0 <= partition_of(key, count) < count


# --- timers -------------------------------------------------------------------------------------

changes = st.dictionaries(st.sampled_from("abcdef"), st.none() | st.integers(0, 100), max_size=3)


@given(st.lists(st.tuples(changes, st.integers(0, 10))))
def test_timers_fire_once_when_due_and_as_they_were_last_set(
    story: list[tuple[dict[Hashable, int | None], int]],
) -> None:
    queue = TimerQueue()
    model: dict[Hashable, int] = {}
    now = 0
    for updates, step in story:
        queue.update(updates)
        for key, due in updates.items():
            if due is None:
                model.pop(key, None)
            else:
                model[key] = due
        now += step
        fired = []
        while (key := queue.pop_due(now)) is not None:
            fired.append(key)
        assert sorted(map(str, fired)) == sorted(str(k) for k, due in model.items() if due <= now)
        model = {key: due for key, due in model.items() if due > now}
        assert len(queue) == len(model)
        next_due = queue.next_due_ms()
        assert next_due is not None or not model
        if model and next_due is not None:
            assert next_due <= min(model.values()), "it would wake up too late"


def test_a_timer_that_is_moved_a_million_times_takes_no_more_room() -> None:
    queue = TimerQueue()
    for at in range(100_000):
        queue.update({"heartbeat": 100_000 - at})
        queue.update({"heartbeat": 200_000 + at})
    assert len(queue._heap) < 100


# --- loading ------------------------------------------------------------------------------------


def commit(offset: int, group: str = "g") -> CoordinatorRecord:
    key = OffsetCommitKey(group=group, topic="t", partition=0)
    return CoordinatorRecord(key, OffsetCommitValue(offset=offset, metadata=""))


def batch(base: int, *records: CoordinatorRecord, producer_id: int = -1) -> bytes:
    return build_batch(
        [Record(base + at, 0, *encode(record)) for at, record in enumerate(records)],
        producer_id=producer_id,
        transactional=producer_id >= 0,
    )


def marker(base: int, producer_id: int, committed: bool) -> bytes:
    return end_txn_marker(
        committed=committed,
        coordinator_epoch=0,
        producer_id=producer_id,
        producer_epoch=0,
        timestamp_ms=0,
        base_offset=base,
    )


def test_a_log_is_told_in_order_with_its_transactions() -> None:
    data = (
        batch(0, commit(1), commit(2))
        + batch(2, commit(3), producer_id=7)
        + marker(3, 7, committed=True)
        + marker(4, 8, committed=False)
    )
    assert end_of(data, 0) == 5
    assert list(events_of(data, 0, GROUP_RECORDS)) == [
        Written(commit(1), -1),
        Written(commit(2), -1),
        Written(commit(3), 7),
        Ended(7, committed=True),
        Ended(8, committed=False),
    ]


@given(st.data())
def test_a_log_read_in_pieces_of_any_size_tells_the_same(data: st.DataObject) -> None:
    batches = [batch(2 * at, commit(at), commit(at + 100)) for at in range(6)]
    whole = b"".join(batches)
    events: list[object] = []
    offset = 0
    while offset < 12:
        start = sum(map(len, batches[: offset // 2]))
        size = data.draw(st.integers(len(batches[0]), len(whole)))
        piece = whole[start : start + size]
        events += events_of(piece, offset, GROUP_RECORDS)
        offset = end_of(piece, offset)
    assert events == list(events_of(whole, 0, GROUP_RECORDS))


def test_records_from_the_future_and_without_a_key_are_passed_over() -> None:
    strange = build_batch([Record(0, 0, b"\x7f\xffnew", b"x"), Record(1, 0, None, b"x")])
    assert list(events_of(strange + batch(2, commit(1)), 0, GROUP_RECORDS)) == [
        Written(commit(1), -1)
    ]
