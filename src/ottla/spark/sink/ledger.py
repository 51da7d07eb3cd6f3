"""The steps of a commit on brokers: where decisions are stored, and how transactions end.

The decisions of all applications are records of one compacted topic. The offset that an
application's group has committed points to its newest one, with the head as metadata. Both are
written in one transaction of the driver's producer, which fences every other driver.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterable, Sequence
from typing import Final, TypeVar

from ottla.client.admin.admin import Admin
from ottla.client.errors import PreparedTransactionLost
from ottla.client.network.cluster import Cluster
from ottla.client.producer.producer import Producer
from ottla.client.producer.transactions.prepared import PreparedTransaction
from ottla.client.settings.producer import ProducerOptions
from ottla.client.values import GroupMetadata, OffsetAndMetadata, TopicPartition
from ottla.protocol.errors import KafkaError
from ottla.spark.sink import decision_topic
from ottla.spark.sink.decisions import NOTHING, Decision, Head, Open, Outcome, Part
from ottla.spark.sink.names import TaskId, driver_id, group_id
from ottla.spark.sink.options import SinkOptions
from ottla.spark.sink.transactional import DECISION_TIMEOUT_MS, transactional_producer

AT_ONCE_MAX: Final = 64
"""How many transactions are ended at the same time."""
DECISION_PRODUCER: Final[ProducerOptions] = {
    "compression_type": "gzip",
    "compression_level": None,
    "max_request_size": 8 << 20,
    "linger_ms": 0,
}
OPEN_STATE: Final = "Ongoing"

T = TypeVar("T")
U = TypeVar("U")


async def newest_head(
    cluster: Cluster, app: str, topic: str, *, stable: bool = True
) -> tuple[Head, int] | None:
    """Return the newest head and its offset, from the group; None if there is none (any more)."""
    place = TopicPartition(topic, decision_topic.PARTITION)
    found = await Admin.over(cluster).list_group_offsets(group_id(app), [place], stable=stable)
    at = found.get(place)
    return None if at is None else (Head.parse(at.metadata), at.offset)


class BrokerLedger:
    """Call `close` when done."""

    def __init__(self, cluster: Cluster, options: SinkOptions, app: str) -> None:
        self._cluster = cluster
        self._options = options
        self._app = app
        self._place = TopicPartition(options.decisions_topic, decision_topic.PARTITION)
        self._admin = Admin.over(cluster)
        self._producer: Producer | None = None
        self._offset = 0
        """The offset of the newest decision."""

    async def close(self) -> None:
        if self._producer is not None:
            await self._producer.close()

    # Decisions

    async def fence(self) -> None:
        self._producer = await transactional_producer(
            self._cluster,
            self._options,
            driver_id(self._app),
            DECISION_TIMEOUT_MS,
            DECISION_PRODUCER,
        )

    async def newest(self) -> Head:
        found = await newest_head(self._cluster, self._app, self._place.topic)
        if found is not None:
            head, self._offset = found
            return head
        # Offsets of an unused group are deleted after a week; records are not.
        last = await decision_topic.search(self._cluster, self._place.topic, self._app)
        if last is None:
            self._offset = 0
            return NOTHING
        decision, self._offset = last
        return decision.head

    async def parts_of(self, head: Head) -> tuple[Part, ...] | None:
        decision = await decision_topic.read(
            self._cluster, self._place.topic, self._app, self._offset
        )
        if decision is not None and decision.head.serial == head.serial:
            return decision.parts
        return None

    async def record(self, decision: Decision) -> None:
        await decision_topic.ensure(self._cluster, self._place.topic)
        producer = self._fenced()
        async with producer.transaction():
            sent = await producer.send_and_wait(
                self._place.topic,
                decision.text().encode(),
                self._app.encode(),
                partition=self._place.partition,
            )
            await self._commit_offset(decision.head, sent.offset)
        self._offset = sent.offset

    async def note(self, head: Head) -> None:
        await decision_topic.ensure(self._cluster, self._place.topic)
        async with self._fenced().transaction():
            await self._commit_offset(head, self._offset)

    async def _commit_offset(self, head: Head, offset: int) -> None:
        note = {self._place: OffsetAndMetadata(offset, head.text())}
        await self._fenced().send_offsets_to_transaction(note, GroupMetadata(group_id(self._app)))

    def _fenced(self) -> Producer:
        assert self._producer is not None, "fence() comes first"
        return self._producer

    # Transactions of tasks

    async def ended_of(self, parts: Sequence[Part]) -> list[Part]:
        found = await self._open_ones(part.prepared.transactional_id for part in parts)
        return [part for part in parts if part.prepared not in found]

    async def commit(self, parts: Sequence[Part]) -> dict[Part, Outcome]:
        async def end(part: Part) -> Outcome:
            try:
                await self._admin.commit_prepared(part.prepared)
            except PreparedTransactionLost as lost:
                return Outcome.ABORTED if lost.was_aborted else Outcome.UNKNOWN
            return Outcome.COMMITTED

        return dict(zip(parts, await _each(parts, end), strict=True))

    async def abort(self, prepared: Iterable[Part | Open]) -> None:
        async def end(one: Part | Open) -> None:
            try:
                await self._admin.abort_prepared(one.prepared)
            except PreparedTransactionLost:
                pass  # it has ended, or the id has another one

        await _each(list(prepared), end)

    async def listed(self, besides: Collection[Part]) -> list[Open]:
        known = {part.prepared.transactional_id for part in besides}
        names = {
            one.transactional_id: name
            for one in await self._admin.list_transactions(states=[OPEN_STATE])
            if (name := TaskId.parse(one.transactional_id)) is not None
            and name.app == self._app
            and one.transactional_id not in known
        }
        found = await self._open_ones(names)
        return [Open(names[one.transactional_id], one) for one in found]

    async def _open_ones(self, transactional_ids: Iterable[str]) -> set[PreparedTransaction]:
        """Return those that are open at this moment: an id may have another one a moment later."""
        described = await self._admin.describe_transactions(transactional_ids)
        return {
            PreparedTransaction(name, found.producer_id, found.producer_epoch)
            for name, found in described.items()
            if not isinstance(found, KafkaError) and found.state == OPEN_STATE
        }


async def _each(items: Sequence[T], work: Callable[[T], Awaitable[U]]) -> list[U]:
    """Work on all items, many at a time; raise the first failure when none is running any more."""
    turn = asyncio.Semaphore(AT_ONCE_MAX)

    async def one(item: T) -> U:
        async with turn:
            return await work(item)

    results = await asyncio.gather(*map(one, items), return_exceptions=True)
    done: list[U] = []
    for result in results:
        if isinstance(result, BaseException):
            raise result
        done.append(result)
    return done
