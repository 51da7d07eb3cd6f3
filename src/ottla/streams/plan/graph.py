"""A query as boxes and arrows, for the description and the pictures."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from ottla.streams.plan.plan import Input, Output, Query, origins, starts, working_node
from ottla.streams.topology.ends import GlobalSource, Source
from ottla.streams.topology.topology import Node

SOURCE, PROCESSOR, SINK = "Source", "Processor", "Sink"


@dataclass(eq=False)
class Box:
    name: str
    kind: str
    topics: tuple[str, ...] = ()
    stores: tuple[str, ...] = ()
    successors: list[str] = field(default_factory=list)
    predecessors: list[str] = field(default_factory=list)


class QueryGraph:
    """The boxes of one query, sources first, in the order records pass them."""

    def __init__(self, query: Query) -> None:
        self._query = query
        self._boxes: dict[str, Box] = {}
        self._entered = {entry.node for entry in query.inputs}
        self._carried = {entry.node: entry for entry in query.inputs if entry.internal}
        if query.root:
            self._add_root(query.root)
        for output in query.outputs:
            self._add_output(output)

    @property
    def boxes(self) -> list[Box]:
        return self._in_order()

    def _add_root(self, root: Node) -> None:
        worker = working_node(root)
        for parent in worker.parents:
            self._enter(parent, self._box_of(worker))
        if worker is not root:
            self._arrow(self._box_of(worker), self._box_of(root))

    def _enter(self, node: Node, target: Box) -> None:
        """Add the path of records from this query's inputs through `node` to `target`."""
        entry = self._carried.get(node)
        if entry:
            self._arrow(self._source(entry), target)
        whole = isinstance(node.operation, GlobalSource)
        if (node.operation.starts and not entry) or whole:
            self._arrow(self._box_of(node), target)
        elif not starts(node):
            self._through(node, target, node.parents)

    def _through(self, node: Node, target: Box, parents: Iterable[Node]) -> None:
        reached = [parent for parent in parents if self._is_reached(parent)]
        if reached:
            box = self._box_of(node)
            self._arrow(box, target)
            for parent in reached:
                self._enter(parent, box)

    def _is_reached(self, node: Node) -> bool:
        """True if records of this query's inputs, or of a global table, pass the node."""
        if isinstance(node.operation, GlobalSource) or node in self._entered:
            return True
        return not starts(node) and any(map(self._is_reached, node.parents))

    def _add_output(self, output: Output) -> None:
        name = output.end.name if output.end else f"{output.node.name}-sink"
        if output.end and output.end.operation.starts:
            name = f"{output.end.name}-sink"
        sink = self._boxes.setdefault(name, Box(name, SINK, topics=(output.topic,)))
        if self._query.root:
            self._leave(output.node, sink, self._query.root)
        else:
            self._enter(output.node, sink)

    def _leave(self, node: Node, target: Box, root: Node) -> None:
        """Add the path of the root's records through `node` to `target`."""
        self._arrow(self._box_of(node), target)
        if node is not root:
            for parent in node.parents:
                if root in origins(parent):
                    self._leave(parent, self._box_of(node), root)
                elif isinstance(parent.operation, GlobalSource):
                    self._arrow(self._box_of(parent), self._box_of(node))

    def _source(self, entry: Input) -> Box:
        name = f"{entry.node.name}-source"
        return self._boxes.setdefault(name, Box(name, SOURCE, topics=entry.topics))

    def _box_of(self, node: Node) -> Box:
        box = self._boxes.get(node.name)
        if box is None:
            operation = node.operation
            if isinstance(operation, Source):
                box = Box(node.name, SOURCE, topics=operation.topics)
            elif isinstance(operation, GlobalSource):
                box = Box(node.name, SOURCE, topics=(operation.topic,))
            else:
                box = Box(node.name, PROCESSOR, stores=operation.stores)
            self._boxes[node.name] = box
        return box

    def _arrow(self, box: Box, target: Box) -> None:
        if target.name not in box.successors:
            box.successors.append(target.name)
            target.predecessors.append(box.name)

    def _in_order(self) -> list[Box]:
        """Return the boxes, each after all that lead to it."""
        placed: dict[str, Box] = {}
        waiting = sorted(self._boxes.values(), key=lambda box: box.kind != SOURCE)
        while waiting:
            ready = [box for box in waiting if placed.keys() >= set(box.predecessors)]
            placed.update((box.name, box) for box in ready)
            waiting = [box for box in waiting if box.name not in placed]
        return list(placed.values())
