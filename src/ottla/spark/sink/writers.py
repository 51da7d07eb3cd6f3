"""The writers that Spark calls, for tables and for streams.

Spark creates them again for every batch, in processes of its choice: the tasks' messages carry all
that a commit needs.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, TypeVar
from uuid import uuid4

from pyspark import TaskContext
from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)
from pyspark.sql.types import StructType

from ottla.spark.sink import committing
from ottla.spark.sink.connection import connected
from ottla.spark.sink.decisions import Write, is_done
from ottla.spark.sink.errors import BadRows, SinkError
from ottla.spark.sink.ledger import BrokerLedger
from ottla.spark.sink.names import short_run
from ottla.spark.sink.options import SinkOptions
from ottla.spark.sink.query_id import query_of, remember
from ottla.spark.sink.rows import Rows
from ottla.spark.sink.task_writer import Place, TaskMessage, write_at_least_once, write_once

if TYPE_CHECKING:
    import pyarrow as pa

BATCH = "streaming.sql.batchId"
QUERY = "sql.streaming.queryId"
JOB_GROUP = "spark.jobGroup.id"
"""In the tasks of a streaming query it is the id of the run."""

T = TypeVar("T")
Messages = Sequence[WriterCommitMessage | None]


class StreamWriter(DataSourceStreamArrowWriter):
    """Writes each micro-batch once. In complete mode (`overwrite`) that is the whole result."""

    def __init__(self, options: Mapping[str, str], schema: StructType, overwrite: bool) -> None:
        self._options = SinkOptions.read(options, streaming=True)
        self._rows = Rows.of(schema, self._options.topic)
        self._checkpoint = self._options.given.get("checkpointlocation", "")

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        context = _task()
        is_first = context.getLocalProperty(BATCH) == "0"
        if not self._options.is_exactly_once:
            return write_at_least_once(self._options, self._rows, iterator, is_first=is_first)
        place = _place_in_stream(context)
        return write_once(self._options, self._rows, place, iterator, is_first=is_first)

    def commit(self, messages: Messages, batchId: int) -> None:
        write, policy = _write_of(messages), self._options.lost
        if write is not None:
            remember(self._checkpoint, write.app)
            _end(
                self._options,
                write.app,
                lambda ledger: committing.commit(ledger, write, policy),
                # Tasks without rows do not contact the cluster.
                is_first=batchId == 0 and not write.parts,
            )

    def abort(self, messages: Messages, batchId: int) -> None:
        if not self._options.is_exactly_once:
            return
        write = _write_of(messages) or self._nothing_told(batchId)
        if write is not None:
            _end(
                self._options,
                write.app,
                lambda ledger: committing.abort(ledger, write),
                is_first=batchId == 0,
            )

    def _nothing_told(self, batch: int) -> Write | None:
        """Return a write without parts: tasks of a stopped query may have open transactions."""
        query = query_of(self._checkpoint)
        return None if query is None else Write(query, batch, batch, "", ())


class BatchWriter(DataSourceArrowWriter):
    """Writes all rows or none. With `txnAppId` and `txnVersion` each version once."""

    def __init__(self, options: Mapping[str, str], schema: StructType, overwrite: bool) -> None:
        if overwrite:
            raise BadRows("the records of a topic cannot be overwritten: use mode('append')")
        self._options = SinkOptions.read(options, streaming=False)
        self._rows = Rows.of(schema, self._options.topic)
        self._own = uuid4().hex
        self._turn = 0
        self._shares_run = False
        self._is_done = False
        # Later versions belong to a running query, which outlives brokers that are away.
        self._is_first = self._options.version == 0
        if self._options.app is not None:
            self._plan(self._options.app, self._options.version)
        else:
            # Otherwise every task would find out by itself and report it in pages of Java.
            with connected(self._options, is_first=True):
                pass

    def _plan(self, app: str, version: int) -> None:
        """Before any task begins, complete what was decided about this version, if anything."""
        head = _end(
            self._options,
            app,
            lambda ledger: committing.finish(ledger, version),
            is_first=self._is_first,
        )
        self._turn = head.turn + 1
        # The ids of a run may be reused if no decision needs them any more.
        self._shares_run = head.version < version
        self._is_done = is_done(head, version)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        if not self._options.is_exactly_once:
            return write_at_least_once(self._options, self._rows, iterator, is_first=self._is_first)
        if self._is_done:
            for _ in iterator:  # Spark does not reuse a worker that has not read everything
                pass
            return TaskMessage()
        place = self._place(_task())
        return write_once(self._options, self._rows, place, iterator, is_first=self._is_first)

    def _place(self, context: TaskContext) -> Place:
        group = context.getLocalProperty(JOB_GROUP) if self._shares_run else None
        return Place(
            app=self._options.app or self._own,
            run=short_run(group or "") or self._own[:8],
            version=self._options.version,
            turn=self._turn,
            task=context.partitionId(),
            attempt=context.attemptNumber(),
        )

    def commit(self, messages: Messages) -> None:
        write, policy = _write_of(messages, planned=True), self._options.lost
        if write is None:
            return
        if self._options.app is None:
            _end(self._options, write.app, lambda ledger: committing.commit_all(ledger, write))
        else:
            _end(self._options, write.app, lambda ledger: committing.commit(ledger, write, policy))

    def abort(self, messages: Messages) -> None:
        if not self._options.is_exactly_once or self._is_done:
            return
        app = self._options.app or self._own
        told = _write_of(messages, planned=True)
        write = told or Write(app, self._options.version, self._turn, "", (), planned=True)
        undo = committing.abort_all if self._options.app is None else committing.abort
        _end(self._options, app, lambda ledger: undo(ledger, write), is_first=self._is_first)


def _end(
    options: SinkOptions,
    app: str,
    work: Callable[[BrokerLedger], Awaitable[T]],
    *,
    is_first: bool = False,
) -> T:
    with connected(options, is_first=is_first) as connection:
        ledger = BrokerLedger(connection.cluster, options, app)
        with connection.using(ledger):
            return connection.call(lambda: work(ledger))


def _task() -> TaskContext:
    context = TaskContext.get()
    if context is None:
        raise SinkError("rows are written by the tasks of a Spark job alone")
    return context


def _place_in_stream(context: TaskContext) -> Place:
    query, batch, run = map(context.getLocalProperty, (QUERY, BATCH, JOB_GROUP))
    short = short_run(run or "")
    if query is None or batch is None or short is None:
        raise SinkError("Spark does not say which query, run and batch this task is of")
    return Place(
        app=query,
        run=short,
        version=int(batch),
        turn=int(batch),
        task=context.partitionId(),
        attempt=context.attemptNumber(),
    )


def _write_of(messages: Messages, *, planned: bool = False) -> Write | None:
    """Return what the tasks report together; None if there is nothing to commit or look up. After a
    failure some tasks report nothing."""
    told = [one for one in messages if isinstance(one, TaskMessage) and one.place is not None]
    if not told:
        return None
    place = told[0].place
    assert place is not None
    return Write(
        app=place.app,
        version=place.version,
        turn=place.turn,
        run=place.run,
        parts=tuple(part for one in told for part in one.parts),
        given_up_count=min((one.given_up_count for one in told if one.prepared), default=0),
        complete=not any(one.left_out for one in told),
        planned=planned,
    )
