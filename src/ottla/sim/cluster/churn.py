"""Administration while everything else goes on: topics, partitions, settings, elections, moves."""

from __future__ import annotations

import asyncio
from typing import Any

from ottla.client.admin.admin import Admin
from ottla.client.admin.configs import ConfigResource, ResourceType
from ottla.client.admin.offsets import OffsetSpec
from ottla.client.admin.topics import NewTopic
from ottla.client.network.leaders import all_or_raise
from ottla.client.values import TopicPartition
from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.sim.cluster.rights import ADMIN
from ottla.sim.cluster.work import Client, Work
from ottla.sim.runtime import SimRuntime

TOPICS_MAX = 4
HARMLESS = {ErrorCode.TOPIC_ALREADY_EXISTS, ErrorCode.ELECTION_NOT_NEEDED}
PREFIX = "churn-"


class Churn(Client):
    """Creates and deletes topics of its own; moves and reconfigures those that hold the history."""

    USER = ADMIN

    def __init__(self, work: Work, runtime: SimRuntime, name: str) -> None:
        super().__init__(work, runtime, name)
        self._pause_s = self.chance.choice((0.5, 1.5, 4.0))

    def goes_on(self) -> bool:
        return self.work.writing

    async def live(self) -> None:
        async with Admin(**self.options) as admin:
            until = self.lifetime()
            while self.work.writing and self.work.now() < until:
                if await self.attempt(lambda: self._change(admin)):
                    self.work.did(self.name)
                await asyncio.sleep(self.chance.expovariate(1.0) * self._pause_s)

    async def _change(self, admin: Admin) -> None:
        change = self.chance.choice(
            (
                self._create,
                self._delete,
                self._add_partitions,
                self._configure,
                self._delete_records,
                self._elect,
                self._move,
                self._move,
                self._cancel_moves,
            )
        )
        await change(admin)

    async def _create(self, admin: Admin) -> None:
        own = await self._own(admin)
        if len(own) < TOPICS_MAX:
            name = f"{PREFIX}{self.chance.randrange(TOPICS_MAX)}"
            made = await admin.create_topics([NewTopic(name, self.chance.randint(1, 3))])
            _check(made)

    async def _delete(self, admin: Admin) -> None:
        if own := await self._own(admin):
            await admin.delete_topic(self.chance.choice(own))

    async def _add_partitions(self, admin: Admin) -> None:
        if own := await self._own(admin):
            name = self.chance.choice(own)
            count = len((await admin.describe_topic(name)).partitions)
            if count < 4:
                await admin.create_partitions(name, count + 1)

    async def _own(self, admin: Admin) -> list[str]:
        return [name for name in await admin.list_topics() if name.startswith(PREFIX)]

    async def _configure(self, admin: Admin) -> None:
        topic = self.chance.choice(self.work.shape.topics)
        value = str(self.chance.choice((15_000, 50_000, 200_000)))
        await admin.alter_config(
            ConfigResource(ResourceType.TOPIC, topic.name), {"internal.segment.bytes": value}
        )

    async def _delete_records(self, admin: Admin) -> None:
        """Delete some of the oldest records. The source of the copy is left alone, because the copy
        is compared with the whole of it."""
        partition = self.chance.choice(self.work.shape.plain.all())
        starts = all_or_raise(await admin.list_offsets({partition: OffsetSpec.EARLIEST}))
        ends = all_or_raise(await admin.list_offsets({partition: OffsetSpec.LATEST}))
        start, end = starts[partition].offset, ends[partition].offset
        before = start + self.chance.randint(0, max(0, end - start) // 3)
        self.work.history.deleting(partition, before)
        _check(await admin.delete_records({partition: before}))

    async def _elect(self, admin: Admin) -> None:
        _check(await admin.elect_leaders(self._some_partitions()))

    async def _move(self, admin: Admin) -> None:
        brokers = [node.id for node in self.work.shape.brokers]
        count = self.work.shape.replication
        moves: dict[TopicPartition, list[int] | None] = {
            partition: self.chance.sample(brokers, self.chance.randint(min(2, count), count))
            for partition in self._some_partitions()
        }
        _check(await admin.alter_partition_reassignments(moves))

    async def _cancel_moves(self, admin: Admin) -> None:
        under_way = await admin.list_partition_reassignments()
        if under_way and self.chance.random() < 0.5:
            await admin.alter_partition_reassignments(dict.fromkeys(under_way))

    def _some_partitions(self) -> list[TopicPartition]:
        everything = [one for topic in self.work.shape.created for one in topic.all()]
        return self.chance.sample(everything, self.chance.randint(1, len(everything)))


def _check(outcome: dict[Any, Any]) -> None:
    for answer in outcome.values():
        if isinstance(answer, KafkaError) and answer.code not in HARMLESS:
            raise answer
