"""After the storm: check that all clients make progress, then read everything and check it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from ottla.client.admin.admin import Admin
from ottla.client.admin.offsets import IsolationLevel, OffsetSpec
from ottla.client.admin.topics import NewTopic
from ottla.client.consumer.consumer import Consumer
from ottla.client.errors import ClientError
from ottla.client.network.leaders import all_or_raise
from ottla.client.values import TopicPartition
from ottla.protocol.errors import KafkaError
from ottla.sim.cluster.rights import ADMIN, first_acls, sign_in
from ottla.sim.cluster.shape import TopicShape
from ottla.sim.cluster.voters.electorate import Electorate
from ottla.sim.cluster.work import PATIENCE, Work, name_of
from ottla.sim.history import Violation
from ottla.sim.runtime import SimRuntime

T = TypeVar("T")

LOOK_EVERY_S = 0.5

Records = dict[TopicPartition, list[tuple[int, str]]]


class NotYet(Exception):
    """Raised with the condition that does not hold yet."""


class Ending:
    """Runs on a machine of its own, on which no fault is injected."""

    def __init__(self, work: Work, runtime: SimRuntime, check: Callable[[], None]) -> None:
        self._work = work
        self._runtime = runtime
        self._check = check
        """Raises if anything has gone wrong elsewhere meanwhile."""
        self._options: dict[str, Any] = {
            "bootstrap_servers": work.shape.bootstrap,
            "runtime": runtime,
            **PATIENCE,
            **(sign_in(ADMIN) if work.shape.guarded else {}),
        }

    async def within(
        self, seconds: float, what: str, attempt: Callable[[], Coroutine[Any, Any, T]]
    ) -> T:
        """Return what the attempt returns. A healthy cluster succeeds in time, though perhaps not
        at the first attempt."""
        return await self._runtime.run(self._within(seconds, what, attempt), name=what)

    async def _within(
        self, seconds: float, what: str, attempt: Callable[[], Coroutine[Any, Any, T]]
    ) -> T:
        last: object = "nothing"
        try:
            async with asyncio.timeout(seconds):
                while True:
                    try:
                        return await attempt()
                    except (ClientError, KafkaError, NotYet) as error:
                        last = error
                    self._check()
                    await asyncio.sleep(LOOK_EVERY_S)
        except TimeoutError:
            self._check()
            raise Violation(f"no progress: {what} took more than {seconds} s; {last!r}") from None

    async def create_topics(self) -> None:
        async with Admin(**self._options) as admin:
            wanted = [
                NewTopic(topic.name, topic.partitions, configs=topic.configs)
                for topic in self._work.shape.created
            ]
            await admin.create_topics(wanted)
            found = await admin.list_topics(internal=True)
        if missing := [one.name for one in self._work.shape.created if one.name not in found]:
            raise NotYet(f"{missing} are missing")

    async def give_rights(self) -> None:
        """Let workers do their work, and return when the controller has said so."""
        async with Admin(**self._options) as admin:
            outcome = await admin.create_acls(first_acls(self._work.shape))
            for error in outcome.values():
                if error is not None:
                    raise error

    async def everything_in_sync(self) -> None:
        """Check that every partition has a leader and all its replicas in its ISR."""
        async with Admin(**self._options) as admin:
            for name, topic in (await admin.describe_topics()).items():
                if isinstance(topic, KafkaError):
                    raise topic
                for part in topic.partitions:
                    if part.leader < 0 or set(part.isr) != set(part.replicas):
                        raise NotYet(f"{name}: {part}")

    async def everybody_votes(self) -> None:
        """Check that every controller can be made a voter again, whatever the storm interrupted."""
        async with Admin(**self._options) as admin:
            electorate = Electorate(admin, self._work.shape, self._work.folders)
            if missing := await electorate.put_right():
                raise NotYet(f"{missing} have no vote")

    # Reading everything at the end.

    async def read(self, topic: TopicShape, isolation: IsolationLevel) -> Records:
        consumer = Consumer(
            **self._options, auto_offset_reset="earliest", isolation_level=isolation
        )
        await consumer.start()
        try:
            return await self._read(consumer, topic)
        finally:
            await consumer.close(1000)

    async def _read(self, consumer: Consumer, topic: TopicShape) -> Records:
        partitions = topic.all()
        found: Records = {partition: [] for partition in partitions}
        ends = await consumer.end_offsets(partitions)
        consumer.assign(partitions)
        consumer.seek_to_beginning()
        left = {partition for partition in partitions if ends[partition] > 0}
        while left:
            for partition, records in (await consumer.poll(1000)).items():
                found[partition] += [(record.offset, name_of(record)) for record in records]
            for partition in list(left):
                if await consumer.position(partition) >= ends[partition]:
                    left.discard(partition)
        return found

    async def read_to_the_end(self, topic: TopicShape) -> None:
        """Store what the partitions hold, once no transaction is open in them."""
        async with Admin(**self._options) as admin:
            starts = await _offsets(admin, topic, OffsetSpec.EARLIEST)
            ends = await _offsets(admin, topic, OffsetSpec.LATEST)
            stable = await _offsets(admin, topic, OffsetSpec.LATEST, "read_committed")
            if ends != stable:
                raise NotYet(
                    f"a transaction is open: the ends are {ends}, the stable ones {stable}"
                )
        everything = await self.read(topic, "read_uncommitted")
        committed = await self.read(topic, "read_committed")
        for partition in topic.all():
            self._work.history_of(topic).end(
                partition,
                everything[partition],
                committed[partition],
                start=starts[partition],
                end=ends[partition],
            )

    async def group_is_through(self, group: str, topic: TopicShape, *, committed: bool) -> None:
        """Check that the group has committed past the last record it can read."""
        async with Admin(**self._options) as admin:
            offsets = await admin.list_group_offsets(group, topic.all(), stable=True)
        history = self._work.history
        for partition in topic.all():
            log = history.logs[partition]
            records = log.committed if committed else log.records
            reached = offsets[partition].offset if partition in offsets else 0
            if records and reached <= records[-1][0]:
                raise NotYet(f"{group} stands at {reached} of {partition}, {log.end}")
            history.group_ends[group, partition] = (0, reached)


async def _offsets(
    admin: Admin,
    topic: TopicShape,
    which: OffsetSpec,
    isolation: IsolationLevel = "read_uncommitted",
) -> dict[TopicPartition, int]:
    asked = dict.fromkeys(topic.all(), which)
    found = await admin.list_offsets(asked, isolation_level=isolation)
    return {partition: offset.offset for partition, offset in all_or_raise(found).items()}
