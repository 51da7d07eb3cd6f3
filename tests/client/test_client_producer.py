"""The producer on a real broker, read back by confluent-kafka."""

from __future__ import annotations

import asyncio
import json
from itertools import chain

import pytest
from producer_tools import (
    add_partitions,
    create_topic,
    delete_topic,
    read,
    run,
    values,
)

from broker_harness import MakeBroker
from ottla.client.errors import (
    BufferExhausted,
    DeliveryFailed,
    IllegalState,
    NotBytes,
    ProducerClosed,
    RecordTooLarge,
    TopicMissing,
)
from ottla.client.network.cluster import Cluster
from ottla.client.producer.producer import Producer
from ottla.client.serializers import JsonSerializer, StringSerializer
from ottla.client.settings.common import ClientSettings
from ottla.client.values import RecordMetadata
from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.runtime.os_runtime import OsRuntime

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")


def producer(bootstrap: str, **options: object) -> Producer:
    return Producer(bootstrap_servers=bootstrap, **options)  # type: ignore[arg-type]


def test_everything_about_a_record_arrives(bootstrap: str, topic: str) -> None:
    create_topic(bootstrap, topic, 3)
    headers = [("a", b"1"), ("a", None), ("ü", b"\xff")]

    async def main() -> None:
        async with producer(bootstrap) as sender:
            await sender.send(topic, b"v", b"k", headers=headers, partition=2, timestamp_ms=1234)
            await sender.send(topic, None, b"k", partition=2, timestamp_ms=1235)
            await sender.send(topic, b"", partition=2, timestamp_ms=1236)
            await sender.send(topic, bytearray(b"w"), memoryview(b"m"), partition=2)

    run(main)
    found = read(bootstrap, topic, 3)[2]
    assert [tuple(record) for record in found[:3]] == [
        (0, 1234, b"k", b"v", headers),
        (1, 1235, b"k", None, []),
        (2, 1236, None, b"", []),
    ]
    assert (found[3].key, found[3].value) == (b"m", b"w")


@pytest.mark.parametrize("codec", CODECS)
def test_records_arrive_once_and_in_order_with_each_codec(
    bootstrap: str, topic: str, codec: str
) -> None:
    create_topic(bootstrap, topic, 3)

    async def main() -> None:
        async with producer(bootstrap, compression_type=codec, batch_size=2000) as sender:
            for number in range(5000):
                await sender.send(topic, b"%d" % number, b"key-%d" % (number % 50))

    run(main)
    found = read(bootstrap, topic, 3)
    numbers = {at: [int(record.value or b"") for record in found[at]] for at in found}
    assert all(each == sorted(each) for each in numbers.values())
    assert sorted(chain(*numbers.values())) == list(range(5000))


@pytest.mark.parametrize("acks", [0, 1, "all"])
def test_each_level_of_acks_delivers(bootstrap: str, topic: str, acks: object) -> None:
    create_topic(bootstrap, topic, 1)

    async def main() -> list[RecordMetadata]:
        async with producer(bootstrap) as sender:
            await sender.send_and_wait(topic, b"first")  # it is led now
        async with producer(bootstrap, acks=acks, batch_size=500) as sender:
            sent = [await sender.send(topic, b"%d" % number) for number in range(999)]
            await sender.flush()
            return [await one for one in sent]

    metadata = run(main)
    if acks == 0:
        assert {one.offset for one in metadata} == {-1}
    else:
        assert [one.offset for one in metadata] == list(range(1, 1000))
    for _ in range(100):
        if len(found := values(bootstrap, topic)) == 1000 or acks != 0:
            break
    assert found == [b"first", *(b"%d" % number for number in range(999))]


def test_metadata_tells_where_a_record_went(bootstrap: str, topic: str) -> None:
    create_topic(bootstrap, topic, 2)

    async def main() -> None:
        async with producer(bootstrap) as sender:
            first = await sender.send_and_wait(topic, b"a", partition=1, timestamp_ms=77)
            second = await sender.send_and_wait(topic, b"b", partition=1)
        assert first == RecordMetadata(topic, 1, 0, 77)
        assert second[:3] == (topic, 1, 1)

    run(main)


def test_the_timestamp_is_the_brokers_where_the_topic_has_log_append_time(
    bootstrap: str, topic: str
) -> None:
    create_topic(bootstrap, topic, 1, message_timestamp_type="LogAppendTime")

    async def main() -> RecordMetadata:
        async with producer(bootstrap) as sender:
            return await sender.send_and_wait(topic, b"a", timestamp_ms=77)

    assert run(main).timestamp == read(bootstrap, topic)[0][0].timestamp > 77


def test_a_record_that_is_sent_can_be_waited_for_by_several_tasks(
    bootstrap: str, topic: str
) -> None:
    async def main() -> None:
        async with producer(bootstrap, linger_ms=50) as sender:
            sent = await sender.send(topic, b"x")
            assert not sent.done()
            with pytest.raises(asyncio.InvalidStateError):
                sent.result()

            async def wait() -> RecordMetadata:
                return await sent

            impatient = asyncio.create_task(wait())
            patient = [asyncio.create_task(wait()) for _ in range(3)]
            told = []
            sent.add_done_callback(told.append)
            await asyncio.sleep(0)
            impatient.cancel()
            found = await asyncio.gather(*patient)
            assert found == [await sent] * 3 == [sent.result()] * 3
            assert sent.exception() is None
            assert told == [sent]
            sent.add_done_callback(told.append)
            assert told == [sent, sent]

    run(main)


def test_callbacks_get_the_metadata_or_the_error(bootstrap: str, topic: str) -> None:
    create_topic(bootstrap, topic, 1, max_message_bytes="1000")
    told: list[tuple[RecordMetadata | None, Exception | None]] = []

    async def main() -> None:
        async with producer(bootstrap) as sender:
            await sender.send(topic, b"x", on_delivery=lambda *outcome: told.append(outcome))
            await sender.flush()
            await sender.send(topic, b"x" * 5000, on_delivery=lambda *outcome: told.append(outcome))

            def broken(*_: object) -> None:
                raise ValueError("a callback that fails")

            await sender.send(topic, b"y", on_delivery=broken)

    run(main)
    (metadata, none), (nothing, error) = told
    assert metadata is not None
    assert (metadata.offset, none, nothing) == (0, None, None)
    assert isinstance(error, KafkaError)
    assert error.code is ErrorCode.MESSAGE_TOO_LARGE


class Watcher:
    def __init__(self) -> None:
        self.outcomes: list[object] = []
        self.closed = False

    def on_send(self, record):  # type: ignore[no-untyped-def]
        return record._replace(value=record.value + b"!", headers=[*record.headers, ("by", b"w")])

    def on_acknowledgement(self, metadata: object, error: object) -> None:
        self.outcomes.append(metadata or error)

    def close(self) -> None:
        self.closed = True


class Saboteur:
    def on_send(self, record: object) -> None:
        raise RuntimeError("no")

    on_acknowledgement = close = on_send


def test_interceptors_see_and_change_records_and_cannot_break_sending(
    bootstrap: str, topic: str
) -> None:
    create_topic(bootstrap, topic, 1, max_message_bytes="1000")
    watcher = Watcher()

    async def main() -> None:
        async with producer(bootstrap, interceptors=[Saboteur(), watcher]) as sender:
            await sender.send(topic, b"a", headers={"h": b"1"})
            await sender.flush()
            with pytest.raises(KafkaError):
                await sender.send_and_wait(topic, b"x" * 5000)
            with pytest.raises(TopicMissing):
                await sender.send(topic, b"b", partition=5)

    run(main)
    assert read(bootstrap, topic)[0][0][2:] == (None, b"a!", [("h", b"1"), ("by", b"w")])
    kinds = [type(outcome) for outcome in watcher.outcomes]
    assert kinds == [RecordMetadata, KafkaError, TopicMissing]
    assert watcher.closed


# What is refused


def test_a_record_larger_than_a_request_may_be_is_refused_at_once(
    bootstrap: str, topic: str
) -> None:
    async def main() -> None:
        async with producer(bootstrap, max_request_size=1000, buffer_memory=5000) as sender:
            with pytest.raises(RecordTooLarge, match=r"max_request_size \(1000\)"):
                await sender.send(topic, b"x" * 1000)
            with pytest.raises(RecordTooLarge, match=r"buffer_memory \(5000\)"):
                await sender.send(topic, b"x" * 6000)
            await sender.send_and_wait(topic, b"x" * 900)

    run(main)


def test_a_record_larger_than_a_batch_gets_one_of_its_own(bootstrap: str, topic: str) -> None:
    create_topic(bootstrap, topic)

    async def main() -> None:
        async with producer(bootstrap, batch_size=1000, linger_ms=50) as sender:
            for size in (10, 5000, 10):
                await sender.send(topic, b"x" * size)
            await sender.flush()
            assert sender.metrics()["record-send-total"] == 3
            assert sender.metrics()["request-total"] >= 3

    run(main)
    assert [len(value or b"") for value in values(bootstrap, topic)] == [10, 5000, 10]


def test_text_is_refused_with_a_hint(bootstrap: str, topic: str) -> None:
    async def main() -> None:
        async with producer(bootstrap) as sender:
            await sender.partitions_for(topic)
            with pytest.raises(NotBytes, match=r"the value is str, not bytes: write \.encode\(\)"):
                await sender.send(topic, "text")
            with pytest.raises(NotBytes, match="key_serializer"):
                await sender.send(topic, b"x", 5)
            with pytest.raises(NotBytes, match="value of a header"):
                await sender.send(topic, b"x", headers=[("h", "text")])  # type: ignore[list-item]
            with pytest.raises(TypeError, match="name of a header"):
                await sender.send(topic, b"x", headers=[(b"h", b"")])  # type: ignore[list-item]
            with pytest.raises(ValueError, match="negative"):
                await sender.send(topic, b"x", timestamp_ms=-5)
            await sender.flush()
            assert sender.metrics()["buffer-available-bytes"] == 32 << 20

    run(main)


def test_a_partition_that_is_not_there_is_refused(bootstrap: str, topic: str) -> None:
    create_topic(bootstrap, topic, 2)

    async def main() -> None:
        async with producer(bootstrap) as sender:
            for partition in (2, -1):
                with pytest.raises(TopicMissing, match=f"has no partition {partition}"):
                    await sender.send(topic, b"x", partition=partition)

    run(main)


def test_a_topic_that_is_not_to_be_created_is_missed_after_max_block_ms(
    bootstrap: str, topic: str
) -> None:
    async def main() -> None:
        async with producer(bootstrap, allow_auto_create_topics=False, max_block_ms=300) as sender:
            with pytest.raises(TopicMissing, match=topic):
                await sender.send(topic, b"x")

    run(main)


def test_a_topic_is_created_where_the_broker_creates_topics(bootstrap: str, topic: str) -> None:
    async def main() -> None:
        async with producer(bootstrap) as sender:
            await sender.send(topic, b"x")
            assert await sender.partitions_for(topic) == {0}

    run(main)
    assert values(bootstrap, topic) == [b"x"]


def test_a_name_that_no_topic_can_have_is_refused_at_once(bootstrap: str) -> None:
    async def main() -> None:
        async with producer(bootstrap) as sender:
            with pytest.raises(KafkaError) as caught:
                await sender.send("a/b", b"x")
            assert caught.value.code is ErrorCode.INVALID_TOPIC_EXCEPTION

    run(main)


# Topics that change


def test_new_partitions_are_noticed(bootstrap: str, topic: str) -> None:
    create_topic(bootstrap, topic, 1)

    async def main() -> None:
        async with producer(bootstrap, metadata_max_age_ms=100) as sender:
            await sender.send_and_wait(topic, b"x", partition=0)
            add_partitions(bootstrap, topic, 3)
            for _ in range(500):
                if len(await sender.partitions_for(topic)) == 3:
                    break
                await asyncio.sleep(0.02)
            assert (await sender.send_and_wait(topic, b"y", partition=2)).offset == 0

    run(main)


def test_a_partition_that_is_new_is_asked_for(bootstrap: str, topic: str) -> None:
    create_topic(bootstrap, topic, 1)

    async def main() -> None:
        async with producer(bootstrap) as sender:
            await sender.send_and_wait(topic, b"x", partition=0)
            add_partitions(bootstrap, topic, 2)
            await sender.send_and_wait(topic, b"y", partition=1)

    run(main)


def test_a_topic_that_was_deleted_and_made_anew_is_found(bootstrap: str, topic: str) -> None:
    create_topic(bootstrap, topic, 1)

    async def main() -> None:
        async with producer(bootstrap, allow_auto_create_topics=False) as sender:
            for number in range(3):
                await sender.send_and_wait(topic, b"old %d" % number)
            delete_topic(bootstrap, topic)
            create_topic(bootstrap, topic, 1)
            found = [await sender.send_and_wait(topic, b"new %d" % number) for number in range(3)]
            assert [one.offset for one in found] == [0, 1, 2]

    run(main)
    assert values(bootstrap, topic) == [b"new 0", b"new 1", b"new 2"]


# Batches


def test_a_batch_that_the_topic_finds_too_large_is_split(bootstrap: str, topic: str) -> None:
    create_topic(bootstrap, topic, 1, max_message_bytes="2000")

    async def main() -> None:
        async with producer(bootstrap, batch_size=100_000, linger_ms=5) as sender:
            sent = [await sender.send(topic, b"%0100d" % number) for number in range(300)]
            early = asyncio.create_task(_all(sent[:3]))
            await sender.flush()
            assert [one.offset for one in await _all(sent)] == list(range(300))
            assert [one.offset for one in await early] == [0, 1, 2]
            assert sender.metrics()["batch-split-total"] >= 7
            assert sender.metrics()["buffer-available-bytes"] == 32 << 20

    run(main)
    assert values(bootstrap, topic) == [b"%0100d" % number for number in range(300)]


def test_one_record_too_large_for_the_topic_fails_and_the_others_arrive(
    bootstrap: str, topic: str
) -> None:
    create_topic(bootstrap, topic, 1, max_message_bytes="2000")

    async def main() -> None:
        async with producer(bootstrap, batch_size=100_000) as sender:
            sent = [
                await sender.send(topic, b"x" * (5000 if number == 20 else 100))
                for number in range(100)
            ]
            with pytest.raises(KafkaError, match="MESSAGE_TOO_LARGE"):
                await sent[20]
            await _all(sent[:20] + sent[21:])

    run(main)
    assert [len(value or b"") for value in values(bootstrap, topic)] == [100] * 99


async def _all(sent: list) -> list[RecordMetadata]:  # type: ignore[type-arg]
    return [await one for one in sent]


def test_batches_wait_for_linger_ms_unless_they_are_full(bootstrap: str, topic: str) -> None:
    create_topic(bootstrap, topic)

    async def main() -> None:
        async with producer(bootstrap, linger_ms=400, batch_size=5000) as sender:
            await sender.send_and_wait(topic, b"first")
            clock = asyncio.get_running_loop().time
            began = clock()
            lingers = await sender.send(topic, b"x")
            await lingers
            assert clock() - began >= 0.38
            full = [await sender.send(topic, b"x" * 1000) for _ in range(6)]
            began = clock()
            await full[0]
            assert clock() - began < 0.3
            assert not full[5].done()

    run(main)


def test_compressed_batches_hold_more_records_once_it_is_known_how_well_they_compress(
    bootstrap: str, topic: str
) -> None:
    create_topic(bootstrap, topic)

    async def main() -> float:
        async with producer(bootstrap, compression_type="lz4", linger_ms=1000) as sender:
            for _ in range(20):
                for _ in range(5_000):
                    await sender.send(topic, b"always the same text " * 10)
                await sender.flush()
            return sender.metrics()["records-per-request-max"]

    assert run(main) > 2 * 16_384 / 210


def test_records_without_a_key_are_spread_over_the_partitions_in_whole_batches(
    bootstrap: str, topic: str
) -> None:
    create_topic(bootstrap, topic, 4)

    async def main() -> None:
        async with producer(bootstrap, batch_size=2000, linger_ms=100) as sender:
            for _ in range(10_000):
                await sender.send(topic, b"x" * 100)
            await sender.flush()
            assert sender.metrics()["batch-size-avg"] > 1700

    run(main)
    counts = [len(records) for records in read(bootstrap, topic, 4).values()]
    assert sum(counts) == 10_000
    assert min(counts) > 1200


# Flush, close, failures nobody looked at


def test_flush_waits_for_what_was_given_before_it(bootstrap: str, topic: str) -> None:
    async def main() -> None:
        async with producer(bootstrap, linger_ms=10_000) as sender:
            sent = [await sender.send(topic, b"x") for _ in range(100)]
            await sender.flush()
            assert all(one.done() for one in sent)

    run(main)


def test_a_failure_that_nobody_looked_at_is_raised_by_flush_once(
    bootstrap: str, topic: str
) -> None:
    create_topic(bootstrap, topic, 1, max_message_bytes="1000")

    async def main() -> None:
        async with producer(bootstrap) as sender:
            await sender.send(topic, b"x" * 5000)
            with pytest.raises(DeliveryFailed, match="MESSAGE_TOO_LARGE") as caught:
                await sender.flush()
            assert isinstance(caught.value.cause, KafkaError)
            await sender.flush()

    run(main)


def test_a_failure_that_nobody_looked_at_is_raised_at_the_end_of_the_block(
    bootstrap: str, topic: str
) -> None:
    create_topic(bootstrap, topic, 1, max_message_bytes="1000")

    async def main() -> None:
        with pytest.raises(DeliveryFailed):
            async with producer(bootstrap) as sender:
                await sender.send(topic, b"x" * 5000)

    run(main)


def test_a_failure_that_somebody_looked_at_is_not_raised_again(bootstrap: str, topic: str) -> None:
    create_topic(bootstrap, topic, 1, max_message_bytes="1000")

    async def main() -> None:
        async with producer(bootstrap, linger_ms=10_000) as sender:
            awaited = await sender.send(topic, b"x" * 5000)
            task = asyncio.create_task(_all([awaited]))
            await sender.send(topic, b"y" * 5000, on_delivery=lambda *_: None)
            looked_at = await sender.send(topic, b"z" * 5000)
            looked_at.add_done_callback(lambda _: None)
            await asyncio.sleep(0)
            await sender.flush()
            with pytest.raises(KafkaError):
                await task

    run(main)


def test_close_gives_up_after_its_timeout(fresh_broker: MakeBroker, topic: str) -> None:
    broker = fresh_broker()

    async def main() -> None:
        sender = producer(broker.address)
        await sender.start()
        await sender.send_and_wait(topic, b"x")
        broker.kill()
        sent = await sender.send(topic, b"y")
        with pytest.raises(DeliveryFailed, match="closed before"):
            await sender.close(timeout_ms=300)
        with pytest.raises(ProducerClosed):
            await sent
        await sender.close()

    run(main)


def test_a_closed_producer_takes_nothing(bootstrap: str, topic: str) -> None:
    async def main() -> None:
        async with producer(bootstrap) as sender:
            await sender.send_and_wait(topic, b"x")
        with pytest.raises(ProducerClosed):
            await sender.send(topic, b"x")
        with pytest.raises(ProducerClosed):
            await sender.flush()

    run(main)


def test_a_producer_that_was_not_started_says_how_to(bootstrap: str, topic: str) -> None:
    async def main() -> None:
        sender = producer(bootstrap)
        with pytest.raises(IllegalState, match="async with"):
            await sender.send(topic, b"x")
        await sender.close()

    run(main)


def test_a_producer_can_share_the_runtime_and_the_cluster_of_others(
    bootstrap: str, topic: str
) -> None:
    async def main() -> None:
        runtime = OsRuntime()
        async with producer(bootstrap, runtime=runtime) as sender:
            await sender.send_and_wait(topic, b"x")
        async with Cluster.of(ClientSettings(bootstrap_servers=bootstrap), runtime) as cluster:
            for value in (b"y", b"z"):  # the second finds the topic known
                async with Producer.over(cluster, linger_ms=0, max_block_ms=5_000) as sender:
                    await sender.send_and_wait(topic, value)
            assert await cluster.any_broker()
        await runtime.close()

    run(main)
    assert values(bootstrap, topic) == [b"x", b"y", b"z"]


# Memory


def test_the_buffer_is_bounded(bootstrap: str, topic: str) -> None:
    create_topic(bootstrap, topic)

    async def main() -> None:
        async with producer(bootstrap, buffer_memory=5000, batch_size=1000) as sender:
            memory = sender._running().accumulator.memory
            for _ in range(500):
                await sender.send(topic, b"x" * 100)
                assert memory.free >= 0
            await sender.flush()
            assert memory.free == 5000

    run(main)
    assert len(values(bootstrap, topic)) == 500


def test_senders_that_find_no_room_wait_in_line(bootstrap: str, topic: str) -> None:
    create_topic(bootstrap, topic)

    async def main() -> None:
        async with producer(bootstrap, buffer_memory=2000, linger_ms=10_000) as sender:
            await sender.partitions_for(topic)

            async def give(number: int) -> None:
                await sender.send(topic, b"%0500d" % number)

            await asyncio.gather(*(give(number) for number in range(50)))

    run(main)
    found = [int(value or b"") for value in values(bootstrap, topic)]
    assert found == list(range(50))


@pytest.mark.parametrize("max_block_ms", [0, 200])
def test_a_full_buffer_raises_what_to_do_after_max_block_ms(
    fresh_broker: MakeBroker, topic: str, max_block_ms: int
) -> None:
    broker = fresh_broker()

    async def main() -> None:
        sender = producer(broker.address, buffer_memory=2000, max_block_ms=max_block_ms)
        await sender.start()
        for _ in range(100):  # without patience the first metadata is not waited for either
            try:
                await sender.send_and_wait(topic, b"x")
                break
            except TopicMissing:
                await asyncio.sleep(0.05)
        broker.kill()
        await sender.send(topic, b"x" * 1500)
        with pytest.raises(BufferExhausted, match="raise buffer_memory"):
            await sender.send(topic, b"x" * 1500)
        assert sender.metrics()["buffer-exhausted-total"] == 1
        with pytest.raises(DeliveryFailed):
            await sender.close(timeout_ms=0)

    run(main)


# Serializers


def test_serializers_may_be_functions_or_objects(bootstrap: str, topic: str) -> None:
    create_topic(bootstrap, topic)

    class WithHeader:
        def serialize(self, topic: str, value: object, headers: list) -> bytes:  # type: ignore[type-arg]
            headers.append(("kind", type(value).__name__.encode()))
            return json.dumps(value).encode()

    async def main() -> None:
        async with producer(
            bootstrap, key_serializer=str.encode, value_serializer=JsonSerializer()
        ) as sender:
            await sender.send(topic, {"a": "ü"}, "key")
            await sender.send(topic, None, None)
        async with producer(
            bootstrap, key_serializer=StringSerializer(), value_serializer=WithHeader()
        ) as sender:
            await sender.send(topic, [1], "k", headers=[("h", b"1")])

    run(main)
    found = [(r.key, r.value, r.headers) for r in read(bootstrap, topic)[0]]
    assert found == [
        (b"key", '{"a":"ü"}'.encode(), []),
        (None, None, []),
        (b"k", b"[1]", [("h", b"1"), ("kind", b"list")]),
    ]


def test_metrics_have_kafkas_names(bootstrap: str, topic: str) -> None:
    async def main() -> None:
        async with producer(bootstrap, compression_type="lz4") as sender:
            for _ in range(1000):
                await sender.send(topic, b"x" * 100)
            await sender.flush()
            found = sender.metrics()
        assert found["record-send-total"] == 1000
        assert found["record-error-total"] == found["record-retry-total"] == 0
        assert 0 < found["compression-rate-avg"] < 1
        assert found["batch-size-max"] >= found["batch-size-avg"] > 0
        assert found["records-per-request-avg"] > 1
        assert found["record-queue-time-max"] > 0
        assert found["produce-throttle-time-avg"] == 0
        assert found["buffer-available-bytes"] == found["buffer-total-bytes"]

    run(main)
