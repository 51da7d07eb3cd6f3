"""Consumers of a simulated cluster: readers without a group, and members of groups."""

from __future__ import annotations

import asyncio
from typing import Any

from ottla.client.consumer.consumer import Consumer
from ottla.client.consumer.groups.rebalance_listener import RebalanceListener
from ottla.client.errors import LogTruncation, OffsetOutOfRange
from ottla.client.values import AnyRecord, TopicPartition
from ottla.sim.checker.history import Reader
from ottla.sim.cluster.shape import RACKS, TopicShape
from ottla.sim.cluster.work import Client, Work, name_of
from ottla.sim.history import Violation
from ottla.sim.runtime import SimRuntime

POLL_MS = 1000
PAUSE_S = 0.4


class LoneReader(Client):
    """Reads all partitions of a topic from the start or from somewhere, and seeks now and then."""

    def __init__(self, work: Work, runtime: SimRuntime, name: str, topic: TopicShape) -> None:
        super().__init__(work, runtime, name)
        self._topic = topic
        self._committed = self.chance.random() < 0.6

    def goes_on(self) -> bool:
        return self.work.reading

    async def live(self) -> None:
        consumer = Consumer(
            **self.options,
            auto_offset_reset="none",
            isolation_level="read_committed" if self._committed else "read_uncommitted",
            max_poll_records=self.chance.choice((1, 10, 500)),
            fetch_max_wait_ms=self.chance.choice((200, 1000)),
            client_rack=self.chance.choice(("", *RACKS)),
        )
        await consumer.start()
        try:
            await self._read(consumer)
        except (OffsetOutOfRange, LogTruncation) as error:
            if error.offset >= self.work.history.deleted.get(error.topic_partition, 0):
                raise Violation(f"{self.life}: records that were read are gone: {error}") from error
            raise
        finally:
            await consumer.close(5000)

    async def _read(self, consumer: Consumer) -> None:
        until = self.lifetime()
        consumer.assign(self._topic.all())
        consumer.seek_to_beginning()
        reader = self._stretch()
        while self.work.reading and self.work.now() < until:
            found = await consumer.poll(POLL_MS)
            for partition, records in found.items():
                note(reader, partition, records, self.work)
                if self.chance.random() < 0.02:
                    place = self.chance.randint(0, records[-1].offset)
                    consumer.seek(partition, place)
                    reader = self._stretch()
            self.work.did(self.name)
            await asyncio.sleep(self.chance.expovariate(1.0) * PAUSE_S)

    def _stretch(self) -> Reader:
        history = self.work.history_of(self._topic)
        return history.reader(self.life, committed=self._committed)


def note(reader: Reader, partition: TopicPartition, records: list[AnyRecord], work: Work) -> None:
    for record in records:
        reader.read(partition, record.offset, name_of(record), work.now())


class Stretches(RebalanceListener):
    """Keeps one stretch of reading for each partition while it is assigned."""

    def __init__(self, client: Client, group: str, *, committed: bool) -> None:
        self._client = client
        self._group = group
        self._committed = committed
        self.readers: dict[TopicPartition, Reader] = {}

    def on_partitions_assigned(self, partitions: frozenset[TopicPartition]) -> None:
        for partition in sorted(partitions):
            self.readers[partition] = self._client.work.history.reader(
                self._client.life, committed=self._committed, group=self._group
            )

    def note(self, found: dict[TopicPartition, list[AnyRecord]]) -> None:
        for partition, records in found.items():
            note(self.readers[partition], partition, records, self._client.work)


class GroupMember(Client):
    """Reads as a member of a group, and commits its positions now and then."""

    def __init__(
        self,
        work: Work,
        runtime: SimRuntime,
        name: str,
        topic: TopicShape,
        *,
        group: str,
        protocol: str,
    ) -> None:
        super().__init__(work, runtime, name)
        self._topic = topic
        self._group = group
        self._group_options = group_options(group, protocol)

    def goes_on(self) -> bool:
        return self.work.reading

    async def live(self) -> None:
        stretches = Stretches(self, self._group, committed=False)
        consumer = Consumer(
            self._topic.name,
            listener=stretches,
            **self.options,
            **self._group_options,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            max_poll_records=self.chance.choice((5, 500)),
        )
        await consumer.start()
        try:
            await self._read(consumer, stretches)
        finally:
            await consumer.close(5000)

    async def _read(self, consumer: Consumer, stretches: Stretches) -> None:
        until = self.lifetime()
        while self.work.reading and self.work.now() < until:
            stretches.note(await consumer.poll(POLL_MS))
            if consumer.assignment() and self.chance.random() < 0.5:
                await self.attempt(consumer.commit)
            self.work.did(self.name)
            await asyncio.sleep(self.chance.expovariate(1.0) * PAUSE_S)


def group_options(group: str, protocol: str) -> dict[str, Any]:
    options: dict[str, Any] = {"group_id": group, "group_protocol": protocol}
    if protocol == "classic":
        options |= {"session_timeout_ms": 4000, "heartbeat_interval_ms": 800}
    return options
