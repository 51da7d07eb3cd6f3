"""A producer and a consumer of a group at work, with default settings, while something breaks.

Beside them stands what must hold whatever broke: everything that was acknowledged is in the log
once, where it was said to be, in the order of `send`, and the consumer has seen all of it.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from typing import Any, TypeVar

import confluent_kafka
from bench.brokers import free_port

from broker_harness import TARGET, MakeBroker
from fault_proxy import FaultProxy
from ottla import Admin, ClientError, Consumer, Producer, RecordMetadata

T = TypeVar("T")

RUN_TIMEOUT_S = 100
WAIT_S = 40
BURST = 20
PAUSE_S = 0.01

STARTERS = ThreadPoolExecutor(3)
"""A broker ends with the thread that started it: these outlive every event loop."""

QUICK_GROUPS = {"group.initial.rebalance.delay.ms": "0"}


def run(main: Callable[[], Coroutine[Any, Any, T]]) -> T:
    async def bounded() -> T:
        async with asyncio.timeout(RUN_TIMEOUT_S):
            return await main()

    return asyncio.run(bounded())


async def elsewhere(work: Callable[..., T], *arguments: Any) -> T:
    """Blocking work beside the event loop, which goes on; brokers may be started by it."""
    return await asyncio.get_running_loop().run_in_executor(STARTERS, work, *arguments)


async def eventually(holds: Callable[[], bool | Awaitable[bool]], what: str) -> None:
    deadline = time.monotonic() + WAIT_S
    while True:
        found = holds()
        if found if isinstance(found, bool) else await found:
            return
        assert time.monotonic() < deadline, f"not within {WAIT_S} s: {what}"
        await asyncio.sleep(0.05)


def start_behind(proxy: FaultProxy, fresh_broker: MakeBroker) -> str:
    """A broker whose clients all come through the proxy; the address that they take."""
    options = {"advertised.listeners": f"PLAINTEXT://{proxy.address}", **QUICK_GROUPS}
    broker = fresh_broker(options, start=False)
    if TARGET == "ottla":  # Kafka chooses by itself
        broker.port = free_port()
    broker.start()
    proxy.target = ("127.0.0.1", broker.port)
    return proxy.address


class Load:
    """Numbers go round the partitions of a topic, and come back."""

    def __init__(self, topic: str, partitions: int) -> None:
        self.topic = topic
        self.partitions = partitions
        self.sent = 0
        self.acknowledged: list[dict[int, int]] = [{} for _ in range(partitions)]
        """By partition: numbers by offset."""
        self.failures: list[Exception] = []
        self.seen: list[dict[int, int]] = [{} for _ in range(partitions)]
        """By partition: numbers by offset, in the order in which they came first."""
        self.repeated = 0
        self._is_over = False

    @property
    def arrived(self) -> int:
        return sum(map(len, self.acknowledged))

    async def feed(self, producer: Producer) -> None:
        while not self._is_over:
            for _ in range(BURST):
                number, self.sent = self.sent, self.sent + 1
                await producer.send(
                    self.topic,
                    b"%d" % number,
                    partition=number % self.partitions,
                    on_delivery=self._noter(number),
                )
            await asyncio.sleep(PAUSE_S)
        await producer.flush()

    def _noter(self, number: int) -> Callable[[RecordMetadata | None, Exception | None], None]:
        def note(metadata: RecordMetadata | None, error: Exception | None) -> None:
            if metadata is None:
                assert error is not None
                self.failures.append(error)
            else:
                self.acknowledged[metadata.partition][metadata.offset] = number

        return note

    async def read(self, consumer: Consumer) -> None:
        async for record in consumer:
            seen = self.seen[record.partition]
            if record.offset in seen:
                self.repeated += 1
            seen.setdefault(record.offset, int(record.value))

    async def goes_on(self) -> None:
        """Until what is sent from now on has arrived and has been read."""
        goal = self.sent + self.partitions * BURST

        def has_come() -> bool:
            newest = [max(seen.values(), default=-1) for seen in self.seen]
            return min(newest) >= goal

        await eventually(has_come, f"{self.topic} is read up to {goal}")

    def forget(self) -> None:
        """The topic is gone, and everything in it."""
        for known in (*self.acknowledged, *self.seen):
            known.clear()

    def end(self) -> None:
        self._is_over = True


@asynccontextmanager
async def load(
    bootstrap: str, topic: str, partitions: int = 3, **options: Any
) -> AsyncIterator[Load]:
    """`options` are the consumer's. At the end everything has been sent and read."""
    work = Load(topic, partitions)
    async with (
        Producer(bootstrap_servers=bootstrap) as producer,
        Consumer(
            topic,
            bootstrap_servers=bootstrap,
            group_id=f"group-of-{topic}",
            auto_offset_reset="earliest",
            **options,
        ) as consumer,
    ):
        reading = asyncio.create_task(work.read(consumer))
        feeding = asyncio.create_task(work.feed(producer))
        try:
            await work.goes_on()
            yield work
            await work.goes_on()
            work.end()
            await feeding
            await eventually(
                lambda: reading.done() or sum(map(len, work.seen)) >= work.arrived,
                "everything that arrived is read",
            )
        finally:
            for task in (feeding, reading):
                if task.done():
                    task.result()
                task.cancel()
            await asyncio.gather(feeding, reading, return_exceptions=True)


def expect_nothing_lost(work: Load, bootstrap: str) -> None:
    assert work.failures == []
    assert work.arrived == work.sent
    stored = stored_numbers(bootstrap, work.topic, work.partitions)
    for partition in range(work.partitions):
        everything = list(range(partition, work.sent, work.partitions))
        assert list(stored[partition].values()) == everything, "lost, doubled or out of order"
        assert work.acknowledged[partition] == stored[partition], "not where it was said to be"
        assert list(work.seen[partition].items()) == list(stored[partition].items())


def stored_numbers(bootstrap: str, topic: str, partitions: int) -> list[dict[int, int]]:
    """What a reader that is not ours finds, by partition: numbers by offset."""
    reader = confluent_kafka.Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "nobody",
            "enable.partition.eof": True,
            "enable.auto.commit": False,
        }
    )
    places = [confluent_kafka.TopicPartition(topic, index, 0) for index in range(partitions)]
    reader.assign(places)
    found: list[dict[int, int]] = [{} for _ in range(partitions)]
    ended: set[int] = set()
    deadline = time.monotonic() + WAIT_S
    while len(ended) < partitions:
        assert time.monotonic() < deadline, f"the reader has come to the end of {ended} only"
        for message in reader.consume(1000, 0.2):
            error, partition = message.error(), message.partition()
            if error is None:
                offset, value = message.offset(), message.value()
                assert partition is not None
                assert offset is not None
                assert value is not None
                found[partition][offset] = int(value)
            elif error.code() == confluent_kafka.KafkaError._PARTITION_EOF:
                assert partition is not None
                ended.add(partition)
    reader.close()
    return found


async def create_topic(bootstrap: str, topic: str, partitions: int = 1, **options: Any) -> None:
    """Again and again while an older one of the name is still being deleted."""
    async with Admin(bootstrap_servers=bootstrap) as admin:

        async def is_there() -> bool:
            try:
                await admin.create_topic(topic, partitions=partitions, **options)
            except ClientError:
                raise
            except Exception:
                return False
            return True

        await eventually(is_there, f"{topic} is created")


async def delete_topic(bootstrap: str, topic: str) -> None:
    async with Admin(bootstrap_servers=bootstrap) as admin:
        await admin.delete_topic(topic)
