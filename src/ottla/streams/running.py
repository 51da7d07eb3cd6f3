"""A running application: its queries are started and watched together."""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

from ottla.durations import in_words
from ottla.streams import checkpoint, internal_topics
from ottla.streams.durations import Duration, milliseconds
from ottla.streams.errors import BadTopology, QueryFailed, StoreMissing
from ottla.streams.lowering.build import Builder, BuiltQuery
from ottla.streams.lowering.dead import MARK
from ottla.streams.markers import wait_for_markers
from ottla.streams.processor import WALL_CLOCK
from ottla.streams.purge import Purge
from ottla.streams.shipping import ship_functions
from ottla.streams.topology.stateful import Process

if TYPE_CHECKING:
    from ottla.streams.app import App
    from ottla.streams.stores import Store

log = logging.getLogger("ottla.streams")

Start = Callable[[], StreamingQuery]

RESTARTS_MAX = 10
_WORKER_LATE = "Python worker failed to connect back"
_LOOK_S = 0.2
_SETTLE_MAX_S = 20.0
_POLL_S = 0.02


def start(
    app: App,
    spark: SparkSession,
    checkpoints: str,
    trigger: Duration | None,
    reading: dict[str, str],
) -> Running:
    built = _prepared(app, spark, checkpoints, reading)
    every = None if trigger is None else in_words(milliseconds(trigger, "trigger"))
    running = Running(app, spark, checkpoints)
    try:
        for one in built:
            query = running.add(one, partial(_started, one, app, checkpoints, every))
            _settle(query)
    except BaseException:
        running.stop()
        raise
    return running


def run_available(
    app: App, spark: SparkSession, checkpoints: str, reading: dict[str, str]
) -> Running:
    """Run queries level by level: each finds everything that those before it wrote."""
    _refuse_wall_clocks(app)
    built = _prepared(app, spark, checkpoints, reading)
    running = Running(app, spark, checkpoints)
    together = max(1, spark.sparkContext.defaultParallelism)
    for level in _levels(built):
        for first in range(0, len(level), together):
            for one in level[first : first + together]:
                running.add(one, partial(_started, one, app, checkpoints, None, available=True))
            running.await_termination()
        wait_for_markers(app.settings, {to.topic for one in level for to in one.query.outputs})
    return running


def _refuse_wall_clocks(app: App) -> None:
    for node in app.topology:
        if isinstance(node.operation, Process) and node.operation.time == WALL_CLOCK:
            raise BadTopology(
                f"{node.told}: its schedules follow the wall clock, for which Spark waits for ever:"
                " what is available never comes to an end. Use time=STREAM_TIME, or start() and"
                " stop()"
            )


def _prepared(
    app: App, spark: SparkSession, checkpoints: str, reading: dict[str, str]
) -> list[BuiltQuery]:
    from ottla.spark.datasource import register

    plan = app.plan()
    register(spark)
    ship_functions(app.topology)
    # Finds mistakes, before anything else is done.
    built = Builder(spark, app.settings, reading).build(plan)
    internal_topics.prepare(app.settings, app.topology, plan)
    for one in built:
        checkpoint.check(spark, checkpoints, one)
    return built


def _levels(built: Iterable[BuiltQuery]) -> list[list[BuiltQuery]]:
    """Split into levels: no query reads what another of its level writes."""
    levels: list[list[BuiltQuery]] = []
    written: set[str] = set()
    for one in built:
        reads = {topic for entry in one.query.inputs for topic in entry.topics}
        if not levels or reads & written:
            levels.append([])
            written = set()
        levels[-1].append(one)
        written |= {output.topic for output in one.query.outputs}
    return levels


def _started(
    built: BuiltQuery, app: App, checkpoints: str, every: str | None, *, available: bool = False
) -> StreamingQuery:
    folder = checkpoint.folder_of(checkpoints, built.query)
    purge = Purge(app.settings, folder, built.own_topics)

    def write(batch: DataFrame, number: int) -> None:
        purge.before_batch(batch.sparkSession, number)
        built.write(batch, number)

    writer: DataStreamWriter = built.data.writeStream.foreachBatch(write)
    writer = writer.outputMode(built.mode).queryName(f"{app.app_id}: {built.query.name}")
    writer = writer.option("checkpointLocation", folder)
    if available:
        writer = writer.trigger(availableNow=True)
    elif every is not None:
        writer = writer.trigger(processingTime=every)
    return writer.start()


def _settle(query: StreamingQuery) -> None:
    """Wait until a query has started. Each starts a Python process to plan with; all at once they
    can be too slow for Spark on a small machine."""
    deadline = time.monotonic() + _SETTLE_MAX_S
    while query.isActive and time.monotonic() < deadline:
        if not query.status["message"].startswith(("Initializing", "Getting offsets")):
            return
        time.sleep(_POLL_S)


class Running:
    """The queries of a started application."""

    def __init__(self, app: App, spark: SparkSession, checkpoints: str) -> None:
        self._spark = spark
        self._checkpoints = checkpoints
        self._built: list[BuiltQuery] = []
        self._queries: dict[str, StreamingQuery] = {}
        self._starts: dict[str, Start] = {}
        self._restarts_left: dict[str, int] = {}
        self._places = {node.name: node.told for node in app.topology}
        """The names of nodes in errors, by node name."""

    def add(self, built: BuiltQuery, start: Start) -> StreamingQuery:
        self._built.append(built)
        self._starts[built.query.name] = start
        self._restarts_left[built.query.name] = RESTARTS_MAX
        query = self._queries[built.query.name] = start()
        return query

    @property
    def queries(self) -> list[StreamingQuery]:
        return list(self._queries.values())

    @property
    def is_active(self) -> bool:
        return any(query.isActive for query in self.queries)

    def await_termination(self, timeout: float | None = None) -> bool:
        """Wait until all queries end; return True if they did in time. If one fails, the others are
        stopped and `QueryFailed` says why."""
        deadline = None if timeout is None else time.monotonic() + timeout
        while True:
            was_active = self.is_active  # checked before the failures, or one could be missed
            restarted = self._fail_if_one_did()
            if not was_active and not restarted:
                return True
            if deadline is not None and time.monotonic() >= deadline:
                return False
            self._wait_for_an_end()

    def process_all_available(self) -> None:
        """Wait until all queries have processed what is in the topics now; for tests."""
        for built in self._built:
            while not self._processed(built.query.name):
                pass
            wait_for_markers(built.settings, {to.topic for to in built.query.outputs})

    def _processed(self, name: str) -> bool:
        """Return False if the query had to be started again."""
        try:
            self._queries[name].processAllAvailable()
        except StreamingQueryException:
            if not self._fail_if_one_did():
                raise
            return False
        return True

    def stop(self) -> None:
        for query in self.queries:
            query.stop()
        for built in self._built:
            built.tables.close()

    def progress(self) -> dict[str, dict[str, Any] | None]:
        """The latest progress of each query, as Spark reports it."""
        import json

        newest = {name: query.lastProgress for name, query in self._queries.items()}
        return {name: json.loads(one.json) if one else None for name, one in newest.items()}

    def store(self, name: str) -> Store:
        """Return the store with this name, as of the last finished batch."""
        from ottla.streams.stores import Store

        forms = {
            store: (built.query, form)
            for built in self._built
            if built.lowered
            for store, form in built.lowered.states.items()
        }
        if name not in forms:
            known = ", ".join(sorted(forms)) or "none"
            raise StoreMissing(f"there is no store {name!r} to read; there are: {known}")
        query, form = forms[name]
        return Store(self._spark, name, checkpoint.folder_of(self._checkpoints, query), form)

    def _wait_for_an_end(self) -> None:
        active = next((query for query in self.queries if query.isActive), None)
        if active is not None:
            try:
                active.awaitTermination(_LOOK_S)  # type: ignore[arg-type]
            except StreamingQueryException:
                pass  # reported by _fail_if_one_did

    def _fail_if_one_did(self) -> bool:
        """Raise if a query failed; return True if it was started again instead."""
        restarted = False
        for name, query in list(self._queries.items()):
            error = None if query.isActive else query.exception()
            if error is None:
                continue
            if not self._restarted(name, str(error)):
                self.stop()
                raise _failure(name, error, self._places) from None
            restarted = True
        return restarted

    def _restarted(self, name: str, error: str) -> bool:
        """Start a query again if its Python process was late: a busy machine can be too slow for
        the ten seconds that Spark allows. Nothing was processed then, so nothing is done twice."""
        if _WORKER_LATE not in error or not self._restarts_left[name]:
            return False
        self._restarts_left[name] -= 1
        log.warning("%s: a Python worker did not start in time; starting the query again", name)
        self._queries[name] = self._starts[name]()
        _settle(self._queries[name])  # one after the other, as at the start
        return True

    def __enter__(self) -> Running:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()


_NAMED = re.compile(re.escape(MARK) + r"(\S+): (.*?)(?: SQLSTATE|$)", re.MULTILINE)
_STATE = re.compile(r"\s*SQLSTATE: \w+\s*$")


def _failure(name: str, error: BaseException, places: Mapping[str, str]) -> QueryFailed:
    """Return the node and the record if the error names them; else Spark's last line."""
    text = str(error)
    if found := _NAMED.search(text):
        return QueryFailed(name, found[2], text, node=found[1], place=places.get(found[1]))
    told = text.split("=== Streaming Query ===")[0].split("JVM stacktrace:")[0]
    lines = [_STATE.sub("", line) for line in told.splitlines()]
    return QueryFailed(name, next((line for line in reversed(lines) if line.strip()), ""), text)
