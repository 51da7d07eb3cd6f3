"""Records worked on in parallel, against a real broker: order, commits, failures, rebalances."""

from __future__ import annotations

import asyncio
import threading
import uuid
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from confluent_kafka import Producer as ConfluentProducer
from confluent_kafka.admin import AdminClient, NewTopic

from broker_harness import Broker
from ottla.client.consumer.consumer import Consumer
from ottla.client.errors import BadSetting, HandlerCancelled
from ottla.client.values import AnyRecord, TopicPartition

PARTITIONS = 2
WAIT_S = 20.0


@pytest.fixture
def topic(group_broker: Broker) -> str:
    name = f"parallel-{uuid.uuid4().hex[:8]}"
    admin = AdminClient({"bootstrap.servers": group_broker.address, "log_level": 3})
    admin.create_topics([NewTopic(name, PARTITIONS, 1)])[name].result(WAIT_S)
    return name


def seed(broker: Broker, topic: str, count: int, *, keys: int = 4, partition: int = 0) -> None:
    producer = ConfluentProducer({"bootstrap.servers": broker.address})
    for number in range(count):
        producer.produce(topic, b"%d" % number, b"k%d" % (number % keys), partition)
    assert producer.flush(WAIT_S) == 0


def reader(broker: Broker, topic: str, **options: Any) -> Consumer:
    settings: dict[str, Any] = {
        "bootstrap_servers": broker.address,
        "group_id": f"g-{topic}",
        "auto_offset_reset": "earliest",
        "enable_auto_commit": False,
        "heartbeat_interval_ms": 200,
    }
    return Consumer(topic, **(settings | options))


def bounded(work: Callable[[], Awaitable[None]]) -> None:
    async def main() -> None:
        async with asyncio.timeout(WAIT_S * 2):
            await work()

    asyncio.run(main())


async def committed(broker: Broker, topic: str, partition: int = 0) -> int | None:
    place = TopicPartition(topic, partition)
    async with reader(broker, topic) as consumer:
        found = (await consumer.committed([place]))[place]
    return None if found is None else found.offset


async def eventually(condition: Callable[[], Awaitable[bool]]) -> None:
    """Bounded by whoever calls."""
    while not await condition():  # noqa: ASYNC110, it is about the broker
        await asyncio.sleep(0.05)


class Seen:
    """Notes what a handler got, and stops the consumer after so many."""

    def __init__(self, consumer: Consumer, stop_after: int) -> None:
        self.records: list[AnyRecord] = []
        self.running = self.running_max = 0
        self._consumer = consumer
        self._stop_after = stop_after

    async def __call__(self, record: AnyRecord) -> None:
        self.running += 1
        self.running_max = max(self.running, self.running_max)
        await asyncio.sleep(0.001 * (record.offset % 3))
        self.running -= 1
        self.note(record)

    def note(self, record: AnyRecord) -> None:
        self.records.append(record)
        if len(self.records) == self._stop_after:
            self._consumer.wakeup()

    def offsets_by(self, what: Callable[[AnyRecord], object]) -> list[list[int]]:
        groups: dict[object, list[int]] = {}
        for record in self.records:
            groups.setdefault(what(record), []).append(record.offset)
        return list(groups.values())


def test_keys_are_worked_on_at_the_same_time_each_in_order(
    group_broker: Broker, topic: str
) -> None:
    seed(group_broker, topic, 60)
    seed(group_broker, topic, 40, partition=1)

    async def work() -> None:
        async with reader(group_broker, topic) as consumer:
            seen = Seen(consumer, 100)
            await consumer.process(seen, concurrency=8)
        assert len(set(seen.records)) == 100
        for offsets in seen.offsets_by(lambda one: (one.partition, one.key)):
            assert offsets == sorted(offsets)
        assert 4 < seen.running_max <= 8
        assert await committed(group_broker, topic) == 60
        assert await committed(group_broker, topic, 1) == 40

    bounded(work)


def test_a_partition_can_be_kept_in_order(group_broker: Broker, topic: str) -> None:
    seed(group_broker, topic, 30)
    seed(group_broker, topic, 30, partition=1)

    async def work() -> None:
        async with reader(group_broker, topic) as consumer:
            seen = Seen(consumer, 60)
            await consumer.process(seen, ordering="partition")
        assert seen.offsets_by(lambda one: one.partition) == [list(range(30)), list(range(30))]
        assert seen.running_max == PARTITIONS

    bounded(work)


def test_without_order_one_key_is_worked_on_many_times_at_once(
    group_broker: Broker, topic: str
) -> None:
    seed(group_broker, topic, 50, keys=1)

    async def work() -> None:
        async with reader(group_broker, topic) as consumer:
            seen = Seen(consumer, 50)
            await consumer.process(seen, ordering="unordered", concurrency=10)
        assert seen.running_max == 10
        assert len(set(seen.records)) == 50

    bounded(work)


@pytest.mark.parametrize("auto_commit", [False, True])
def test_only_what_lies_before_the_first_unfinished_record_is_committed(
    group_broker: Broker, topic: str, auto_commit: bool
) -> None:
    seed(group_broker, topic, 20)

    async def work() -> None:
        options = {"enable_auto_commit": auto_commit, "auto_commit_interval_ms": 50}
        async with reader(group_broker, topic, **options) as consumer:
            others = asyncio.Event()
            done = []

            async def handler(record: AnyRecord) -> None:
                if record.offset == 5:
                    await asyncio.Event().wait()
                done.append(record.offset)
                if len(done) == 16:  # all but those of the same key behind number 5
                    others.set()

            processing = asyncio.ensure_future(consumer.process(handler, drain_timeout_ms=100))
            await others.wait()
            await eventually(lambda: _is_committed(group_broker, topic, 5))
            await asyncio.sleep(0.3)  # several intervals more
            assert await committed(group_broker, topic) == 5
            consumer.wakeup()
            await processing
            assert consumer.assignment()
            assert await consumer.position(TopicPartition(topic, 0)) == 5
        assert await committed(group_broker, topic) == 5

    bounded(work)


def test_a_failing_handler_stops_everything_and_its_record_comes_again(
    group_broker: Broker, topic: str
) -> None:
    seed(group_broker, topic, 20)

    async def work() -> None:
        async with reader(group_broker, topic) as consumer:

            async def handler(record: AnyRecord) -> None:
                if record.offset == 7:
                    raise ValueError("not today")

            with pytest.raises(ValueError, match="not today") as raised:
                await consumer.process(handler)
            assert raised.value.__notes__ == [f"while working on {topic}-0 offset 7"]
            assert await committed(group_broker, topic) == 7
            seen = Seen(consumer, 13)
            await consumer.process(seen)
            assert sorted(one.offset for one in seen.records) == list(range(7, 20))

    bounded(work)


@pytest.mark.parametrize("is_taken", [False, True])
def test_a_handler_that_waited_for_something_cancelled_has_failed(
    group_broker: Broker, topic: str, is_taken: bool
) -> None:
    seed(group_broker, topic, 3)

    async def work() -> None:
        async with reader(group_broker, topic) as consumer:
            given_up: list[Exception] = []

            async def handler(record: AnyRecord) -> None:
                if record.offset == 1:
                    other = asyncio.create_task(asyncio.sleep(10))
                    other.cancel()
                    await other

            def on_failure(record: AnyRecord, error: Exception) -> None:
                given_up.append(error)
                consumer.wakeup()

            if is_taken:
                await consumer.process(handler, on_failure=on_failure)
            else:
                with pytest.raises(HandlerCancelled, match="something it waited for") as raised:
                    await consumer.process(handler)
                given_up.append(raised.value)
            assert isinstance(given_up[0].__cause__, asyncio.CancelledError)

    bounded(work)


@pytest.mark.parametrize("handler", [None, 5])
def test_what_cannot_be_called_is_no_handler(
    group_broker: Broker, topic: str, handler: Any
) -> None:
    async def work() -> None:
        async with reader(group_broker, topic) as consumer:
            with pytest.raises(TypeError, match="function of one record"):
                await consumer.process(handler)
            assert consumer.assignment() == frozenset()

    bounded(work)


def test_only_events_and_functions_are_taken_where_they_are_meant(
    group_broker: Broker, topic: str
) -> None:
    async def work() -> None:
        wrong: Any = 5
        async with reader(group_broker, topic) as consumer:
            with pytest.raises(TypeError, match=r"until: 5 is not an asyncio\.Event"):
                await consumer.process(print, until=wrong)
            with pytest.raises(TypeError, match="on_failure: 5 is not a function"):
                await consumer.process(print, on_failure=wrong)

    bounded(work)


def test_a_record_is_tried_again_as_often_as_told(group_broker: Broker, topic: str) -> None:
    seed(group_broker, topic, 3)

    async def work() -> None:
        async with reader(group_broker, topic) as consumer:
            tries: list[int] = []

            async def handler(record: AnyRecord) -> None:
                tries.append(record.offset)
                if record.offset == 1 and tries.count(1) < 3:
                    raise ValueError
                if len(tries) == 5:
                    consumer.wakeup()

            await consumer.process(handler, retries=2, retry_backoff_ms=10)
            assert sorted(tries) == [0, 1, 1, 1, 2]
        assert await committed(group_broker, topic) == 3

    bounded(work)


def test_what_is_given_up_goes_to_on_failure_and_counts_as_done(
    group_broker: Broker, topic: str
) -> None:
    seed(group_broker, topic, 10)

    async def work() -> None:
        async with reader(group_broker, topic) as consumer:
            dead: list[tuple[int, str]] = []

            async def handler(record: AnyRecord) -> None:
                if record.offset % 2:
                    raise ValueError(f"odd {record.offset}")

            async def on_failure(record: AnyRecord, error: Exception) -> None:
                dead.append((record.offset, str(error)))
                if len(dead) == 5:
                    consumer.wakeup()

            await consumer.process(handler, on_failure=on_failure)
            assert sorted(dead) == [(one, f"odd {one}") for one in (1, 3, 5, 7, 9)]

    bounded(work)
    asyncio.run(_expect_committed(group_broker, topic, 10))


async def _is_committed(broker: Broker, topic: str, offset: int) -> bool:
    return await committed(broker, topic) == offset


async def _expect_committed(broker: Broker, topic: str, offset: int) -> None:
    assert await committed(broker, topic) == offset


def test_a_plain_function_runs_in_threads(group_broker: Broker, topic: str) -> None:
    seed(group_broker, topic, 20)

    async def work() -> None:
        async with reader(group_broker, topic) as consumer:
            loop = asyncio.get_running_loop()
            seen = Seen(consumer, 20)
            together = threading.Barrier(4)

            def handler(record: AnyRecord) -> None:
                assert threading.current_thread() is not threading.main_thread()
                if record.offset < 4:
                    together.wait(WAIT_S)  # only if four run at the same time
                loop.call_soon_threadsafe(seen.note, record)

            await consumer.process(handler)
            for offsets in seen.offsets_by(lambda one: one.key):
                assert offsets == sorted(offsets)

    bounded(work)


def test_no_more_is_taken_than_was_allowed(group_broker: Broker, topic: str) -> None:
    seed(group_broker, topic, 500)
    seed(group_broker, topic, 500, partition=1)

    async def work() -> None:
        async with reader(group_broker, topic) as consumer:
            may_go_on = asyncio.Event()
            seen = Seen(consumer, 1000)

            async def handler(record: AnyRecord) -> None:
                await may_go_on.wait()
                seen.note(record)

            processing = asyncio.ensure_future(consumer.process(handler, max_buffered=50))

            async def is_full() -> bool:
                return bool(consumer.paused()) and consumer.paused() == consumer.assignment()

            await eventually(is_full)
            await asyncio.sleep(0.3)
            positions = [await consumer.position(one) for one in consumer.assignment()]
            assert sum(positions) == 50
            assert consumer.paused() == consumer.assignment()
            may_go_on.set()
            await processing
            assert not consumer.paused()
            assert len(set(seen.records)) == 1000

    bounded(work)


def test_a_partition_that_is_given_up_is_finished_and_committed_first(
    group_broker: Broker, topic: str
) -> None:
    seed(group_broker, topic, 50)
    seed(group_broker, topic, 50, partition=1)

    async def work() -> None:
        handled: list[tuple[str, int, int]] = []
        some, all_of_them = asyncio.Event(), asyncio.Event()

        def handler_of(name: str) -> Callable[[AnyRecord], Awaitable[None]]:
            async def handler(record: AnyRecord) -> None:
                await asyncio.sleep(0.02)
                handled.append((name, record.partition, record.offset))
                if len(handled) in (10, 100):
                    (some if len(handled) == 10 else all_of_them).set()

            return handler

        async with reader(group_broker, topic) as first, reader(group_broker, topic) as second:
            one = asyncio.ensure_future(
                first.process(handler_of("first"), ordering="partition", max_buffered=20)
            )
            await some.wait()
            two = asyncio.ensure_future(
                second.process(handler_of("second"), ordering="partition", max_buffered=20)
            )
            await all_of_them.wait()
            first.wakeup()
            second.wakeup()
            await asyncio.gather(one, two)
        # Handed over at a record's border: nothing twice, nothing left out, both took part.
        assert sorted(entry[1:] for entry in handled) == [
            (partition, offset) for partition in range(2) for offset in range(50)
        ]
        assert {entry[0] for entry in handled} == {"first", "second"}

    bounded(work)


def test_cancelling_stops_handlers_and_commits_what_is_done(
    group_broker: Broker, topic: str
) -> None:
    seed(group_broker, topic, 5)

    async def work() -> None:
        async with reader(group_broker, topic) as consumer:
            stuck = asyncio.Event()
            cancelled = []

            async def handler(record: AnyRecord) -> None:
                if record.offset == 3:
                    stuck.set()
                    try:
                        await asyncio.Event().wait()
                    except asyncio.CancelledError:
                        cancelled.append(record.offset)
                        raise

            processing = asyncio.ensure_future(consumer.process(handler))
            await stuck.wait()
            await asyncio.sleep(0.1)
            processing.cancel()
            with pytest.raises(asyncio.CancelledError):
                await processing
            assert cancelled == [3]
            assert await committed(group_broker, topic) == 3

    bounded(work)


def test_a_seek_while_it_runs_brings_records_again(group_broker: Broker, topic: str) -> None:
    seed(group_broker, topic, 10)

    async def work() -> None:
        async with reader(group_broker, topic) as consumer:
            seen: list[int] = []
            done = asyncio.Event()

            async def handler(record: AnyRecord) -> None:
                seen.append(record.offset)
                if len(seen) == 10:
                    consumer.seek(TopicPartition(topic, 0), 3)
                if len(seen) == 17:
                    done.set()

            await consumer.process(handler, ordering="partition", until=done)
            assert seen == [*range(10), *range(3, 10)]
        assert await committed(group_broker, topic) == 10

    bounded(work)


@pytest.mark.parametrize("make", [asyncio.Event, threading.Event])
def test_an_event_ends_it_as_well(
    group_broker: Broker, topic: str, make: Callable[[], Any]
) -> None:
    seed(group_broker, topic, 5)

    async def work() -> None:
        done = make()
        async with reader(group_broker, topic) as consumer:

            async def handler(record: AnyRecord) -> None:
                if record.offset == 4:
                    done.set()

            await consumer.process(handler, until=done)
        assert await committed(group_broker, topic) == 5

    bounded(work)


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"concurrency": 0}, "concurrency: 0 is below"),
        ({"ordering": "random"}, "ordering: 'random' is none of"),
        ({"parallel": 3}, "parallel: there is no such setting"),
    ],
)
def test_wrong_options_are_told(
    group_broker: Broker, topic: str, options: dict[str, Any], problem: str
) -> None:
    async def work() -> None:
        async with reader(group_broker, topic) as consumer:
            with pytest.raises(BadSetting, match=problem):
                await consumer.process(print, **options)

    bounded(work)
