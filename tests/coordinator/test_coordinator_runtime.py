"""The runtime: what is written, when an answer leaves, and what happens when something fails."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
from coordinator_stage import ANSWER, NODE, CoordinatorStage, NotingShard, StageToken

from ottla.broker.coordinator.outbox import CoordinatorRecord, Now, Outbox
from ottla.broker.coordinator.runtime import Marker
from ottla.protocol.coordinator_records.offset_commit import OffsetCommitKey, OffsetCommitValue
from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.messages.write_txn_markers import WriteTxnMarkersResponse
from ottla.records.builder import build_batch, seal
from ottla.records.codec import Codec
from ottla.records.header import read_header
from ottla.records.record import Record


def writes(offset: int) -> Callable[[Any, Now, Outbox], None]:
    def step(shard: Any, now: Now, outbox: Outbox) -> None:
        key = OffsetCommitKey(group="g", topic="t", partition=0)
        outbox.append(key, OffsetCommitValue(offset=offset, metadata=""))

    return step


def run(story: Coroutine[Any, Any, None]) -> None:
    asyncio.run(story)


@pytest.fixture
def stage() -> CoordinatorStage:
    made = CoordinatorStage()
    made.follow()
    return made


def test_an_answer_waits_for_the_commit_of_what_its_step_wrote(stage: CoordinatorStage) -> None:
    partition = stage.partitions[0]
    partition.follows = False
    token = stage.request(writes(1))
    assert token.answers == []
    partition.catch_up()
    stage.runtime.advance()
    assert token.answers == [ANSWER]


def test_an_answer_without_records_waits_for_what_was_written_before(
    stage: CoordinatorStage,
) -> None:
    partition = stage.partitions[0]
    partition.follows = False
    first, second = stage.request(writes(1)), stage.request()
    assert (first.answers, second.answers) == ([], [])
    partition.catch_up()
    stage.runtime.advance()
    assert (first.answers, second.answers) == ([ANSWER], [ANSWER])
    assert stage.request().answers == [ANSWER]


def test_the_records_of_a_step_are_one_batch(stage: CoordinatorStage) -> None:
    def step(shard: Any, now: Now, outbox: Outbox) -> None:
        for offset in range(3):
            writes(offset)(shard, now, outbox)

    stage.request(step)
    (batch,) = stage.partitions[0].batches
    assert read_header(batch).record_count == 3
    assert not read_header(batch).is_transactional


def test_records_of_a_transaction_carry_their_producer(stage: CoordinatorStage) -> None:
    def step(shard: Any, now: Now, outbox: Outbox) -> None:
        outbox.producer = (42, 3)
        writes(1)(shard, now, outbox)

    stage.request(step)
    header = read_header(stage.partitions[0].batches[0])
    assert (header.is_transactional, header.producer_id, header.producer_epoch) == (True, 42, 3)


def test_an_answer_that_is_not_committed_in_time_is_an_error(stage: CoordinatorStage) -> None:
    stage.partitions[0].follows = False
    token = stage.request(writes(1))
    stage.runtime.advance(4.9)
    assert token.answers == []
    stage.runtime.advance(0.2)
    assert token.answers == [ErrorCode.COORDINATOR_NOT_AVAILABLE]


def test_a_step_that_refuses_leaves_no_trace(stage: CoordinatorStage) -> None:
    def step(shard: Any, now: Now, outbox: Outbox) -> None:
        writes(1)(shard, now, outbox)
        raise KafkaError(ErrorCode.ILLEGAL_GENERATION)

    shard = stage.shard()
    assert stage.request(step).answers == [ErrorCode.ILLEGAL_GENERATION]
    assert stage.partitions[0].batches == []
    assert stage.shard() is shard


def test_a_step_that_breaks_has_its_shard_made_anew_from_the_log(stage: CoordinatorStage) -> None:
    async def story() -> None:
        stage.request(writes(1))
        waiting = StageToken()
        stage.coordinator.hosted(0).request(waiting, lambda shard, now, outbox: None)

        def step(shard: Any, now: Now, outbox: Outbox) -> None:
            raise ZeroDivisionError

        broken = stage.shard()
        assert stage.request(step).answers == [ErrorCode.UNKNOWN_SERVER_ERROR]
        assert waiting.answers == [ErrorCode.NOT_COORDINATOR]  # it may ask again
        stage.runtime.advance(0.1)
        await stage.runtime.settle()
        assert stage.shard() is not broken
        assert len(stage.shard().replayed) == 1
        assert stage.request(writes(2)).answers == [ANSWER]

    run(story())


def test_a_step_whose_records_cannot_be_encoded_does_not_outlive_its_request(
    stage: CoordinatorStage,
) -> None:
    async def story() -> None:
        stage.request(writes(1))

        def step(shard: Any, now: Now, outbox: Outbox) -> None:
            shard.fired.append("in memory only")
            writes(2**63)(shard, now, outbox)

        broken = stage.shard()
        assert stage.request(step).answers == [ErrorCode.UNKNOWN_SERVER_ERROR]
        with pytest.raises(KafkaError, match="COORDINATOR_LOAD_IN_PROGRESS"):
            list(stage.coordinator.shards())
        stage.runtime.advance(0.1)
        await stage.runtime.settle()
        assert stage.shard() is not broken
        assert stage.shard().fired == []
        assert [record.value.offset for record, _ in stage.shard().replayed] == [1]
        assert [index for index, _ in stage.coordinator.shards()] == [0, 1]

    run(story())


def test_a_batch_that_is_too_large_is_told_as_kafka_does(stage: CoordinatorStage) -> None:
    stage.partitions[0].refuses = ErrorCode.MESSAGE_TOO_LARGE
    assert stage.request(writes(1)).answers == [ErrorCode.UNKNOWN_SERVER_ERROR]


def test_a_log_with_records_that_cannot_be_read_or_replayed_loads(
    caplog: pytest.LogCaptureFixture,
) -> None:
    class Picky(NotingShard):
        def replay(self, record: CoordinatorRecord, producer_id: int) -> None:
            if getattr(record.value, "offset", None) == 13:
                raise ZeroDivisionError
            super().replay(record, producer_id)

    async def story() -> None:
        stage = CoordinatorStage(Picky)
        stage.other_broker_writes(0, writes(1))
        for poison in (
            build_batch([Record(0, 0, b"\0\1", b"x")]),
            build_batch([Record(at, 0, None, None) for at in range(2000)], codec=Codec.ZSTD),
            _sealed(build_batch([Record(0, 0, b"k", b"v")], codec=Codec.ZSTD), b"no zstd"),
        ):
            stage.partitions[0].append(poison, read_header(poison), 0)
        stage.other_broker_writes(0, writes(13))
        stage.other_broker_writes(0, writes(2))
        stage.follow()
        await stage.runtime.settle()
        assert [record.value.offset for record, _ in stage.shard().replayed] == [1, 2]
        assert stage.request(writes(3)).answers == [ANSWER]

    run(story())
    told = [one.getMessage() for one in caplog.records]
    assert 10 <= len(told) <= 12


def _sealed(batch: bytes, payload: bytes) -> bytes:
    return seal(read_header(batch), payload)


def test_a_log_that_refuses_costs_the_shard_and_everybody_looks_for_the_coordinator_again(
    stage: CoordinatorStage,
) -> None:
    async def story() -> None:
        waiting = StageToken()
        stage.coordinator.hosted(0).request(waiting, lambda shard, now, outbox: None)
        stage.partitions[0].refuses = ErrorCode.KAFKA_STORAGE_ERROR
        assert stage.request(writes(1)).answers == [ErrorCode.NOT_COORDINATOR]
        assert waiting.answers == [ErrorCode.NOT_COORDINATOR]
        with pytest.raises(KafkaError, match="NOT_COORDINATOR"):
            stage.coordinator.hosted(0)
        stage.partitions[0].refuses = None
        stage.runtime.advance(0.1)
        await stage.runtime.settle()
        assert stage.request(writes(1)).answers == [ANSWER]

    run(story())


def test_a_shard_that_keeps_failing_is_not_reloaded_in_a_rush(stage: CoordinatorStage) -> None:
    made: list[int] = []

    def make(index: int) -> NotingShard:
        made.append(index)
        return NotingShard(index)

    stage = CoordinatorStage(make)
    stage.follow()
    stage.partitions[0].refuses = ErrorCode.KAFKA_STORAGE_ERROR
    for _ in range(100):
        stage.runtime.advance(0.1)
        token = StageToken()
        stage.coordinator.request("polygenelubricants", token, writes(1))
        assert token.answers == [ErrorCode.NOT_COORDINATOR]
    assert made.count(0) <= 4


def test_timers_fire_and_can_be_moved_and_dropped(stage: CoordinatorStage) -> None:
    def step(shard: Any, now: Now, outbox: Outbox) -> None:
        outbox.set_timer("soon", now.ms + 100)
        outbox.set_timer("late", now.ms + 1000)
        outbox.set_timer("never", now.ms + 100)
        outbox.cancel_timer("never")

    stage.request(step)
    stage.runtime.advance(0.5)
    assert stage.shard().fired == ["soon"]
    stage.request(lambda shard, now, outbox: outbox.set_timer("late", now.ms + 10_000))
    stage.runtime.advance(5)
    assert stage.shard().fired == ["soon"]
    stage.runtime.advance(6)
    assert stage.shard().fired == ["soon", "late"]


def test_a_marker_whose_write_breaks_is_answered_and_the_shard_loaded_anew(
    stage: CoordinatorStage, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(marker: Marker, now_ms: int) -> None:
        raise ValueError("not a marker that can be encoded")

    async def story() -> None:
        before = stage.shard()
        monkeypatch.setattr(stage.partitions[0], "append_marker", broken)
        token = StageToken()
        marker = Marker(producer_id=7, producer_epoch=0, coordinator_epoch=0, committed=True)
        stage.coordinator.end_transaction(0, marker, token, WriteTxnMarkersResponse())
        assert token.answers == [ErrorCode.UNKNOWN_SERVER_ERROR]
        stage.runtime.advance(0.1)
        await stage.runtime.settle()
        assert stage.shard() is not before
        assert stage.shard().ended == []

    run(story())


def test_a_shard_learns_its_log_before_it_answers(stage: CoordinatorStage) -> None:
    async def story() -> None:
        for offset in range(5):
            stage.request(writes(offset))
        marker = Marker(producer_id=7, producer_epoch=0, coordinator_epoch=0, committed=True)
        token = StageToken()
        stage.coordinator.end_transaction(0, marker, token, WriteTxnMarkersResponse())
        assert token.resolved
        again = CoordinatorStage()
        again.partitions[0] = stage.partitions[0]
        again.replicas.topics["__consumer_offsets"].partitions = again.partitions
        again.follow()
        assert again.request().answers == [ErrorCode.COORDINATOR_LOAD_IN_PROGRESS]
        await again.runtime.settle()
        shard = again.shard()
        assert [record.value.offset for record, _ in shard.replayed] == [0, 1, 2, 3, 4]
        assert shard.ended == [(7, True)]
        assert shard.is_loaded
        assert shard.images == [again.image]
        assert again.request().answers == [ANSWER]

    run(story())


def test_markers_are_told_to_the_shard_once_they_are_written(stage: CoordinatorStage) -> None:
    token = StageToken()
    marker = Marker(producer_id=7, producer_epoch=2, coordinator_epoch=5, committed=False)
    stage.coordinator.end_transaction(0, marker, token, WriteTxnMarkersResponse())
    assert token.answers == [WriteTxnMarkersResponse()]
    assert stage.shard().ended == [(7, False)]
    header = read_header(stage.partitions[0].batches[0])
    assert (header.is_control, header.producer_id, header.producer_epoch) == (True, 7, 2)


def test_a_refused_marker_disturbs_nobody(stage: CoordinatorStage) -> None:
    shard = stage.shard()
    stage.partitions[0].refuses = ErrorCode.INVALID_PRODUCER_EPOCH
    token = StageToken()
    marker = Marker(producer_id=7, producer_epoch=2, coordinator_epoch=5, committed=False)
    stage.coordinator.end_transaction(0, marker, token, WriteTxnMarkersResponse())
    assert token.answers == [ErrorCode.INVALID_PRODUCER_EPOCH]
    assert (stage.shard(), shard.ended) == (shard, [])


def test_partitions_led_elsewhere_are_not_coordinated_here(stage: CoordinatorStage) -> None:
    stage.partitions[0].follows = False
    waiting = stage.request(writes(1))
    stage.partitions[0].leader_id = NODE + 1
    stage.follow()
    assert waiting.answers == [ErrorCode.NOT_COORDINATOR]
    with pytest.raises(KafkaError, match="NOT_COORDINATOR"):
        stage.coordinator.hosted(0)
    assert [index for index, _ in stage.coordinator.shards()] == [1]


def test_those_who_wait_are_told_when_another_broker_takes_over(stage: CoordinatorStage) -> None:
    partition = stage.partitions[0]
    partition.follows = False
    token = stage.request(writes(1))
    partition.leader_id = NODE + 1
    partition.disturb()
    stage.follow()
    assert token.answers == [ErrorCode.NOT_COORDINATOR]
    assert stage.unloaded == [0]
    partition.catch_up()
    stage.runtime.advance(10)
    assert token.answers == [ErrorCode.NOT_COORDINATOR]


def test_a_leader_that_goes_on_in_a_new_epoch_keeps_its_shard(stage: CoordinatorStage) -> None:
    partition, shard = stage.partitions[0], stage.shard()
    partition.follows = False
    token = stage.request(writes(1))
    partition.leader_epoch = 5
    partition.disturb()
    stage.follow()
    assert stage.shard() is shard
    assert shard.leader_epoch == 5
    partition.catch_up()
    stage.runtime.advance()
    assert token.answers == [ANSWER]


def test_a_shard_that_comes_back_knows_what_others_wrote_meanwhile(
    stage: CoordinatorStage,
) -> None:
    async def story() -> None:
        partition = stage.partitions[0]
        stage.request(writes(1))
        partition.leader_id, partition.leader_epoch = NODE + 1, 1
        stage.follow()
        stage.other_broker_writes(0, writes(2))
        partition.leader_id, partition.leader_epoch = NODE, 2
        stage.follow()
        assert stage.request().answers == [ErrorCode.COORDINATOR_LOAD_IN_PROGRESS]
        await stage.runtime.settle()
        replayed = [record.value.offset for record, _ in stage.shard().replayed]
        assert replayed == [1, 2]
        assert stage.shard().leader_epoch == 2

    run(story())


def test_with_too_few_replicas_only_reads_are_served(stage: CoordinatorStage) -> None:
    stage.partitions[0].lacks_replicas = True
    assert stage.request(writes(1)).answers == [ErrorCode.COORDINATOR_NOT_AVAILABLE]
    assert stage.partitions[0].batches == []
    assert stage.request(writes=False).answers == [ANSWER]
    token = StageToken()
    stage.coordinator.end_transaction(0, Marker(7, 0, 3, True), token, WriteTxnMarkersResponse())
    assert token.answers == [ErrorCode.NOT_ENOUGH_REPLICAS]


def test_a_request_that_comes_before_its_topic_waits_for_it() -> None:
    stage = CoordinatorStage()
    early = StageToken()
    stage.coordinator.request("g", early, lambda shard, now, outbox: outbox.reply(early, ANSWER))
    stage.runtime.advance(0.9)
    assert early.answers == []
    stage.follow()
    assert early.answers == [ANSWER]
    stage.runtime.advance(1)
    assert early.answers == [ANSWER]


def test_requests_without_a_topic_are_refused_after_a_second_and_beyond_a_hundred() -> None:
    stage = CoordinatorStage(created=False)
    stage.follow()
    tokens = [StageToken() for _ in range(101)]
    for token in tokens:
        stage.coordinator.request("g", token, writes(1))
    assert tokens.pop().answers == [ErrorCode.NOT_COORDINATOR]
    stage.runtime.advance(0.9)
    assert all(token.answers == [] for token in tokens)
    stage.runtime.advance(0.2)
    assert all(token.answers == [ErrorCode.NOT_COORDINATOR] for token in tokens)


def test_after_a_wait_in_vain_requests_do_not_wait_again_for_a_while() -> None:
    stage = CoordinatorStage(created=False)
    stage.follow()
    in_vain, soon, later = StageToken(), StageToken(), StageToken()
    stage.coordinator.request("g", in_vain, writes(1))
    stage.runtime.advance(1.1)
    stage.coordinator.request("g", soon, writes(1))
    assert soon.answers == [ErrorCode.NOT_COORDINATOR]
    stage.runtime.advance(10)
    stage.coordinator.request("g", later, writes(1))
    assert later.answers == []


def test_requests_that_wait_for_a_topic_are_refused_when_the_broker_stops() -> None:
    stage = CoordinatorStage(created=False)
    token = StageToken()
    stage.coordinator.request("g", token, writes(1))
    stage.coordinator.close()
    assert token.answers == [ErrorCode.NOT_COORDINATOR]


def test_a_request_that_a_step_keeps_is_answered_by_a_later_one(stage: CoordinatorStage) -> None:
    token = StageToken()
    stage.coordinator.hosted(0).request(token, lambda shard, now, outbox: None)
    assert token.answers == []
    stage.coordinator.run(0, lambda shard, now, outbox: outbox.reply(token, ANSWER))
    assert token.answers == [ANSWER]
    stage.coordinator.close()
    assert token.answers == [ANSWER]


def test_a_coroutine_can_wait_for_a_step(stage: CoordinatorStage) -> None:
    async def story() -> None:
        asked = stage.coordinator.ask(
            0, lambda shard, token, now, outbox: outbox.reply(token, ANSWER)
        )
        assert await asked == ANSWER

        def refuse(shard: Any, token: Any, now: Now, outbox: Outbox) -> None:
            raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND)

        with pytest.raises(KafkaError, match="GROUP_ID_NOT_FOUND"):
            await stage.coordinator.ask(0, refuse)

    run(story())
