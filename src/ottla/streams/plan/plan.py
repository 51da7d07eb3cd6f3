"""A topology cut into queries: Spark's counterpart of Kafka Streams' sub-topologies.

Rules and their reasons:

- A query has at most one operation with state, its root: Spark cannot chain them in update mode.
  Operations without state after it run in the same query.
- Records that go from topics to sinks without state have queries of their own, one for each group
  of sources that share a sink.
- Records that go from one root to another pass through an internal topic, written exactly once:
  `<app>-<node>-repartition`, or `<app>-<store>-changelog`, compacted, if they are a table.
- An operation without state treats each record alike, wherever it came from. So where records of
  several roots meet, each query processes its own there, and no cut is needed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ottla.streams.errors import BadTopology
from ottla.streams.plan.circles import refuse_endless
from ottla.streams.topology.ends import Repartition, Sink, Source
from ottla.streams.topology.stateful import SuppressUntilClosed
from ottla.streams.topology.stateless import JoinGlobal
from ottla.streams.topology.topology import Node, Topology


@dataclass(frozen=True)
class InternalTopic:
    """Carries the records of `node` from queries with state to the next."""

    name: str
    node: Node
    compacted: bool
    partitions: int | None = None


@dataclass(frozen=True)
class Output:
    """Writes the records of `node` to `topic`; `end` is the sink, or None for an internal topic."""

    node: Node
    topic: str
    end: Node | None


@dataclass(frozen=True)
class Input:
    """Records enter at `node`: from its topics or, if `internal` is set, from another query."""

    node: Node
    internal: InternalTopic | None = None

    @property
    def topics(self) -> tuple[str, ...]:
        if self.internal:
            return (self.internal.name,)
        assert isinstance(self.node.operation, Source)
        return self.node.operation.topics


@dataclass(frozen=True)
class Query:
    name: str
    root: Node | None
    """The operation with state."""
    inputs: tuple[Input, ...]
    outputs: tuple[Output, ...]


@dataclass(frozen=True)
class Plan:
    """The queries, each after those it reads from."""

    queries: tuple[Query, ...]
    internal_topics: tuple[InternalTopic, ...]

    def own_topics(self, query: Query) -> list[str]:
        """Return internal topics that only this query reads and that are not kept as a table."""
        read = [entry.internal for one in self.queries for entry in one.inputs if entry.internal]
        return [
            entry.internal.name
            for entry in query.inputs
            if entry.internal and not entry.internal.compacted and read.count(entry.internal) == 1
        ]


def store_names(root: Node) -> tuple[str, ...]:
    """Return the names of a root's stores; a suppressed aggregate has the aggregate's."""
    return working_node(root).operation.stores


def working_node(root: Node) -> Node:
    """Return the node that does the work: the aggregate, if its results are suppressed."""
    return root.parents[0] if isinstance(root.operation, SuppressUntilClosed) else root


def starts(node: Node) -> bool:
    return node.operation.stateful or node.operation.starts


def origins(node: Node) -> tuple[Node, ...]:
    """Return the roots and sources whose records reach `node`."""
    if starts(node):
        return (node,)
    return tuple(dict.fromkeys(origin for up in node.parents for origin in origins(up)))


def make_plan(topology: Topology, app: str) -> Plan:
    if not any(isinstance(node.operation, Sink) for node in topology):
        raise BadTopology(f"the application {app!r} writes nothing: end a stream with .to(topic)")
    refuse_endless(topology)
    return _Planner(topology, app).plan()


class _Planner:
    def __init__(self, topology: Topology, app: str) -> None:
        self._topology = topology
        self._app = app
        self._internal: dict[Node, InternalTopic] = {}
        self._outputs: dict[Node, list[Output]] = {node: [] for node in topology if starts(node)}
        self._shared: list[set[Node]] = []

    def plan(self) -> Plan:
        roots = self._needed_roots()
        for root in roots:
            for node in working_node(root).parents:
                self._carry_between_roots(node)
        self._add_ends()
        queries = [self._query_of(root) for root in roots] + self._queries_without_state()
        order = {node: number for number, node in enumerate(self._topology)}
        queries.sort(key=lambda query: order[query.root or query.inputs[0].node])
        return Plan(tuple(_readers_last(queries)), tuple(self._internal.values()))

    def _needed_roots(self) -> list[Node]:
        """Return the roots whose records are written or used by another root."""
        needed: set[Node] = set()
        for node in reversed(list(self._topology)):
            if isinstance(node.operation, Sink | Repartition):
                needed.update(origins(node.parents[0]))
            if node in needed and node.operation.stateful:
                for parent in working_node(node).parents:
                    needed.update(origins(parent))
        return [node for node in self._topology if node in needed and node.operation.stateful]

    def _carry_between_roots(self, node: Node) -> None:
        writers = _carriers(node)
        if not writers or node in self._internal:
            return
        topic = InternalTopic(_topic_name(self._app, node), node, compacted=node.table)
        self._internal[node] = topic
        for writer in writers:
            self._outputs[writer].append(Output(node, topic.name, None))
        self._share({writer for writer in writers if not writer.operation.stateful})

    def _add_ends(self) -> None:
        for end in self._topology:
            if not isinstance(end.operation, Sink | Repartition):
                continue
            node, topic = end.parents[0], self._topic_of_end(end)
            for origin in origins(node):
                self._outputs[origin].append(Output(node, topic, end))
            self._share({origin for origin in origins(node) if not origin.operation.stateful})

    def _topic_of_end(self, end: Node) -> str:
        if isinstance(end.operation, Sink):
            return end.operation.topic
        assert isinstance(end.operation, Repartition)
        name = f"{self._app}-{end.name.removesuffix('-repartition')}-repartition"
        topic = InternalTopic(name, end, compacted=False, partitions=end.operation.partitions)
        self._internal[end] = topic
        return name

    def _share(self, sources: set[Node]) -> None:
        """Let sources that reach the same sink be read by one query."""
        if sources:
            joined = sources.union(*(group for group in self._shared if group & sources))
            self._shared = [group for group in self._shared if not group & sources] + [joined]

    def _query_of(self, root: Node) -> Query:
        inputs: dict[tuple[Node, bool], Input] = {}
        for node in working_node(root).parents:
            carriers = _carriers(node)
            for origin in origins(node):
                internal = self._internal[node] if origin in carriers else None
                entry = Input(node if internal else origin, internal or self._internal.get(origin))
                inputs[entry.node, internal is not None] = entry
        stores = store_names(root)
        name = stores[0] if len(stores) == 1 and root is working_node(root) else root.name
        return Query(name, root, tuple(inputs.values()), tuple(self._outputs[root]))

    def _queries_without_state(self) -> list[Query]:
        order = {node: number for number, node in enumerate(self._topology)}
        queries = []
        for group in self._shared:
            sources = sorted(group, key=lambda node: order[node])
            outputs = dict.fromkeys(out for source in sources for out in self._outputs[source])
            inputs = tuple(Input(source, self._internal.get(source)) for source in sources)
            queries.append(Query(sources[0].name, None, inputs, tuple(outputs)))
        return queries


def _carriers(node: Node) -> list[Node]:
    """Return the origins whose records reach a root through an internal topic.

    These are the origins with state, or all if a global table is joined on the way: Spark reads
    such a table again for each batch only after a query's streaming part.
    """
    whole = _passes_global_table(node)
    return [origin for origin in origins(node) if whole or origin.operation.stateful]


def _passes_global_table(node: Node) -> bool:
    if starts(node):
        return False
    if isinstance(node.operation, JoinGlobal):
        return True
    return any(map(_passes_global_table, node.parents))


def _topic_name(app: str, node: Node) -> str:
    if not node.table:
        return f"{app}-{node.name}-repartition"
    stores = store_names(node)
    return f"{app}-{stores[0] if stores else node.name}-changelog"


def _readers_last(queries: Sequence[Query]) -> list[Query]:
    """Sort stably: a query moves only behind those that write what it reads."""
    placed: list[Query] = []
    waiting = list(queries)
    while waiting:
        writing = {output.topic for query in waiting for output in query.outputs}
        ready = [query for query in waiting if not _reads(query) & writing]
        ready = ready or waiting[:1]  # a cycle through one of the program's own topics
        placed += ready
        waiting = [query for query in waiting if query not in ready]
    return placed


def _reads(query: Query) -> set[str]:
    return {topic for entry in query.inputs for topic in entry.topics}
