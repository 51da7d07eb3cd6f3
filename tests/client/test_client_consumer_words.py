"""What a consumer says when it is used in a way that cannot work, against a real broker."""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from consumer_tools import create_topic, delete_topic, filled, reader, run, take

from broker_harness import Broker
from ottla.client.consumer.consumer import Consumer
from ottla.client.consumer.groups.rebalance_listener import RebalanceListener
from ottla.client.errors import IllegalState
from ottla.client.values import OffsetAndMetadata, TopicPartition
from ottla.protocol.errors import ErrorCode, KafkaError

ONE = TopicPartition("t", 0)

# Nothing to read


async def iterate(consumer: Consumer) -> None:
    async for _ in consumer:
        pass


async def batches(consumer: Consumer) -> None:
    async for _ in consumer.batches():
        pass


@pytest.mark.parametrize(
    "call",
    [Consumer.poll, Consumer.getone, Consumer.fetch_arrow, iterate, batches],
    ids=["poll", "getone", "fetch_arrow", "iteration", "batches"],
)
def test_without_anything_to_read_no_call_waits(
    bootstrap: str, topic: str, call: Callable[[Consumer], Awaitable[object]]
) -> None:
    partitions = filled(bootstrap, topic, 1)

    async def refused(consumer: Consumer) -> None:
        with pytest.raises(IllegalState, match=r"subscribe\(\) or assign\(\) first"):
            await call(consumer)

    async def main() -> None:
        async with reader(bootstrap) as consumer:
            await refused(consumer)
            consumer.assign(partitions)
            assert len(await take(consumer, 1)) == 1
            consumer.assign([])
            await refused(consumer)
            consumer.subscribe([topic])
            await consumer.poll(10)
            await consumer.unsubscribe()
            await refused(consumer)

    run(main)


@pytest.mark.parametrize("group", [None, "some-group"])
def test_a_name_that_no_topic_can_have_is_an_error_of_poll(
    group_broker: Broker, group: str | None
) -> None:
    async def main() -> None:
        async with reader(group_broker.address, group_id=group) as consumer:
            consumer.subscribe(["bad topic!"])
            with pytest.raises(KafkaError, match="'bad topic!'") as caught:
                await take(consumer, 1)
            assert caught.value.code == ErrorCode.INVALID_TOPIC_EXCEPTION

    run(main)


def test_a_missing_topic_is_told_once_each_time_it_goes_missing(
    bootstrap: str, topic: str, caplog: pytest.LogCaptureFixture
) -> None:
    def told() -> int:
        return sum(f"topic {topic!r} does not exist (yet)" in one for one in caplog.messages)

    async def until(count: int, consumer: Consumer) -> None:
        while told() < count:
            await consumer.poll(50)

    async def main() -> None:
        options = {"allow_auto_create_topics": False, "metadata_max_age_ms": 100}
        async with reader(bootstrap, **options) as consumer:
            consumer.subscribe([topic])
            await until(1, consumer)
            await consumer.poll(500)
            assert told() == 1
            await asyncio.to_thread(filled, bootstrap, topic, 1)
            await take(consumer, 1)
            await asyncio.to_thread(delete_topic, bootstrap, topic)
            await until(2, consumer)

    with caplog.at_level(logging.WARNING, "ottla.client"):
        run(main)


def test_where_it_is_created_by_asking_nothing_is_told(
    bootstrap: str, topic: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        async with reader(bootstrap) as consumer:
            consumer.subscribe([topic])
            while not consumer.assignment():
                await consumer.poll(50)

    with caplog.at_level(logging.WARNING, "ottla.client"):
        run(main)
    assert "does not exist" not in caplog.text


# The life of a consumer


class Slow(RebalanceListener):
    def __init__(self) -> None:
        self.consumer: Consumer | None = None
        self.is_done = False

    async def on_partitions_revoked(self, partitions: frozenset[TopicPartition]) -> None:
        assert self.consumer is not None
        await self.consumer.close()  # by whom it is called: not waited for
        await asyncio.sleep(0.3)
        self.is_done = True


def test_closing_while_it_is_closed_waits_for_the_end(group_broker: Broker, topic: str) -> None:
    create_topic(group_broker.address, topic)

    async def main() -> None:
        listener = Slow()
        consumer = Consumer(
            topic, bootstrap_servers=group_broker.address, group_id=topic, listener=listener
        )
        listener.consumer = consumer
        await consumer.start()
        while not consumer.assignment():
            await consumer.poll(100)
        first = asyncio.create_task(consumer.close())
        await asyncio.sleep(0.05)
        await consumer.close()
        assert listener.is_done
        await first
        await consumer.close()

    run(main)


def test_another_event_loop_than_its_own_is_told(group_broker: Broker, topic: str) -> None:
    filled(group_broker.address, topic, 1)
    consumer = reader(group_broker.address, group_id=topic)
    consumer.subscribe([topic])
    calls: list[Callable[[], Awaitable[Any]]] = [
        consumer.poll,
        consumer.getone,
        consumer.commit,
        lambda: consumer.committed([TopicPartition(topic, 0)]),
        lambda: consumer.end_offsets([TopicPartition(topic, 0)]),
        consumer.close,
    ]

    async def elsewhere() -> None:
        for call in calls:
            with pytest.raises(IllegalState, match="made on another event loop"):
                await asyncio.wait_for(call(), 5)

    async def main() -> None:
        await consumer.start()
        await take(consumer, 1)
        await asyncio.to_thread(asyncio.run, elsewhere())
        await consumer.close()

    run(main)
    asyncio.run(consumer.close())  # it is closed: nothing to say


# Arguments


def test_topics_are_given_one_by_one() -> None:
    given: Any = ["a", "b"]
    with pytest.raises(TypeError, match=r'Consumer\("a", "b"\), not \[\'a\', \'b\'\]'):
        Consumer(given)


@pytest.mark.parametrize("listener", [5, print, RebalanceListener])
def test_a_listener_is_looked_at_at_once(listener: Any) -> None:
    with pytest.raises(TypeError, match="is not a RebalanceListener"):
        Consumer("a", listener=listener)
    with pytest.raises(TypeError, match="is not a RebalanceListener"):
        Consumer(listener=listener)
    with pytest.raises(TypeError, match="is not a RebalanceListener"):
        Consumer().subscribe(["a"], listener=listener)


@pytest.mark.parametrize(
    ("call", "kind", "words"),
    [
        (lambda c: c.subscribe([""]), ValueError, "cannot be empty"),
        (lambda c: c.subscribe([5]), TypeError, "5 is not the name of a topic"),
        (lambda c: c.subscribe(5), TypeError, "takes a list of topics, not 5"),
        (
            lambda c: c.subscribe(pattern="a(b"),
            ValueError,
            r"pattern='a\(b'.*unterminated.*position 1",
        ),
        (lambda c: c.subscribe(pattern=5), TypeError, "takes a str or a re.Pattern, not 5"),
        (lambda c: c.assign(5), TypeError, "5 is not a list of partitions"),
        (lambda c: c.assign(ONE), TypeError, "is not a list of partitions"),
        (lambda c: c.assign([5]), TypeError, "5 is not a partition"),
        (lambda c: c.assign([("t", "0")]), TypeError, "is not a partition"),
        (lambda c: c.assign([("t", -1)]), ValueError, "numbered from 0"),
        (lambda c: c.pause("t"), TypeError, "'t' is not a partition"),
        (lambda c: c.seek(5, 0), TypeError, "5 is not a partition"),
        (lambda c: c.seek(ONE, None), TypeError, "t-0: None is not an offset"),
        (lambda c: c.seek(ONE, -5), ValueError, "t-0: -5 is not an offset"),
        (lambda c: c.seek_to_time({ONE: "now"}), TypeError, "'now' is not a time"),
        (lambda c: c.seek_to_time([ONE]), TypeError, "is not a dict from partitions to times"),
    ],
)
def test_what_a_plain_call_cannot_take_is_told_in_words(
    call: Callable[[Any], object], kind: type[Exception], words: str
) -> None:
    with pytest.raises(kind, match=words):
        call(Consumer())


@pytest.mark.parametrize(
    ("call", "kind", "words"),
    [
        (lambda c: c.commit({ONE: "5"}), TypeError, "t-0: '5' is not an offset"),
        (
            lambda c: c.commit({ONE: OffsetAndMetadata("5")}),  # type: ignore[arg-type]
            TypeError,
            "is not an offset",
        ),
        (lambda c: c.commit({ONE: -1}), ValueError, "-1 is not an offset"),
        (lambda c: c.commit([ONE]), TypeError, "is not a dict from partitions to offsets"),
        (lambda c: c.commit({"t": 1}), TypeError, "'t' is not a partition"),
        (lambda c: c.committed(ONE), TypeError, "is not a list of partitions"),
        (lambda c: c.end_offsets(5), TypeError, "5 is not a list of partitions"),
        (lambda c: c.offsets_for_times({ONE: None}), TypeError, "None is not a time"),
        (lambda c: c.position("t"), TypeError, "'t' is not a partition"),
        (lambda c: c.poll(timeout_ms=None), TypeError, r'timeout_ms=None .* float\("inf"\)'),
        (lambda c: c.poll(max_records="5"), TypeError, "max_records='5' is not an int"),
        (lambda c: c.poll(max_records=0), ValueError, "at least 1"),
        (lambda c: c.fetch_arrow(max_records=0), ValueError, "at least 1"),
    ],
)
def test_what_a_call_that_waits_cannot_take_is_told_in_words(
    group_broker: Broker,
    topic: str,
    call: Callable[[Any], Awaitable[object]],
    kind: type[Exception],
    words: str,
) -> None:
    async def main() -> None:
        async with reader(group_broker.address, group_id=topic) as consumer:
            consumer.subscribe(pattern=re.compile("no-such-topic"))
            with pytest.raises(kind, match=words):
                await call(consumer)

    run(main)


def test_plain_tuples_are_partitions(group_broker: Broker, topic: str) -> None:
    filled(group_broker.address, topic, 3)
    one: Any = (topic, 0)

    async def main() -> None:
        async with reader(group_broker.address, group_id=topic) as consumer:
            consumer.assign([one])
            consumer.pause(one)
            assert consumer.paused() == {one}
            consumer.resume([one])
            consumer.seek(one, 2)
            assert [record.offset for record in await take(consumer, 1)] == [2]
            assert await consumer.position(one) == 3
            await consumer.commit({one: 3})
            assert (await consumer.committed([one]))[one] == OffsetAndMetadata(3)
            assert await consumer.end_offsets([one]) == {one: 3}

    run(main)


def test_a_listener_without_topics_is_refused_rather_than_forgotten() -> None:
    with pytest.raises(TypeError, match="goes with topics"):
        Consumer(group_id="g", listener=RebalanceListener())
