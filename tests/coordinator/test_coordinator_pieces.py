"""The small parts under the runtime: hashing, timers, and reading a log back."""

from __future__ import annotations

from collections.abc import Hashable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.broker.coordinator.hashing import java_string_hash, partition_of
from ottla.broker.coordinator.loading import Ended, Event, Unreadable, Written, end_of, events_of
from ottla.broker.coordinator.outbox import CoordinatorRecord
from ottla.broker.coordinator.record_codec import GROUP_RECORDS, encode
from ottla.broker.coordinator.timers import TimerQueue
from ottla.protocol.coordinator_records.offset_commit import OffsetCommitKey, OffsetCommitValue
from ottla.records.builder import build_batch
from ottla.records.control import end_txn_marker
from ottla.records.header import batches
from ottla.records.reader import payload_of
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
    assert events_in(data) == [
        Written(0, commit(1), -1),
        Written(1, commit(2), -1),
        Written(2, commit(3), 7),
        Ended(3, 7, committed=True),
        Ended(4, 8, committed=False),
    ]


@given(st.data())
def test_a_log_read_in_pieces_of_any_size_tells_the_same(data: st.DataObject) -> None:
    pieces = [batch(2 * at, commit(at), commit(at + 100)) for at in range(6)]
    whole = b"".join(pieces)
    events: list[object] = []
    offset = 0
    while offset < 12:
        start = sum(map(len, pieces[: offset // 2]))
        size = data.draw(st.integers(len(pieces[0]), len(whole)))
        piece = whole[start : start + size]
        events += events_in(piece, offset)
        offset = end_of(piece, offset)
    assert events == events_in(whole)


def test_what_cannot_be_read_is_told_as_such() -> None:
    key, value = encode(commit(1))
    strange = [
        (b"\x7f\xffnew", b"x", "type 32767"),
        (None, b"x", "no key"),
        (b"\0", b"x", "no type"),
        (b"\0\1", b"x", "OffsetCommitKey"),
        (key, b"", "no version"),
        (key, b"\x7f\xff" + (value or b""), "32767"),
        (key, (value or b"")[:-4], "OffsetCommitValue"),
    ]
    records = [Record(at, 0, k, v) for at, (k, v, _) in enumerate(strange)]
    *unread, last = events_in(build_batch(records) + batch(len(strange), commit(1)))
    assert last == Written(len(strange), commit(1), -1)
    for at, (event, (_, _, reason)) in enumerate(zip(unread, strange, strict=True)):
        assert isinstance(event, Unreadable)
        assert event.offset == at
        assert reason in event.reason


def test_of_a_batch_that_is_damaged_in_the_middle_the_front_is_told() -> None:
    good = bytearray(batch(0, commit(1), commit(2)))
    good[-1] = 0x7F
    events = events_in(bytes(good) + batch(2, commit(3)))
    assert [type(event) for event in events] == [Written, Unreadable, Written]


def events_in(data: bytes, offset: int = 0) -> list[Event]:
    return [
        event
        for header, piece in batches(data)
        if header.last_offset >= offset
        for event in events_of(header, payload_of(header, piece), GROUP_RECORDS)
    ]
