"""Builds the queries of a plan as streaming frames, and processes each of their batches.

The part up to the operation with state is a streaming frame. Everything after it, and the whole of
a query without state, runs on the batches: so every output of a query, and its dead letters, come
from one batch and go in one write. Dead letters from before the operation with state bypass it.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from ottla.streams.errors import BadTopology
from ottla.streams.lowering.dead import DeadLetters
from ottla.streams.lowering.flow import Flow
from ottla.streams.lowering.frame import Frame, complete
from ottla.streams.lowering.global_join import EmptyTables, GlobalTables
from ottla.streams.lowering.mistakes import mistakes_of
from ottla.streams.lowering.reading import parsed, read, start_of
from ottla.streams.lowering.root import Lowered
from ottla.streams.lowering.stateful import lower_root
from ottla.streams.lowering.writing import all_rows, serdes_of, write
from ottla.streams.plan import Input, Plan, Query
from ottla.streams.plan.plan import origins, working_node
from ottla.streams.serdes import Serde
from ottla.streams.settings import Settings
from ottla.streams.topology.topology import Node

_DEAD = "__dead"
_KEPT = ("key", "value")


@dataclass
class BuiltQuery:
    """A query that is ready to start: `data` in output mode `mode`; `write` handles each batch."""

    query: Query
    data: DataFrame
    mode: str
    settings: Settings
    serdes: dict[str, tuple[Serde, Serde]]
    tables: GlobalTables
    lowered: Lowered | None = None
    own_topics: list[str] = field(default_factory=list)
    """Internal topics whose records can be deleted once this query has read them."""

    def write(self, batch: DataFrame, number: int) -> None:
        query_id = batch.sparkSession.sparkContext.getLocalProperty("sql.streaming.queryId")
        several = len(self.query.outputs) > 1 or self.settings.dead_letters is not None
        # Otherwise each output would compute the batch again.
        kept = batch.persist() if several else batch
        try:
            write(self._rows(kept), self.settings, f"{self.settings.app_id}-{query_id}", number)
        finally:
            if several:
                kept.unpersist()

    def state_schema(self) -> list[tuple[str, str]]:
        """Return the columns that the stateful operation returns: they depend on its state."""
        if self.lowered is None:
            return []
        schema = self.lowered.frame.data.schema
        return [(name, schema[name].dataType.simpleString()) for name in _KEPT]

    def learn(self, spark: SparkSession) -> None:
        """Run it on no records: this finds mistakes and the serdes of internal topics."""
        nothing = spark.createDataFrame([], self.data.schema)
        flow, _ = self._flow(nothing, EmptyTables(spark, self.settings))
        for output in self.query.outputs:
            frame = flow.at(output.node)
            if frame is None:
                raise BadTopology(f"nothing reaches {output.node.name}")
            found = serdes_of(output, frame)
            known = self.serdes.setdefault(output.topic, found)
            internal = output.end is None or output.end.operation.starts
            if internal and _types(known) != _types(found):
                raise BadTopology(
                    f"records of different types meet at {output.node.name}:"
                    f" {_types(known)} and {_types(found)}"
                )

    def _rows(self, batch: DataFrame) -> list[DataFrame]:
        flow, dead = self._flow(batch, self.tables)
        return all_rows(self.query.outputs, flow, dead)

    def _flow(self, batch: DataFrame, tables: GlobalTables) -> tuple[Flow, DeadLetters]:
        dead = DeadLetters(self.settings.dead_letters)
        if self.lowered is None or self.query.root is None:
            entering = {
                entry.node: parsed(batch, entry, self.serdes, dead) for entry in self.query.inputs
            }
            return Flow(entering, dead, tables), dead
        if _DEAD in batch.columns:
            dead.letters.append(batch.filter(F.col(_DEAD).isNotNull()).select(f"{_DEAD}.*"))
            batch = batch.filter(F.col(_DEAD).isNull()).drop(_DEAD)
        frame = self.lowered.frame.having(batch)
        if self.lowered.finish:
            with mistakes_of(self.query.root, batch):
                frame = self.lowered.finish(frame, dead)
        return Flow({self.query.root: frame}, dead, tables), dead


class Builder:
    """Builds the queries of a plan in its order: each needs the serdes of those before it."""

    def __init__(self, spark: SparkSession, settings: Settings, reading: dict[str, str]) -> None:
        self._spark = spark
        self._settings = settings
        self._options = {**settings.to_spark(), **reading}
        self._serdes: dict[str, tuple[Serde, Serde]] = {}
        self._tables = GlobalTables(spark, settings)

    def build(self, plan: Plan) -> list[BuiltQuery]:
        built = []
        for query in plan.queries:
            one = self._with_state(query, query.root) if query.root else self._without_state(query)
            one.own_topics = plan.own_topics(query)
            one.learn(self._spark)
            built.append(one)
        return built

    def _without_state(self, query: Query) -> BuiltQuery:
        starts: dict[str, list[str]] = {}
        for entry in query.inputs:
            starts.setdefault(start_of(entry), []).extend(entry.topics)
        frames = [self._read(topics, start) for start, topics in starts.items()]
        data = frames[0]
        for other in frames[1:]:
            data = data.unionByName(other)
        return self._built(query, data, "append", None)

    def _with_state(self, query: Query, root: Node) -> BuiltQuery:
        dead = DeadLetters(self._settings.dead_letters)
        raw = {entry: self._read(list(entry.topics), start_of(entry)) for entry in query.inputs}
        inputs = self._inputs(working_node(root), query, raw, dead)
        sets_aside = self._settings.dead_letters is not None
        made = lower_root(root, inputs, self._spark, self._options, sets_aside)
        made = replace(made, frame=made.frame.having(complete(made.frame.data)))
        data = _beside(made.frame.data, dead.together())
        return self._built(query, data, made.mode, made)

    def _inputs(
        self, worker: Node, query: Query, raw: dict[Input, DataFrame], dead: DeadLetters
    ) -> list[Frame]:
        frames = []
        for parent in worker.parents:
            entering = {
                entry.node: parsed(raw[entry], entry, self._serdes, dead)
                for entry in query.inputs
                if _leads_to(entry, parent)
            }
            frame = Flow(entering, dead, self._tables).at(parent)
            assert frame is not None, f"nothing reaches {parent.name}"
            frames.append(frame)
        return frames

    def _built(
        self, query: Query, data: DataFrame, mode: str, lowered: Lowered | None
    ) -> BuiltQuery:
        return BuiltQuery(query, data, mode, self._settings, self._serdes, self._tables, lowered)

    def _read(self, topics: list[str], start: str) -> DataFrame:
        return read(self._spark, topics, start, self._options)


def _leads_to(entry: Input, node: Node) -> bool:
    carried = entry.internal is not None and not entry.node.operation.starts
    return entry.node is node if carried else entry.node in origins(node)


def _beside(data: DataFrame, letters: DataFrame | None) -> DataFrame:
    """Add dead letters in a column of their own, which bypasses the operation with state."""
    if letters is None:
        return data
    inside = letters.select(F.struct("*").alias(_DEAD))
    return data.unionByName(inside, allowMissingColumns=True)


def _types(serdes: tuple[Serde, Serde]) -> str:
    return ", ".join(serde.spark_type().simpleString() for serde in serdes)
