"""The producer on a real broker, read back by confluent-kafka."""

from __future__ import annotations

import asyncio
import json
from itertools import chain

import pytest
from producer_tools import (
    add_partitions,
    all_of,
    create_topic,
    delete_topic,
    producer,
    read,
    run,
    values,
)

from broker_harness import MakeBroker
from ottla.client.errors import (
    DeliveryFailed,
    IllegalState,
    ProducerClosed,
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
            task = asyncio.create_task(all_of([awaited]))
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
