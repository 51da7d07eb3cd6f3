"""Writes the rows of a task in one transaction, which the driver ends.

A task that fails aborts its transaction. A task that finds, before it begins or at its end, that
its version was decided without it, has nothing to write: it is a straggler, or its rows are
committed already. The check at the end comes when the transaction is open, and a driver looks for
open ones after it has decided: so one of the two sees the other.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from pyspark.sql.datasource import WriterCommitMessage

from ottla.client.network.cluster import Cluster
from ottla.client.producer.producer import Producer
from ottla.client.producer.transactions.prepared import PreparedTransaction
from ottla.spark.sink.connection import connected
from ottla.spark.sink.decisions import NOTHING, Head, Part, may_leave_out, was_overtaken
from ottla.spark.sink.delivery import Delivery
from ottla.spark.sink.ledger import newest_head
from ottla.spark.sink.names import TaskId, slot_of
from ottla.spark.sink.options import SinkOptions
from ottla.spark.sink.rows import Rows
from ottla.spark.sink.transactional import ROWS_TIMEOUT_MS, transactional_producer
from ottla.spark.workers import ends_task

if TYPE_CHECKING:
    import pyarrow as pa

UNSTABLE_MAX_S: Final = 1
"""How long a task waits for a decision in progress; its driver may have died meanwhile."""


@dataclass(frozen=True, slots=True)
class Place:
    """Which task, attempt and version the rows belong to."""

    app: str
    run: str
    version: int
    turn: int
    task: int
    attempt: int

    @property
    def transactional_id(self) -> str:
        return str(TaskId(self.app, self.run, slot_of(self.turn), self.task, self.attempt))


@dataclass
class TaskMessage(WriterCommitMessage):
    """The report of a task to the driver."""

    place: Place | None = None
    prepared: str | None = None
    left_out: bool = False
    given_up_count: int = 0

    @property
    def parts(self) -> tuple[Part, ...]:
        if self.place is None or self.prepared is None:
            return ()
        return (Part(self.place.task, PreparedTransaction.parse(self.prepared)),)


@ends_task
def write_once(
    options: SinkOptions,
    rows: Rows,
    place: Place,
    batches: Iterable[pa.RecordBatch],
    *,
    is_first: bool = False,
) -> TaskMessage:
    """Write all rows in a transaction, prepared; the driver ends it. Without rows there is none."""
    filled = (batch for batch in batches if batch.num_rows)
    first = next(filled, None)
    if first is None:
        return TaskMessage(place)
    with connected(options, is_first=is_first) as connection:
        task = TaskTransaction(connection.cluster, options, rows, place)
        if connection.call(task.may_leave_out):
            for _ in filled:  # Spark does not reuse a worker that has not read everything
                pass
            return TaskMessage(place, left_out=True)
        with connection.using(task):
            connection.call(task.begin)
            connection.call(lambda: task.send(first))
            for batch in filled:
                connection.call(lambda: task.send(batch))  # noqa: B023
            return connection.call(task.prepare)


@ends_task
def write_at_least_once(
    options: SinkOptions,
    rows: Rows,
    batches: Iterable[pa.RecordBatch],
    *,
    is_first: bool = False,
) -> TaskMessage:
    """Write all rows, acknowledged; if the task runs again, they are there twice."""
    with connected(options, is_first=is_first) as connection:
        task = Delivery(connection.cluster, options, rows)
        with connection.using(task):
            connection.call(task.begin)
            for batch in batches:
                connection.call(lambda: task.send(batch))  # noqa: B023
            connection.call(task.flush)
    return TaskMessage()


class TaskTransaction(Delivery):
    """The steps of a task, in order."""

    def __init__(self, cluster: Cluster, options: SinkOptions, rows: Rows, place: Place) -> None:
        super().__init__(cluster, options, rows)
        self._place = place
        self._before = NOTHING

    async def may_leave_out(self) -> bool:
        self._before = await self._newest(stable=False)
        return may_leave_out(self._before, self._place.version, self._place.run)

    async def prepare(self) -> TaskMessage:
        """Prepare the transaction, unless the version was decided without this task."""
        prepared = await self.explained(self.running().prepare_transaction())
        if await self._was_overtaken():
            return TaskMessage(self._place, left_out=True)  # closing undoes it
        self._is_done = True
        return TaskMessage(self._place, str(prepared), given_up_count=self._before.given_up_count)

    async def _undo(self, producer: Producer) -> None:
        await producer.abort_transaction()

    async def _make_producer(self) -> Producer:
        producer = await transactional_producer(
            self._cluster, self._options, self._place.transactional_id, ROWS_TIMEOUT_MS
        )
        await producer.begin_transaction()
        return producer

    async def _was_overtaken(self) -> bool:
        try:
            async with asyncio.timeout(UNSTABLE_MAX_S):
                after = await self._newest(stable=True)
        except TimeoutError:
            after = await self._newest(stable=False)
        return was_overtaken(self._before, after, self._place.version)

    async def _newest(self, *, stable: bool) -> Head:
        found = await newest_head(
            self._cluster, self._place.app, self._options.decisions_topic, stable=stable
        )
        return NOTHING if found is None else found[0]
