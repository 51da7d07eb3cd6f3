"""Transactions of our producer on a real broker, by both protocols, seen by a foreign reader."""

from __future__ import annotations

import asyncio

import pytest
from transaction_tools import (
    committed_offsets,
    create_topic,
    producer,
    read,
    run,
    speak_protocol,
    state_of,
    until_aborted_by_time,
)

from ottla.client.errors import (
    ProducerFenced,
    TransactionAborted,
    TransactionFailed,
    TransactionFatal,
    TransactionStateError,
)
from ottla.client.producer.producer import Producer
from ottla.client.values import GroupMetadata, OffsetAndMetadata, TopicPartition
from ottla.protocol.errors import ErrorCode, KafkaError


@pytest.fixture(params=[1, 2], ids=["protocol-1", "protocol-2"])
def protocol(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    found: int = request.param
    speak_protocol(found, monkeypatch)
    return found


@pytest.fixture
def one_partition(bootstrap: str, topic: str) -> str:
    create_topic(bootstrap, topic)
    return topic


@pytest.fixture
def three_partitions(bootstrap: str, topic: str) -> str:
    create_topic(bootstrap, topic, 3)
    return topic


def test_committed_records_are_read_and_aborted_ones_are_not(
    bootstrap: str, three_partitions: str, protocol: int
) -> None:
    topic = three_partitions
    expected = []

    async def main() -> None:
        async with producer(bootstrap, topic) as writer:
            await writer.init_transactions()
            for number in range(12):
                await writer.begin_transaction()
                for partition in range(3):
                    value = f"{partition}-{number:02}"
                    await writer.send(topic, value.encode(), partition=partition)
                if number % 3 == 1:
                    await writer.flush()
                    await writer.abort_transaction()
                else:
                    await writer.commit_transaction()
                    expected.extend(f"{partition}-{number:02}" for partition in range(3))

    run(main)
    assert read(bootstrap, topic, partitions=3) == sorted(expected)
    assert len(read(bootstrap, topic, committed=False, partitions=3)) == 36


def test_what_was_not_sent_before_an_abort_is_dropped(
    bootstrap: str, three_partitions: str, protocol: int
) -> None:
    topic = three_partitions

    async def main() -> None:
        async with producer(bootstrap, topic, linger_ms=10_000) as writer:
            await writer.init_transactions()
            for _ in range(3):
                await writer.begin_transaction()
                sent = await writer.send(topic, b"dropped", partition=0)
                await writer.abort_transaction()
                with pytest.raises(TransactionAborted):
                    await sent
            async with writer.transaction():
                await writer.send(topic, b"kept", partition=0)

    run(main)
    assert read(bootstrap, topic, committed=False, partitions=3) == ["kept"]


def test_a_producer_with_many_batches_under_way_may_abort_at_any_moment(
    bootstrap: str, three_partitions: str, protocol: int
) -> None:
    topic = three_partitions

    async def main() -> None:
        async with producer(bootstrap, topic, batch_size=500) as writer:
            await writer.init_transactions()
            for turn in range(10):
                await writer.begin_transaction()
                for number in range(200):
                    await writer.send(topic, b"%d-%d" % (turn, number), partition=number % 3)
                await asyncio.sleep(0.004 * turn)
                if turn % 2:
                    await writer.commit_transaction()
                else:
                    await writer.abort_transaction()

    run(main)
    found = read(bootstrap, topic, partitions=3)
    assert sorted(found) == sorted(f"{t}-{n}" for t in (1, 3, 5, 7, 9) for n in range(200))


def test_an_open_transaction_holds_back_readers_of_committed_records(
    bootstrap: str, one_partition: str, protocol: int
) -> None:
    topic = one_partition

    async def main() -> None:
        async with producer(bootstrap, topic) as writer:
            await writer.init_transactions()
            await writer.begin_transaction()
            await writer.send_and_wait(topic, b"open")
            async with Producer(bootstrap_servers=bootstrap) as other:
                await other.send_and_wait(topic, b"behind it")
            assert await asyncio.to_thread(read, bootstrap, topic, settled=False) == []
            await writer.commit_transaction()
            assert await asyncio.to_thread(read, bootstrap, topic) == ["open", "behind it"]

    run(main)


@pytest.mark.parametrize("commit", [True, False])
def test_offsets_are_committed_with_the_records_or_not_at_all(
    bootstrap: str, three_partitions: str, protocol: int, commit: bool
) -> None:
    topic = three_partitions
    group = f"group-of-{topic}"

    async def main() -> None:
        async with producer(bootstrap, topic) as writer:
            await writer.init_transactions()
            await writer.begin_transaction()
            await writer.send(topic, b"with offsets", partition=0)
            offsets = {
                TopicPartition(topic, 1): OffsetAndMetadata(17, "a note"),
                TopicPartition(topic, 2): 4,
            }
            await writer.send_offsets_to_transaction(offsets, GroupMetadata(group))
            if commit:
                await writer.commit_transaction()
            else:
                await writer.abort_transaction()
            with pytest.raises(ValueError, match="must not be negative"):
                await writer.send_offsets_to_transaction(
                    {TopicPartition(topic, 1): -1}, GroupMetadata(group)
                )

    run(main)
    expected = {(topic, 1): 17, (topic, 2): 4} if commit else {}
    assert committed_offsets(bootstrap, group) == expected
    assert read(bootstrap, topic, partitions=3) == (["with offsets"] if commit else [])


def test_offsets_of_a_consumer_that_is_no_member_are_refused(
    bootstrap: str, one_partition: str, protocol: int
) -> None:
    topic = one_partition

    async def main() -> None:
        async with producer(bootstrap, topic) as writer:
            await writer.init_transactions()
            await writer.begin_transaction()
            await writer.send(topic, b"not to be seen")
            stranger = GroupMetadata(f"group-of-{topic}", 4, "nobody")
            with pytest.raises(TransactionFailed, match=r"ILLEGAL_GENERATION|UNKNOWN_MEMBER_ID"):
                await writer.send_offsets_to_transaction({TopicPartition(topic, 0): 1}, stranger)
            with pytest.raises(TransactionFailed):
                await writer.commit_transaction()
            await writer.abort_transaction()
            async with writer.transaction():
                await writer.send(topic, b"the next one")

    run(main)
    assert read(bootstrap, topic) == ["the next one"]


def test_a_replaced_producer_is_shut_out(bootstrap: str, one_partition: str, protocol: int) -> None:
    topic = one_partition

    async def main() -> None:
        zombie, present = producer(bootstrap, topic), producer(bootstrap, topic)
        await zombie.start()
        await zombie.init_transactions()
        await zombie.begin_transaction()
        await zombie.send_and_wait(topic, b"of the zombie")
        async with present:
            await present.init_transactions()
            with pytest.raises(ProducerFenced, match="another producer"):
                await zombie.commit_transaction()
            with pytest.raises(ProducerFenced):
                await zombie.send(topic, b"again")
            with pytest.raises(ProducerFenced):
                await zombie.abort_transaction()
            async with present.transaction():
                await present.send(topic, b"of the present one")
        await zombie.close()

    run(main)
    assert read(bootstrap, topic) == ["of the present one"]


def test_a_replaced_producer_in_the_middle_of_sending_is_shut_out(
    bootstrap: str, one_partition: str, protocol: int
) -> None:
    topic = one_partition

    async def main() -> None:
        async with producer(bootstrap, topic) as zombie, producer(bootstrap, topic) as present:
            await zombie.init_transactions()
            await zombie.begin_transaction()
            await zombie.send_and_wait(topic, b"of the zombie")
            await present.init_transactions()
            with pytest.raises(KafkaError) as refused:
                await zombie.send_and_wait(topic, b"too late")
            assert refused.value.code in (
                ErrorCode.INVALID_PRODUCER_EPOCH,
                ErrorCode.PRODUCER_FENCED,
            )
            with pytest.raises((TransactionFailed, ProducerFenced)):
                await zombie.commit_transaction()

    run(main)
    assert read(bootstrap, topic) == []


def test_a_transaction_that_took_too_long_says_so(
    bootstrap: str, one_partition: str, protocol: int
) -> None:
    topic = one_partition

    async def main() -> None:
        async with producer(bootstrap, topic, transaction_timeout_ms=1_000) as slow:
            await slow.init_transactions()
            await slow.begin_transaction()
            await slow.send_and_wait(topic, b"too late")
            await until_aborted_by_time(bootstrap, topic)
            with pytest.raises(TransactionFatal, match=r"transaction_timeout_ms \(1000\)"):
                await slow.commit_transaction()

    run(main)
    assert read(bootstrap, topic) == []


def test_after_a_timeout_a_producer_of_protocol_2_aborts_and_goes_on(
    bootstrap: str, one_partition: str
) -> None:
    topic = one_partition

    async def main() -> None:
        async with producer(bootstrap, topic, transaction_timeout_ms=1_000) as slow:
            await slow.init_transactions()
            await slow.begin_transaction()
            await slow.send_and_wait(topic, b"too late")
            await until_aborted_by_time(bootstrap, topic)
            with pytest.raises(KafkaError, match="INVALID_PRODUCER_EPOCH"):
                await slow.send_and_wait(topic, b"even later")
            with pytest.raises(TransactionFailed, match="INVALID_PRODUCER_EPOCH"):
                await slow.commit_transaction()
            await slow.abort_transaction()
            async with slow.transaction():
                await slow.send(topic, b"in time")

    run(main)
    assert read(bootstrap, topic) == ["in time"]


def test_a_lost_record_keeps_all_others_of_its_transaction_from_being_seen(
    bootstrap: str, topic: str, protocol: int
) -> None:
    create_topic(bootstrap, topic, 2, max_message_bytes="2000")

    async def main() -> None:
        async with producer(bootstrap, topic) as writer:
            await writer.init_transactions()
            await writer.begin_transaction()
            await writer.send_and_wait(topic, b"good", partition=0)
            await writer.send(topic, b"x" * 3000, partition=1)
            with pytest.raises(TransactionFailed, match="MESSAGE_TOO_LARGE"):
                await writer.commit_transaction()
            with pytest.raises(TransactionFailed, match="call abort_transaction"):
                await writer.send(topic, b"more", partition=0)
            await writer.abort_transaction()
            for number in range(3):
                async with writer.transaction():
                    for partition in range(2):
                        await writer.send(topic, b"%d" % number, partition=partition)

    run(main)
    assert read(bootstrap, topic, partitions=2) == ["0", "1", "2"] * 2


def test_the_block_commits_and_aborts(bootstrap: str, one_partition: str, protocol: int) -> None:
    topic = one_partition

    async def main() -> None:
        async with producer(bootstrap, topic) as writer:
            await writer.init_transactions()
            async with writer.transaction():
                await writer.send(topic, b"first")

            async def broken() -> None:
                async with writer.transaction():
                    await writer.send_and_wait(topic, b"broken")
                    raise ZeroDivisionError

            with pytest.raises(ZeroDivisionError):
                await broken()
            task = asyncio.create_task(cancelled_block(writer, topic))
            await asyncio.sleep(0.2)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            async with writer.transaction():
                await writer.send(topic, b"last")
            spent = writer.metrics()
            for call in ("init", "begin", "commit", "abort"):
                assert spent[f"txn-{call}-time-ns-total"] > 0

    run(main)
    assert read(bootstrap, topic) == ["first", "last"]


async def cancelled_block(writer: Producer, topic: str) -> None:
    async with writer.transaction():
        await writer.send_and_wait(topic, b"cancelled")
        await asyncio.sleep(60)


def test_closing_aborts_an_open_transaction_at_once(
    bootstrap: str, one_partition: str, protocol: int
) -> None:
    topic = one_partition

    async def main() -> None:
        async with producer(bootstrap, topic) as writer:
            await writer.init_transactions()
            await writer.begin_transaction()
            await writer.send_and_wait(topic, b"open")
        assert await state_of(bootstrap, topic) in ("PrepareAbort", "CompleteAbort")

        async def broken() -> None:
            async with producer(bootstrap, topic) as writer:
                await writer.init_transactions()
                await writer.begin_transaction()
                await writer.send_and_wait(topic, b"open")
                raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            await broken()
        assert await state_of(bootstrap, topic) in ("PrepareAbort", "CompleteAbort")

    run(main)


def test_calls_out_of_turn_say_what_to_do(bootstrap: str, one_partition: str) -> None:
    topic = one_partition

    async def main() -> None:
        async with Producer(bootstrap_servers=bootstrap) as plain:
            with pytest.raises(TransactionStateError, match="set transactional_id"):
                await plain.begin_transaction()
        async with producer(bootstrap, topic) as writer:
            with pytest.raises(TransactionStateError, match="init_transactions"):
                await writer.begin_transaction()
            with pytest.raises(TransactionStateError, match="init_transactions"):
                await writer.send(topic, b"early")
            await writer.init_transactions()
            with pytest.raises(TransactionStateError, match="begin_transaction"):
                await writer.send(topic, b"early")
            with pytest.raises(TransactionStateError, match="begin_transaction"):
                await writer.commit_transaction()
            await writer.begin_transaction()
            with pytest.raises(TransactionStateError, match="commit_transaction"):
                await writer.begin_transaction()

    run(main)
    assert read(bootstrap, topic, committed=False) == []


def test_an_exotic_timeout_is_refused_with_the_limit(bootstrap: str, topic: str) -> None:
    async def main() -> None:
        async with producer(bootstrap, topic, transaction_timeout_ms=2**30) as writer:
            with pytest.raises(TransactionFatal, match="INVALID_TRANSACTION_TIMEOUT"):
                await writer.init_transactions()

    run(main)
