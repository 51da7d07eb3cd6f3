"""Fetch sessions (KIP-227) behave as a reader relies on them."""

from random import Random
from types import SimpleNamespace

import pytest

from ottla.protocol.errors import ErrorCode
from ottla.server.fetch_sessions import FetchSession, FetchSessionCache


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
    return FetchSessionCache(slots_max=2, eviction_ms=120_000, random=Random(1))


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
