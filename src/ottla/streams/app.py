"""An application: a topology under a name, and what is needed to run it.

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
    def __init__(
        self,
        app_id: str,
        *,
        bootstrap_servers: str = "localhost:9092",
        dead_letters: str | None = None,
        options: Mapping[str, str] | None = None,
    ) -> None:
        """`app_id` begins the names of internal topics and of transactions: one for each program.

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

    # What it reads

    def stream(
        self,
        *topics: str,
        key: Serde | None = None,
        value: Serde | None = None,
        start: str = "earliest",
        timestamp: Function | None = None,
        named: str | None = None,
    ) -> Stream:
        """The records of topics. Keys and values are text unless said otherwise.

        `start` (`earliest` or `latest`) counts when the application is started for the first time.
        `timestamp` gives the time of a record: `lambda r: r.value.paid_at`.
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
        """A topic whose newest record of each key counts; a null value deletes."""
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
        """A table that is read whole wherever it is joined, so that any key can be looked up."""
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
        """For streams and tables, which are how a program adds to the topology."""
        return self._topology.add(operation, *parents, named=named, table=table, family=family)

    # What it looks like

    def plan(self) -> Plan:
        """The queries it will be, and the internal topics between them."""
        return make_plan(self._topology, self.app_id)

    def describe(self) -> str:
        """Its queries and nodes in words, as Kafka Streams' `Topology.describe()` has them."""
        return describe(self.plan())

    def picture(self, file: Folder | None = None, *, form: str | None = None) -> str:
        """A drawing; `form` is `svg`, `mmd` (Mermaid) or `dot`, or follows from the file's name."""
        from ottla.streams.picture import draw

        form = form or (Path(file).suffix.removeprefix(".") if file else "mmd")
        drawing = draw(self.plan(), self.app_id, form)
        if file is not None:
            Path(file).write_text(drawing, encoding="utf-8")
        return drawing

    # Running it

    def start(
        self,
        spark: SparkSession,
        *,
        checkpoints: Folder,
        trigger: Duration | None = None,
        max_records_per_batch: int | None = None,
    ) -> Running:
        """Starts every query and returns; `trigger` is the least time between batches."""
        from ottla.streams.running import start

        return start(self, spark, fspath(checkpoints), trigger, _reading(max_records_per_batch))

    def run_available(
        self,
        spark: SparkSession,
        *,
        checkpoints: Folder,
        max_records_per_batch: int | None = None,
    ) -> Running:
        """Works on what the topics hold now, and returns when that is done."""
        from ottla.streams.running import run_available

        return run_available(self, spark, fspath(checkpoints), _reading(max_records_per_batch))

    # Another version beside it, or the same elsewhere

    def at(self, bootstrap_servers: str, options: Mapping[str, str] | None = None) -> App:
        """The same program on another cluster; `options` are added to those it has."""
        other = App.__new__(App)
        merged = {**self._settings.options, **(options or {})}
        other._settings = replace(
            self._settings, bootstrap_servers=bootstrap_servers, options=merged
        )
        other._topology = self._topology
        return other

    def renamed(self, suffix: str) -> App:
        """The same program under another name, writing to other topics: both get the suffix.

        What it reads stays. Meant for a second version beside the first.
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
