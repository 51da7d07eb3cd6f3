"""Fetch sessions (KIP-227) behave as a reader relies on them."""

from random import Random
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.broker.server.fetch_sessions import (
    CACHED_PARTITIONS_MAX,
    FetchSession,
    FetchSessionCache,
)
from ottla.protocol.errors import ErrorCode


def wanted(partition: int, offset: int = 0) -> SimpleNamespace:
    return SimpleNamespace(
        partition=partition, fetch_offset=offset, partition_max_bytes=1024, current_leader_epoch=-1
    )


def topic(name: str, *partitions: SimpleNamespace) -> SimpleNamespace:
    return SimpleNamespace(topic=name, topic_id=b"", partitions=list(partitions))


def answer(**changes: object) -> SimpleNamespace:
    fields = {
        "records": b"",
        "error_code": 0,
        "high_watermark": 10,
        "log_start_offset": 0,
        "preferred_read_replica": -1,
        "diverging_epoch": SimpleNamespace(epoch=-1),
    }
    return SimpleNamespace(**(fields | changes))


@pytest.fixture
def cache() -> FetchSessionCache:
    return FetchSessionCache(slots_max=2, random=Random(1))


def test_an_incremental_request_finds_its_session_and_advances_the_epoch(
    cache: FetchSessionCache,
) -> None:
    session = cache.create(by_topic_id=False, size=1, now_s=0)
    assert session is not None
    assert cache.resume(session.id, 1, False, 1.0) is session
    assert session.epoch == 2
    assert cache.resume(session.id, 1, False, 1.0) is ErrorCode.INVALID_FETCH_SESSION_EPOCH
    assert cache.resume(session.id, 2, True, 1.0) is ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR
    assert cache.resume(session.id + 1, 2, False, 1.0) is ErrorCode.FETCH_SESSION_ID_NOT_FOUND


def test_the_epoch_wraps_from_the_largest_int32_to_one(cache: FetchSessionCache) -> None:
    session = cache.create(by_topic_id=True, size=1, now_s=0)
    assert session is not None
    session.epoch = 0x7FFFFFFF
    assert cache.resume(session.id, 0x7FFFFFFF, True, 0) is session
    assert session.epoch == 1


def test_a_full_cache_gives_no_session_while_all_are_fresh(cache: FetchSessionCache) -> None:
    assert cache.create(False, 1, now_s=0)
    assert cache.create(False, 1, now_s=0)
    assert cache.create(False, 100, now_s=60) is None
    assert len(cache) == 2


def test_a_session_unused_for_the_eviction_time_gives_way(cache: FetchSessionCache) -> None:
    stale = cache.create(False, 1, now_s=0)
    fresh = cache.create(False, 1, now_s=0)
    assert stale is not None
    assert fresh is not None
    assert cache.resume(fresh.id, 1, False, now_s=119) is fresh
    assert cache.create(False, 1, now_s=121) is not None
    assert cache.resume(stale.id, 1, False, 122) is ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert cache.resume(fresh.id, 2, False, 122) is fresh


def test_a_larger_new_session_displaces_a_settled_smaller_one_in_use(
    cache: FetchSessionCache,
) -> None:
    small = cache.create(False, 1, now_s=0)
    large = cache.create(False, 3, now_s=0)
    assert small is not None
    assert large is not None
    small.update([topic("a", wanted(0))], ())
    large.update([topic("a", wanted(0), wanted(1), wanted(2))], ())
    cache.resume(small.id, 1, False, now_s=130)
    cache.resume(large.id, 1, False, now_s=130)
    assert cache.create(False, 1, now_s=131) is None, "not larger than the smallest"
    assert cache.create(False, 2, now_s=131) is not None
    assert cache.resume(small.id, 2, False, 132) is ErrorCode.FETCH_SESSION_ID_NOT_FOUND


def test_partitions_are_added_changed_and_forgotten() -> None:
    session = FetchSession(7, by_topic_id=False, now_s=0)
    session.update([topic("a", wanted(0), wanted(1))], ())
    session.update(
        [topic("a", wanted(1, offset=5))], [SimpleNamespace(topic="a", partitions=[0, 9])]
    )
    assert [(p.topic, p.index, p.offset) for p in session.partitions.values()] == [("a", 1, 5)]


def test_a_partition_that_had_data_goes_to_the_end_of_the_order() -> None:
    session = FetchSession(7, by_topic_id=False, now_s=0)
    session.update([topic("a", wanted(0), wanted(1), wanted(2))], ())
    session.move_to_end(session.partitions["a", 0])
    assert [p.index for p in session.partitions.values()] == [1, 2, 0]


def test_only_news_is_told() -> None:
    session = FetchSession(7, by_topic_id=False, now_s=0)
    session.update([topic("a", wanted(0))], ())
    partition = session.partitions["a", 0]
    assert partition.has_news(answer()), "the first answer"
    assert not partition.has_news(answer())
    assert partition.has_news(answer(records=b"x"))
    assert partition.has_news(answer(high_watermark=11))
    assert partition.has_news(answer(high_watermark=11, log_start_offset=4))
    assert not partition.has_news(answer(high_watermark=11, log_start_offset=4))


def test_an_error_is_repeated_and_its_end_is_news() -> None:
    session = FetchSession(7, by_topic_id=False, now_s=0)
    session.update([topic("a", wanted(0))], ())
    partition = session.partitions["a", 0]
    partition.has_news(answer())
    assert partition.has_news(answer(error_code=56, high_watermark=-1, log_start_offset=-1))
    assert partition.has_news(answer(error_code=56, high_watermark=-1, log_start_offset=-1))
    assert partition.has_news(answer())
    assert not partition.has_news(answer())


def test_a_session_ends_with_its_connection_or_with_the_next_one_on_it(
    cache: FetchSessionCache,
) -> None:
    first, second = 1, 2
    replaced = cache.create(False, 1, 0, first)
    closed = cache.create(False, 1, 0, second)
    assert replaced is not None
    assert closed is not None
    cache.forget(second)
    assert cache.create(False, 1, 0, first) is not None
    assert len(cache) == 1
    for gone in (replaced, closed):
        assert cache.resume(gone.id, 1, False, 1.0) is ErrorCode.FETCH_SESSION_ID_NOT_FOUND


def test_sessions_have_a_bounded_number_of_partitions_in_all(cache: FetchSessionCache) -> None:
    assert cache.create(False, CACHED_PARTITIONS_MAX + 1, 0) is None
    assert cache.create(False, CACHED_PARTITIONS_MAX, 0) is not None


def test_a_large_session_displaces_as_many_as_it_needs_room_for(cache: FetchSessionCache) -> None:
    sizes = (CACHED_PARTITIONS_MAX // 2 - 1, CACHED_PARTITIONS_MAX // 2)
    for size in sizes:
        session = cache.create(False, size, 0)
        assert session is not None
        cache.update(session, [topic("a", *map(wanted, range(size)))], ())
    assert cache.create(False, CACHED_PARTITIONS_MAX // 2 + 2, 300) is not None
    assert cache.partition_count == 0
    assert len(cache) == 1


def test_sessions_that_grow_stay_within_the_bound_of_all(cache: FetchSessionCache) -> None:
    large = cache.create(False, CACHED_PARTITIONS_MAX - 1, 0)
    small = cache.create(False, 1, 0)
    assert large is not None
    assert small is not None
    cache.update(large, [topic("a", *map(wanted, range(CACHED_PARTITIONS_MAX - 1)))], ())
    cache.update(small, [topic("a", wanted(0))], ())
    assert not cache.is_too_large(small)
    cache.update(small, [topic("a", wanted(1))], ())
    assert cache.is_too_large(small)


# What may happen to a cache with room for three sessions: the kind, then who and which partitions.
EVENTS = st.tuples(
    st.sampled_from(["create", "update", "close", "disconnect", "wait"]),
    st.integers(0, 4),
    st.sets(st.integers(0, 9), max_size=5),
    st.sets(st.integers(0, 9), max_size=5),
)


@given(st.lists(EVENTS, max_size=60))
def test_the_count_of_partitions_never_drifts(
    events: list[tuple[str, int, set[int], set[int]]],
) -> None:
    cache = FetchSessionCache(slots_max=3, eviction_ms=1000, random=Random(1))
    seen: list[FetchSession] = []
    now_s = 0.0
    for kind, number, added, forgotten in events:
        session = seen[number % len(seen)] if seen else None
        topics = [topic("a", *map(wanted, added))]
        if kind == "create":
            made = cache.create(False, len(added), now_s, connection_id=number)
            if made is not None:
                cache.update(made, topics, ())
                seen.append(made)
        elif kind == "disconnect":
            cache.forget(number)
        elif kind == "wait":
            now_s += number
        elif session is not None and kind == "close":
            cache.close(session.id)
        elif session is not None:
            # Also one that is gone: its request may have been under way.
            cache.resume(session.id, session.epoch, False, now_s)
            cache.update(session, topics, [SimpleNamespace(topic="a", partitions=forgotten)])
        held = [one for one in seen if cache._sessions.get(one.id) is one]
        assert len(held) == len(cache)
        assert cache.partition_count == sum(len(one.partitions) for one in held)
