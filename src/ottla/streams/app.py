"""An application: a topology with a name, and the means to run it.

app = App("payments", bootstrap_servers="localhost:9092")
payments = app.stream("payments", value=Json("account string, amount double"))
payments.filter(lambda r: r.value.amount > 1000).to("big-payments")
app.start(spark, checkpoints="checkpoints").await_termination()
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from os import PathLike, fspath
from pathlib import Path
from typing import TYPE_CHECKING

from ottla.streams.durations import Duration
from ottla.streams.errors import BadTopology
from ottla.streams.plan import Plan, make_plan
from ottla.streams.plan.describe import describe
from ottla.streams.serdes import Serde, String
from ottla.streams.settings import Settings
from ottla.streams.stream import Stream
from ottla.streams.table import GlobalTable, Table
from ottla.streams.topology import Node, Topology
from ottla.streams.topology.ends import GlobalSource, Sink, Source
from ottla.streams.topology.operation import Function, Operation
from ottla.streams.topology.topology import checked_name

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from ottla.streams.running import Running

Folder = str | PathLike[str]


class App:
    """An application: the streams and tables it reads, the operations on them, and its outputs."""

    def __init__(
        self,
        app_id: str,
        *,
        bootstrap_servers: str = "localhost:9092",
        dead_letters: str | None = None,
        options: Mapping[str, str] | None = None,
    ) -> None:
        """`app_id` is the prefix of internal topics and transactions; each program needs its own.

        `dead_letters` is the topic for records that fail; without one they stop the query.
        `options` are for the clients, by Kafka's names: `{"kafka.security.protocol": "SSL"}`.
        """
        if not app_id:
            raise BadTopology("an application needs a name: App('payments')")
        checked_name(app_id)
        self._settings = Settings(app_id, bootstrap_servers, dead_letters, dict(options or {}))
        self._topology = Topology()

    @property
    def app_id(self) -> str:
        return self._settings.app_id

    @property
    def settings(self) -> Settings:
        return self._settings

    @property
    def topology(self) -> Topology:
        return self._topology

    # Reading

    def stream(
        self,
        *topics: str,
        key: Serde | None = None,
        value: Serde | None = None,
        start: str = "earliest",
        timestamp: Function | None = None,
        named: str | None = None,
    ) -> Stream:
        """Return a stream of the records of topics. Keys and values are text by default.

        `start` (`earliest` or `latest`) applies when the application is started for the first time.
        `timestamp` returns the time of a record: `lambda r: r.value.paid_at`.
        """
        source = self._source(topics, key, value, start, timestamp)
        return Stream(self, self.add(source, named=named))

    def table(
        self,
        topic: str,
        *,
        key: Serde | None = None,
        value: Serde | None = None,
        timestamp: Function | None = None,
        named: str | None = None,
    ) -> Table:
        """Return a table of a topic: the newest record of each key counts; a null value deletes."""
        source = self._source((topic,), key, value, "earliest", timestamp)
        return Table(self, self.add(source, named=named, table=True))

    def global_table(
        self,
        topic: str,
        *,
        key: Serde | None = None,
        value: Serde | None = None,
        named: str | None = None,
    ) -> GlobalTable:
        """Return a table that is read whole wherever it is joined, so any key can be looked up."""
        source = GlobalSource(topic, key or String(), value or String())
        return GlobalTable(self, self.add(source, named=named, table=True, family="KSTREAM"))

    def _source(
        self,
        topics: tuple[str, ...],
        key: Serde | None,
        value: Serde | None,
        start: str,
        timestamp: Function | None,
    ) -> Source:
        if not topics or not all(topics):
            raise BadTopology("name at least one topic to read")
        if start not in ("earliest", "latest"):
            raise BadTopology(f"start is {start!r}: it must be 'earliest' or 'latest'")
        return Source(topics, key or String(), value or String(), start, timestamp)

    def add(
        self,
        operation: Operation,
        *parents: Node,
        named: str | None = None,
        table: bool = False,
        family: str | None = None,
    ) -> Node:
        """Add a node to the topology, on behalf of streams and tables."""
        return self._topology.add(operation, *parents, named=named, table=table, family=family)

    # Describing

    def plan(self) -> Plan:
        """Return the queries it will run, and the internal topics between them."""
        return make_plan(self._topology, self.app_id)

    def describe(self) -> str:
        """Describe its queries and nodes in the format of Kafka Streams' `Topology.describe()`."""
        return describe(self.plan())

    def picture(self, file: Folder | None = None, *, form: str | None = None) -> str:
        """Draw it; `form` is `svg`, `mmd` (Mermaid) or `dot`; by default from the file's name."""
        from ottla.streams.picture import draw

        form = form or (Path(file).suffix.removeprefix(".") if file else "mmd")
        drawing = draw(self.plan(), self.app_id, form)
        if file is not None:
            Path(file).write_text(drawing, encoding="utf-8")
        return drawing

    # Running

    def start(
        self,
        spark: SparkSession,
        *,
        checkpoints: Folder,
        trigger: Duration | None = None,
        max_records_per_batch: int | None = None,
    ) -> Running:
        """Start every query and return; `trigger` is the least time between batches."""
        from ottla.streams.running import start

        return start(self, spark, fspath(checkpoints), trigger, _reading(max_records_per_batch))

    def run_available(
        self,
        spark: SparkSession,
        *,
        checkpoints: Folder,
        max_records_per_batch: int | None = None,
    ) -> Running:
        """Process what the topics hold now, and return when that is done."""
        from ottla.streams.running import run_available

        return run_available(self, spark, fspath(checkpoints), _reading(max_records_per_batch))

    # Copies: on another cluster, or as a second version

    def at(self, bootstrap_servers: str, options: Mapping[str, str] | None = None) -> App:
        """Return the same program on another cluster; `options` are added to its own."""
        other = App.__new__(App)
        merged = {**self._settings.options, **(options or {})}
        other._settings = replace(
            self._settings, bootstrap_servers=bootstrap_servers, options=merged
        )
        other._topology = self._topology
        return other

    def renamed(self, suffix: str) -> App:
        """Return the same program with the suffix on its name and on the topics it writes.

        It reads the same topics. Meant for a second version beside the first.
        """
        other = App.__new__(App)
        letters = self._settings.dead_letters
        other._settings = replace(
            self._settings,
            app_id=f"{self.app_id}{suffix}",
            dead_letters=letters and f"{letters}{suffix}",
        )
        own = set(self._topology.sinks())
        other._topology = self._topology.changed(lambda made: _with_suffix(made, own, suffix))
        return other


def _with_suffix(operation: Operation, own: set[str], suffix: str) -> Operation:
    if isinstance(operation, Sink):
        return replace(operation, topic=f"{operation.topic}{suffix}")
    if isinstance(operation, Source):
        topics = tuple(f"{one}{suffix}" if one in own else one for one in operation.topics)
        return replace(operation, topics=topics)
    return operation


def _reading(max_records: int | None) -> dict[str, str]:
    return {} if max_records is None else {"maxOffsetsPerTrigger": str(max_records)}
