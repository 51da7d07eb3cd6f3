"""What the producer does with every kind of answer, and with none."""

from __future__ import annotations

import asyncio

import pytest
from producer_tools import run
from scripted_leaders import TOPIC, ScriptedLeaders, led_by, with_record_errors

from ottla.client.errors import BadSetting, ConnectionLost, DeliveryFailed, DeliveryTimedOut
from ottla.client.producer.producer import Producer
from ottla.protocol.apis import ApiKey
from ottla.protocol.errors import ErrorCode, KafkaError

NO_IDS = {int(ApiKey.INIT_PRODUCER_ID): (0, -1)}


def producer(cluster: ScriptedLeaders, **options: object) -> Producer:
    quick = {"retry_backoff_ms": 10, "retry_backoff_max_ms": 20, "linger_ms": 0}
    return Producer(bootstrap_servers=cluster.bootstrap, **quick | options)  # type: ignore[arg-type]


async def send_each(sender: Producer, count: int) -> list[int]:
    """Each in a batch of its own; their offsets."""
    sent = []
    for number in range(count):
        sent.append(await sender.send(TOPIC, b"%d" % number))
        queue = sender._running().routes.all[TOPIC].queues[0]
        sender._running().accumulator.close(sender._running().routes.all[TOPIC], queue)
    return [(await one).offset for one in sent]


def numbers(count: int) -> list[bytes]:
    return [b"%d" % number for number in range(count)]


RETRIABLE = [
    ErrorCode.NOT_ENOUGH_REPLICAS,
    ErrorCode.REQUEST_TIMED_OUT,
    ErrorCode.CORRUPT_MESSAGE,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.UNKNOWN_TOPIC_ID,
    ErrorCode.KAFKA_STORAGE_ERROR,
]


@pytest.mark.parametrize("code", RETRIABLE)
def test_what_may_pass_is_sent_again_with_the_same_numbers(code: ErrorCode) -> None:
    async def main() -> None:
        async with ScriptedLeaders().running() as cluster, producer(cluster) as sender:
            out_of_order = ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
            cluster.answers.extend([code, code, 0, code, out_of_order])
            assert await send_each(sender, 3) == [0, 1, 2]
            assert sender.metrics()["record-retry-total"] == 4
        assert cluster.taken == numbers(3)
        sequences = [batch.numbers[1] for batch in cluster.produced]
        assert sequences == [0, 0, 0, 1, 2, 1, 2]

    run(main)


def test_a_lost_answer_is_asked_for_again_and_a_duplicate_is_a_success() -> None:
    async def main() -> None:
        async with ScriptedLeaders().running() as cluster, producer(cluster) as sender:
            cluster.answers.extend([0, None, ErrorCode.DUPLICATE_SEQUENCE_NUMBER])
            sent = [await sender.send(TOPIC, b"%d" % number) for number in range(1)]
            assert (await sent[0]).offset == 0
            again = await sender.send(TOPIC, b"1")
            assert (await again).offset == -1
            assert [batch.numbers for batch in cluster.produced] == [(0, 0), (0, 1), (0, 1)]

    run(main)


def test_batches_behind_a_failed_one_are_sent_again_behind_it() -> None:
    async def main() -> None:
        async with ScriptedLeaders().running() as cluster, producer(cluster) as sender:
            await sender.send_and_wait(TOPIC, b"first")
            out_of_order = ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
            cluster.answers.extend([ErrorCode.NOT_ENOUGH_REPLICAS, out_of_order, out_of_order])
            assert await send_each(sender, 3) == [1, 2, 3]
        assert cluster.taken == [b"first", *numbers(3)]
        assert {batch.numbers for batch in cluster.produced} == {(0, at) for at in range(4)}

    run(main)


@pytest.mark.parametrize(
    "code", [ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, ErrorCode.UNKNOWN_PRODUCER_ID]
)
def test_a_broker_that_lost_its_memory_gets_a_new_epoch(code: ErrorCode) -> None:
    async def main() -> None:
        async with ScriptedLeaders().running() as cluster, producer(cluster) as sender:
            await sender.send_and_wait(TOPIC, b"first")
            cluster.answers.extend([code] * 3)
            assert await send_each(sender, 3) == [1, 2, 3]
        assert cluster.taken == [b"first", *numbers(3)]
        assert [batch.numbers for batch in cluster.produced[4:]] == [(1, 0), (1, 1), (1, 2)]

    run(main)


def test_epochs_that_are_used_up_bring_a_new_id() -> None:
    async def main() -> None:
        async with ScriptedLeaders().running() as cluster, producer(cluster) as sender:
            await sender.send_and_wait(TOPIC, b"first")
            keeper = sender._running().keeper
            for _ in range((1 << 15) - 1):
                keeper.start_anew()  # type: ignore[attr-defined]
            await sender.send_and_wait(TOPIC, b"last of its kind")
            cluster.answers.append(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)
            await sender.send_and_wait(TOPIC, b"new")
        assert [batch.numbers for batch in cluster.produced] == [
            (0, 0),
            ((1 << 15) - 1, 0),
            ((1 << 15) - 1, 1),
            (0, 0),
        ]

    run(main)


@pytest.mark.parametrize(
    "code", [ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.INVALID_REQUIRED_ACKS]
)
def test_what_is_refused_for_good_fails_and_the_next_begins_a_new_epoch(code: ErrorCode) -> None:
    async def main() -> None:
        async with ScriptedLeaders().running() as cluster, producer(cluster) as sender:
            await sender.send_and_wait(TOPIC, b"first")
            cluster.answers.append(code)
            with pytest.raises(KafkaError) as caught:
                await sender.send_and_wait(TOPIC, b"bad")
            assert caught.value.code is code
            assert f"{TOPIC}-0" in str(caught.value)
            await sender.send_and_wait(TOPIC, b"good")
            assert sender.metrics()["record-error-total"] == 1
        assert cluster.produced[-1].numbers == (1, 0)

    run(main)


def test_single_bad_records_are_named_and_the_others_told_why() -> None:
    async def main() -> None:
        async with ScriptedLeaders().running() as cluster, producer(cluster) as sender:
            cluster.answers.append(with_record_errors(ErrorCode.INVALID_RECORD, at_1="no key"))
            sent = [await sender.send(TOPIC, b"%d" % number) for number in range(3)]
            with pytest.raises(KafkaError, match="no key"):
                await sent[1]
            with pytest.raises(KafkaError, match=r"same batch held invalid records \(at 1\)"):
                await sent[0]
            with pytest.raises(KafkaError):
                await sent[2]

    run(main)


def test_a_new_leader_that_is_named_is_asked_without_waiting_for_metadata() -> None:
    async def main() -> None:
        async with (
            ScriptedLeaders().running() as cluster,
            producer(cluster, retry_backoff_ms=5_000, retry_backoff_max_ms=5_000) as sender,
        ):
            await sender.send_and_wait(TOPIC, b"first")
            cluster.leader = 2
            cluster.answers.append(led_by(2, 1, ErrorCode.NOT_LEADER_OR_FOLLOWER))
            async with asyncio.timeout(2):
                await sender.send_and_wait(TOPIC, b"moved")
        assert [batch.node_id for batch in cluster.produced] == [1, 1, 2]

    run(main)


def test_a_leader_that_moved_is_found_by_metadata() -> None:
    async def main() -> None:
        async with ScriptedLeaders().running() as cluster, producer(cluster) as sender:
            await sender.send_and_wait(TOPIC, b"first")
            cluster.leader, cluster.epoch = 2, 1
            await sender.send_and_wait(TOPIC, b"moved")
        assert cluster.produced[-1].node_id == 2

    run(main)


def test_a_throttled_producer_keeps_silent_for_as_long_as_it_is_told() -> None:
    async def main() -> None:
        async with ScriptedLeaders().running() as cluster, producer(cluster) as sender:
            await sender.partitions_for(TOPIC)
            cluster.throttle_ms = 300
            await sender.send_and_wait(TOPIC, b"first")
            cluster.throttle_ms = 0
            began = asyncio.get_running_loop().time()
            await sender.send_and_wait(TOPIC, b"second")
            assert asyncio.get_running_loop().time() - began > 0.25
            assert sender.metrics()["produce-throttle-time-max"] == 300

    run(main)


# Giving up


def test_retries_may_run_out() -> None:
    async def main() -> None:
        async with ScriptedLeaders().running() as cluster, producer(cluster, retries=2) as sender:
            await sender.send_and_wait(TOPIC, b"first")
            cluster.answers.extend([ErrorCode.NOT_ENOUGH_REPLICAS] * 3)
            with pytest.raises(KafkaError, match="NOT_ENOUGH_REPLICAS"):
                await sender.send_and_wait(TOPIC, b"x")
            await sender.send_and_wait(TOPIC, b"y")
        assert cluster.taken == [b"first", b"y"]
        assert cluster.produced[-1].numbers == (1, 0), "x may have been stored"

    run(main)


def test_without_retries_a_lost_connection_is_an_error() -> None:
    async def main() -> None:
        async with (
            ScriptedLeaders().running() as cluster,
            producer(cluster, retries=0, acks=1) as sender,
        ):
            cluster.answers.append(None)
            with pytest.raises(ConnectionLost):
                await sender.send_and_wait(TOPIC, b"x")

    run(main)


def test_after_delivery_timeout_ms_records_fail_and_say_why() -> None:
    async def main() -> None:
        async with (
            ScriptedLeaders().running() as cluster,
            producer(cluster, delivery_timeout_ms=400, request_timeout_ms=300) as sender,
        ):
            await sender.send_and_wait(TOPIC, b"first")
            cluster.answers.extend([ErrorCode.NOT_ENOUGH_REPLICAS] * 200)
            with pytest.raises(DeliveryTimedOut) as caught:
                await sender.send_and_wait(TOPIC, b"x")
            assert f"1 record(s) for {TOPIC}-0 were given up 4" in str(caught.value)
            assert "NOT_ENOUGH_REPLICAS" in str(caught.value)
            await asyncio.sleep(0.1)  # its last request may be under way, and is refused too
            cluster.answers.clear()
            await sender.send_and_wait(TOPIC, b"y")
        assert cluster.taken == [b"first", b"y"]

    run(main)


def test_a_partition_without_a_leader_is_waited_for_until_the_timeout() -> None:
    async def main() -> None:
        async with (
            ScriptedLeaders().running() as cluster,
            producer(cluster, delivery_timeout_ms=300, request_timeout_ms=200) as sender,
        ):
            cluster.leader = -1
            sent = await sender.send(TOPIC, b"x")
            with pytest.raises(DeliveryTimedOut, match="no leader is known"):
                await sent
            sent = await sender.send(TOPIC, b"y")
            cluster.leader = 2
            assert (await sent).offset == 0

    run(main)


def test_a_batch_that_expired_unseen_is_told_by_flush() -> None:
    async def main() -> None:
        async with (
            ScriptedLeaders().running() as cluster,
            producer(cluster, delivery_timeout_ms=300, request_timeout_ms=200) as sender,
        ):
            cluster.leader = -1
            await sender.send(TOPIC, b"x")
            with pytest.raises(DeliveryFailed, match="given up"):
                await sender.flush()

    run(main)


# Identity


def test_a_producer_id_is_asked_for_until_it_is_there() -> None:
    async def main() -> None:
        async with ScriptedLeaders().running() as cluster, producer(cluster) as sender:
            cluster.id_errors.extend([ErrorCode.COORDINATOR_LOAD_IN_PROGRESS] * 3)
            await sender.send_and_wait(TOPIC, b"x")
            assert cluster.produced[0].header.producer_id == 7

    run(main)


def test_a_producer_that_may_not_have_an_id_fails_and_can_try_again() -> None:
    async def main() -> None:
        async with ScriptedLeaders().running() as cluster, producer(cluster) as sender:
            cluster.id_errors.append(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
            with pytest.raises(KafkaError, match="CLUSTER_AUTHORIZATION_FAILED"):
                await sender.send_and_wait(TOPIC, b"x")
            await sender.send_and_wait(TOPIC, b"y")

    run(main)


def test_without_ids_at_the_broker_order_is_kept_by_one_batch_at_a_time() -> None:
    async def main() -> None:
        async with ScriptedLeaders().running(NO_IDS) as cluster, producer(cluster) as sender:
            cluster.answers.extend([0, ErrorCode.NOT_ENOUGH_REPLICAS])
            assert await send_each(sender, 5) == [0, 1, 2, 3, 4]
            assert {batch.header.producer_id for batch in cluster.produced} == {-1}
        assert cluster.taken == numbers(5)

    run(main)


def test_idempotence_that_was_asked_for_and_cannot_be_had_is_an_error() -> None:
    async def main() -> None:
        async with (
            ScriptedLeaders().running(NO_IDS) as cluster,
            producer(cluster, enable_idempotence=True) as sender,
        ):
            with pytest.raises(BadSetting, match="gives out no producer ids"):
                await sender.send_and_wait(TOPIC, b"x")

    run(main)


@pytest.mark.parametrize("version", range(3, 14))
def test_every_version_of_the_request_is_spoken(version: int) -> None:
    async def main() -> None:
        only = {int(ApiKey.PRODUCE): (version, version)}
        async with ScriptedLeaders().running(only) as cluster, producer(cluster) as sender:
            cluster.answers.append(ErrorCode.NOT_LEADER_OR_FOLLOWER)
            assert await send_each(sender, 3) == [0, 1, 2]

    run(main)
