"""What a transactional producer makes of a coordinator's answers, and of their absence."""

from __future__ import annotations

import asyncio

import pytest
from scripted_coordinator import HANG_UP, SILENCE, Reply, Stage, on_stage

from ottla.client.errors import (
    ProducerFenced,
    TransactionAborted,
    TransactionFailed,
    TransactionFatal,
    TransactionStateError,
    TransactionTimedOut,
)
from ottla.client.producer.transactions.state import State
from ottla.client.values import GroupMetadata, OffsetAndMetadata, TopicPartition
from ottla.protocol.apis import ApiKey
from ottla.protocol.errors import ErrorCode as E
from ottla.protocol.errors import KafkaError

ONE, TWO = TopicPartition("t", 0), TopicPartition("t", 1)
OFFSETS = {ONE: OffsetAndMetadata(5)}
GROUP = GroupMetadata("g", 3, "member", "instance")
IMPATIENT = {"max_block_ms": 300, "request_timeout_ms": 400, "delivery_timeout_ms": 500}
"""A call gives up before the connection on which nobody answers does."""
PASSING: tuple[Reply, ...] = (
    E.CONCURRENT_TRANSACTIONS,
    E.COORDINATOR_LOAD_IN_PROGRESS,
    E.NOT_COORDINATOR,
    E.COORDINATOR_NOT_AVAILABLE,
    HANG_UP,
)


async def begun(stage: Stage) -> None:
    await stage.manager.init()
    await stage.manager.begin()


async def whole_transaction(stage: Stage) -> None:
    await begun(stage)
    assert stage.manager.keeper.admits(ONE)
    await stage.manager.commit()


async def broken_block(stage: Stage, lost: KafkaError | None = None) -> None:
    async with stage.manager.transaction(stage.manager.abort):
        assert stage.manager.keeper.admits(ONE)
        if lost is not None:
            stage.manager.keeper.failed(ONE, lost)
        raise ZeroDivisionError


# What passes


@pytest.mark.parametrize("protocol", [1, 2])
def test_troubles_that_pass_are_waited_out_in_every_request(protocol: int) -> None:
    async def play(stage: Stage) -> None:
        apis = [ApiKey.INIT_PRODUCER_ID, ApiKey.TXN_OFFSET_COMMIT, ApiKey.END_TXN]
        if protocol == 1:
            apis += [ApiKey.ADD_PARTITIONS_TO_TXN, ApiKey.ADD_OFFSETS_TO_TXN]
        for api in apis:
            stage.coordinator.will(api, *PASSING)
        stage.coordinator.will(ApiKey.FIND_COORDINATOR, E.COORDINATOR_NOT_AVAILABLE)
        await begun(stage)
        assert await stage.admitted(ONE)
        await stage.manager.send_offsets(OFFSETS, GROUP)
        await stage.manager.commit()
        assert stage.manager.state is State.READY
        for api in apis:
            assert len(stage.coordinator.requests(api)) == len(PASSING) + 1

    on_stage(play, protocol=protocol)


def test_a_coordinator_that_is_busy_is_asked_again_soon() -> None:
    async def play(stage: Stage) -> None:
        await begun(stage)
        stage.coordinator.will(ApiKey.ADD_PARTITIONS_TO_TXN, *[E.CONCURRENT_TRANSACTIONS] * 3)
        asked_at = asyncio.get_running_loop().time()
        assert await stage.admitted(ONE)
        assert asyncio.get_running_loop().time() - asked_at < 10.0
        assert len(stage.coordinator.requests(ApiKey.ADD_PARTITIONS_TO_TXN)) == 4

    on_stage(play, protocol=1, retry_backoff_ms=10_000, retry_backoff_max_ms=20_000)


# Protocols


def test_by_protocol_1_partitions_are_added_in_one_request_before_anything_is_sent() -> None:
    async def play(stage: Stage) -> None:
        await begun(stage)
        assert stage.manager.keeper.produce_version_max == 11
        assert not stage.manager.keeper.admits(ONE)
        assert not stage.manager.keeper.admits(TWO)
        assert await stage.admitted(ONE)
        assert stage.manager.keeper.admits(TWO)
        (added,) = stage.coordinator.requests(ApiKey.ADD_PARTITIONS_TO_TXN)
        (topic,) = added.request.v3_and_below_topics
        assert (topic.name, topic.partitions) == ("t", [0, 1])
        await stage.manager.send_offsets(OFFSETS, GROUP)
        await stage.manager.commit()
        assert stage.manager.keeper.identity.epoch == 0
        order = [one.api_key for one in stage.coordinator.asked if one.api_key >= 24]
        assert order == [
            ApiKey.ADD_PARTITIONS_TO_TXN,
            ApiKey.ADD_OFFSETS_TO_TXN,
            ApiKey.TXN_OFFSET_COMMIT,
            ApiKey.END_TXN,
        ]
        assert stage.coordinator.requests(ApiKey.END_TXN)[0].version == 4
        assert stage.coordinator.requests(ApiKey.TXN_OFFSET_COMMIT)[0].version == 4

    on_stage(play, protocol=1)


def test_by_protocol_2_nothing_is_added_and_each_transaction_has_its_epoch() -> None:
    async def play(stage: Stage) -> None:
        await stage.manager.init()
        for epoch in range(3):
            await stage.manager.begin()
            assert stage.manager.keeper.identity.epoch == epoch
            assert stage.manager.keeper.admits(ONE)
            await stage.manager.send_offsets(OFFSETS, GROUP)
            await stage.manager.commit()
        assert stage.manager.keeper.produce_version_max is None
        assert not stage.coordinator.requests(ApiKey.ADD_PARTITIONS_TO_TXN)
        assert not stage.coordinator.requests(ApiKey.ADD_OFFSETS_TO_TXN)
        assert stage.outbox.times_forgotten == 4

    on_stage(play, protocol=2)


def test_offsets_carry_who_the_consumer_is_within_its_group() -> None:
    async def play(stage: Stage) -> None:
        await begun(stage)
        offsets = {ONE: OffsetAndMetadata(5, "note", 9), TWO: OffsetAndMetadata(6)}
        await stage.manager.send_offsets(offsets, GROUP)
        (asked,) = stage.coordinator.requests(ApiKey.TXN_OFFSET_COMMIT)
        request = asked.request
        assert (request.group_id, request.generation_id) == ("g", 3)
        assert (request.member_id, request.group_instance_id) == ("member", "instance")
        rows = [
            (one.partition_index, one.committed_offset, one.committed_metadata)
            for one in request.topics[0].partitions
        ]
        assert rows == [(0, 5, "note"), (1, 6, "")]
        assert request.topics[0].partitions[0].committed_leader_epoch == 9

    on_stage(play)


def test_a_transaction_with_nothing_in_it_is_the_coordinators_business_at_no_time() -> None:
    async def play(stage: Stage) -> None:
        await begun(stage)
        await stage.manager.send_offsets({}, GROUP)
        await stage.manager.commit()
        await stage.manager.begin()
        await stage.manager.abort()
        assert not stage.coordinator.requests(ApiKey.END_TXN)

    on_stage(play)


# What only an abort mends


@pytest.mark.parametrize(
    "code",
    [
        E.TRANSACTION_ABORTABLE,
        E.GROUP_AUTHORIZATION_FAILED,
        E.UNKNOWN_MEMBER_ID,
        E.ILLEGAL_GENERATION,
        E.FENCED_INSTANCE_ID,
        E.UNKNOWN_PRODUCER_ID,
    ],
)
def test_offsets_that_are_refused_leave_the_transaction_to_be_aborted(code: E) -> None:
    async def play(stage: Stage) -> None:
        await begun(stage)
        stage.coordinator.will(ApiKey.TXN_OFFSET_COMMIT, code)
        with pytest.raises(TransactionFailed, match=code.name):
            await stage.manager.send_offsets(OFFSETS, GROUP)
        with pytest.raises(TransactionFailed, match="abort_transaction"):
            stage.manager.keeper.check_send()
        with pytest.raises(TransactionFailed):
            await stage.manager.commit()
        await stage.manager.abort()
        await stage.manager.begin()

    on_stage(play)


def test_partitions_that_are_refused_leave_the_transaction_to_be_aborted() -> None:
    async def play(stage: Stage) -> None:
        await begun(stage)
        stage.coordinator.will(ApiKey.ADD_PARTITIONS_TO_TXN, E.TOPIC_AUTHORIZATION_FAILED)
        assert not await stage.admitted(ONE)
        assert stage.manager.state is State.ABORTABLE_ERROR
        # Nothing that waits for this partition waits for longer.
        assert isinstance(stage.outbox.dropped[0], TransactionFailed)
        with pytest.raises(TransactionFailed, match=r"TOPIC_AUTHORIZATION_FAILED.*t-0"):
            await stage.manager.commit()
        stage.coordinator.will(ApiKey.END_TXN, E.INVALID_TXN_STATE)  # it was never open
        await stage.manager.abort()
        assert stage.manager.state is State.READY

    on_stage(play, protocol=1)


@pytest.mark.parametrize("protocol", [1, 2])
def test_a_batch_that_was_given_up_keeps_its_transaction_from_being_committed(
    protocol: int,
) -> None:
    async def play(stage: Stage) -> None:
        await begun(stage)
        assert await stage.admitted(ONE)

        async def losing() -> None:
            stage.manager.keeper.failed(ONE, KafkaError(E.MESSAGE_TOO_LARGE))

        stage.outbox.flushing = losing
        with pytest.raises(TransactionFailed, match="MESSAGE_TOO_LARGE"):
            await stage.manager.commit()
        assert not stage.coordinator.requests(ApiKey.END_TXN)
        await stage.manager.abort()
        (ended,) = stage.coordinator.requests(ApiKey.END_TXN)
        assert not ended.request.committed
        assert stage.manager.keeper.identity.epoch == 1  # its sequence numbers begin anew
        assert stage.outbox.times_forgotten == 2
        renewed = [one.request for one in stage.coordinator.requests(ApiKey.INIT_PRODUCER_ID)][1:]
        assert [(one.producer_id, one.producer_epoch) for one in renewed] == (
            [(7, 0)] if protocol == 1 else []
        )

    on_stage(play, protocol=protocol)


def test_dropping_what_had_been_sent_once_needs_a_new_epoch_too() -> None:
    async def play(stage: Stage) -> None:
        await begun(stage)
        assert await stage.admitted(ONE)
        stage.outbox.leaves_hole = True
        await stage.manager.abort()
        assert isinstance(stage.outbox.dropped[0], TransactionAborted)
        assert stage.manager.keeper.identity.epoch == 1

    on_stage(play, protocol=1)


def test_an_abort_after_which_nothing_is_missing_keeps_the_epoch() -> None:
    async def play(stage: Stage) -> None:
        await begun(stage)
        assert await stage.admitted(ONE)
        await stage.manager.abort()
        assert stage.manager.keeper.identity.epoch == 0
        assert len(stage.coordinator.requests(ApiKey.INIT_PRODUCER_ID)) == 1

    on_stage(play, protocol=1)


def test_a_producer_that_the_coordinator_forgot_aborts_and_gets_a_new_identity() -> None:
    async def play(stage: Stage) -> None:
        await begun(stage)
        assert stage.manager.keeper.admits(ONE)
        stage.coordinator.will(ApiKey.END_TXN, E.INVALID_PRODUCER_ID_MAPPING)
        with pytest.raises(TransactionFailed, match="INVALID_PRODUCER_ID_MAPPING"):
            await stage.manager.commit()
        await stage.manager.abort()
        assert len(stage.coordinator.requests(ApiKey.END_TXN)) == 1
        assert len(stage.coordinator.requests(ApiKey.INIT_PRODUCER_ID)) == 2
        await stage.manager.begin()

    on_stage(play)


# What nothing mends


@pytest.mark.parametrize("code", [E.PRODUCER_FENCED, E.INVALID_PRODUCER_EPOCH])
def test_a_fenced_producer_can_do_nothing_more(code: E) -> None:
    async def play(stage: Stage) -> None:
        await begun(stage)
        assert stage.manager.keeper.admits(ONE)
        stage.coordinator.will(ApiKey.END_TXN, code)
        with pytest.raises(ProducerFenced, match="another producer"):
            await stage.manager.commit()
        assert not stage.manager.keeper.ready
        with pytest.raises(ProducerFenced):
            stage.manager.keeper.check_send()
        with pytest.raises(ProducerFenced):
            await stage.manager.abort()
        await stage.manager.close(1_000)
        await asyncio.sleep(0)
        assert isinstance(stage.outbox.dropped[-1], ProducerFenced)

    on_stage(play)


@pytest.mark.parametrize(
    ("api", "code"),
    [
        (ApiKey.INIT_PRODUCER_ID, E.TRANSACTIONAL_ID_AUTHORIZATION_FAILED),
        (ApiKey.INIT_PRODUCER_ID, E.INVALID_TRANSACTION_TIMEOUT),
        (ApiKey.FIND_COORDINATOR, E.TRANSACTIONAL_ID_AUTHORIZATION_FAILED),
        (ApiKey.INIT_PRODUCER_ID, E.CLUSTER_AUTHORIZATION_FAILED),
        (ApiKey.END_TXN, E.TRANSACTIONAL_ID_AUTHORIZATION_FAILED),
        (ApiKey.END_TXN, E.INVALID_TXN_STATE),
        (ApiKey.END_TXN, E.UNKNOWN_SERVER_ERROR),
    ],
)
def test_answers_after_which_a_producer_cannot_go_on(api: ApiKey, code: E) -> None:
    async def play(stage: Stage) -> None:
        stage.coordinator.will(api, code)
        with pytest.raises(TransactionFatal, match=f"{code.name}.*close it"):
            await whole_transaction(stage)
        with pytest.raises(TransactionFatal):
            await stage.manager.begin()

    on_stage(play)


def test_a_fenced_batch_is_fatal_and_one_of_an_old_epoch_is_not() -> None:
    async def play(stage: Stage) -> None:
        await begun(stage)
        assert stage.manager.keeper.admits(ONE)
        stage.manager.keeper.failed(ONE, KafkaError(E.INVALID_PRODUCER_EPOCH))
        assert stage.manager.state is State.ABORTABLE_ERROR
        stage.manager.keeper.failed(ONE, KafkaError(E.PRODUCER_FENCED))
        assert stage.manager.state is State.FATAL_ERROR

    on_stage(play)


# What is not answered


@pytest.mark.parametrize("protocol", [1, 2])
@pytest.mark.parametrize("call", ["commit", "abort"])
def test_an_end_that_was_not_answered_in_time_can_only_be_asked_for_again(
    call: str, protocol: int
) -> None:
    async def play(stage: Stage) -> None:
        await begun(stage)
        assert await stage.admitted(ONE)
        stage.coordinator.will(ApiKey.END_TXN, SILENCE)
        with pytest.raises(TransactionTimedOut, match=rf"{call}_transaction\(\).*call it again"):
            await getattr(stage.manager, call)()
        for other in {"commit", "abort", "begin"} - {call}:
            with pytest.raises(TransactionStateError, match=rf"{call}_transaction\(\) was interr"):
                await getattr(stage.manager, other)()
        await getattr(stage.manager, call)()
        first, second = (one.request for one in stage.coordinator.requests(ApiKey.END_TXN))
        assert (first.producer_epoch, first.committed) == (second.producer_epoch, second.committed)
        await stage.manager.begin()

    on_stage(play, protocol=protocol, **IMPATIENT)


def test_a_commit_that_was_cancelled_can_be_made_again() -> None:
    async def play(stage: Stage) -> None:
        await begun(stage)
        assert stage.manager.keeper.admits(ONE)
        stage.coordinator.will(ApiKey.END_TXN, SILENCE)
        commit = asyncio.create_task(stage.manager.commit())
        await asyncio.sleep(0.05)
        commit.cancel()
        with pytest.raises(asyncio.CancelledError):
            await commit
        await stage.manager.commit()
        assert stage.manager.state is State.READY

    on_stage(play, request_timeout_ms=300)


def test_offsets_of_unknown_fate_keep_the_transaction_from_being_committed() -> None:
    async def play(stage: Stage) -> None:
        await begun(stage)
        stage.coordinator.will(ApiKey.TXN_OFFSET_COMMIT, SILENCE)
        with pytest.raises(TransactionFailed, match="not known whether the offsets"):
            await stage.manager.send_offsets(OFFSETS, GROUP)
        with pytest.raises(TransactionFailed):
            await stage.manager.commit()
        await stage.manager.abort()

    on_stage(play, **IMPATIENT)


def test_init_without_an_answer_says_what_was_last_seen_and_may_be_called_again() -> None:
    async def play(stage: Stage) -> None:
        stage.coordinator.will(
            ApiKey.INIT_PRODUCER_ID, *[E.COORDINATOR_LOAD_IN_PROGRESS] * 3, SILENCE
        )
        with pytest.raises(TransactionTimedOut, match="last seen: COORDINATOR_LOAD_IN_PROGRESS"):
            await stage.manager.init()
        await stage.manager.init()
        await stage.manager.begin()

    on_stage(play, **IMPATIENT)


# Closing, and the block


def test_closing_aborts_what_is_open() -> None:
    async def play(stage: Stage) -> None:
        await begun(stage)
        assert stage.manager.keeper.admits(ONE)
        await stage.manager.close(1_000)
        (ended,) = stage.coordinator.requests(ApiKey.END_TXN)
        assert not ended.request.committed

    on_stage(play)


def test_closing_leaves_alone_what_is_prepared_and_what_may_be_committed() -> None:
    async def play(stage: Stage) -> None:
        await begun(stage)
        assert stage.manager.keeper.admits(ONE)
        await stage.manager.prepare()
        with pytest.raises(TransactionStateError, match="prepared"):
            stage.manager.keeper.check_send()
        await stage.manager.close(1_000)
        assert not stage.coordinator.requests(ApiKey.END_TXN)
        stage.coordinator.will(ApiKey.END_TXN, SILENCE)
        with pytest.raises(TransactionTimedOut):
            await stage.manager.commit()
        await stage.manager.close(1_000)
        assert len(stage.coordinator.requests(ApiKey.END_TXN)) == 1

    on_stage(play, **IMPATIENT)


def test_closing_does_not_wait_for_a_coordinator_that_is_gone() -> None:
    async def play(stage: Stage) -> None:
        await begun(stage)
        assert stage.manager.keeper.admits(ONE)
        stage.coordinator.will(ApiKey.END_TXN, *[SILENCE] * 9)
        async with asyncio.timeout(2):
            await stage.manager.close(100)

    on_stage(play)


def test_the_block_commits_at_its_end_and_aborts_when_it_fails() -> None:
    async def play(stage: Stage) -> None:
        await stage.manager.init()
        async with stage.manager.transaction(stage.manager.abort):
            assert stage.manager.keeper.admits(ONE)
        with pytest.raises(ZeroDivisionError):
            await broken_block(stage)
        ends = [one.request.committed for one in stage.coordinator.requests(ApiKey.END_TXN)]
        assert ends == [True, False]

    on_stage(play)


def test_the_block_aborts_when_a_record_of_it_was_lost() -> None:
    async def play(stage: Stage) -> None:
        await stage.manager.init()

        async def block() -> None:
            async with stage.manager.transaction(stage.manager.abort):
                assert stage.manager.keeper.admits(ONE)
                stage.manager.keeper.failed(ONE, KafkaError(E.MESSAGE_TOO_LARGE))

        with pytest.raises(TransactionFailed, match="MESSAGE_TOO_LARGE"):
            await block()
        assert stage.manager.state is State.READY

    on_stage(play)


def test_the_block_leaves_a_fatal_error_a_prepared_and_an_ended_transaction_alone() -> None:
    async def play(stage: Stage) -> None:
        await stage.manager.init()
        async with stage.manager.transaction(stage.manager.abort):
            await stage.manager.abort()
        async with stage.manager.transaction(stage.manager.abort):
            assert stage.manager.keeper.admits(ONE)
            await stage.manager.prepare()
        assert stage.manager.state is State.PREPARED
        await stage.manager.commit()
        with pytest.raises(ZeroDivisionError):
            await broken_block(stage, lost=KafkaError(E.PRODUCER_FENCED))
        assert stage.manager.state is State.FATAL_ERROR
        assert len(stage.coordinator.requests(ApiKey.END_TXN)) == 1

    on_stage(play)


def test_a_block_that_cannot_be_aborted_either_says_so_beside_its_own_error() -> None:
    async def play(stage: Stage) -> None:
        await stage.manager.init()
        stage.coordinator.will(ApiKey.END_TXN, E.PRODUCER_FENCED)
        with pytest.raises(ZeroDivisionError) as failed:
            await broken_block(stage)
        assert "could not be aborted" in failed.value.__notes__[0]

    on_stage(play)


def test_two_who_commit_at_the_same_time_do_it_one_after_the_other() -> None:
    async def play(stage: Stage) -> None:
        await begun(stage)
        assert stage.manager.keeper.admits(ONE)
        done = await asyncio.gather(
            stage.manager.commit(), stage.manager.commit(), return_exceptions=True
        )
        assert done[0] is None
        assert isinstance(done[1], TransactionStateError)
        assert len(stage.coordinator.requests(ApiKey.END_TXN)) == 1

    on_stage(play)
