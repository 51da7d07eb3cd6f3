"""The graph of an application: nodes with names, each created after those it gets records from.

Pure: it can be built, described and drawn without Spark and without a broker. Names are Kafka
Streams', numbered in the order of creation, unless the program gives one. A restart finds its
checkpoint by name, so name stateful operations before you insert steps above them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields, replace

from ottla.streams.errors import BadTopology
from ottla.streams.serdes.serde import Serde
from ottla.streams.topology.ends import GlobalSource, Sink, Source
from ottla.streams.topology.operation import Operation
from ottla.streams.topology.places import Place, calling_place

_LEGAL = re.compile(r"[a-zA-Z0-9._-]{1,200}")
_NUMBERED = re.compile(r"K(STREAM|TABLE)-[A-Z-]+-\d{10}(-\d+)?")


@dataclass(frozen=True, eq=False)
class Node:
    name: str
    operation: Operation
    parents: tuple[Node, ...]
    table: bool
    """True if its records are a table's changes: the newest of a key counts, null deletes."""
    place: Place | None = None
    """The line of the program that added it."""

    @property
    def told(self) -> str:
        """Its name in errors: the line, and the name if the program gave one."""
        if self.place is None:
            return self.name
        numbered = _NUMBERED.fullmatch(self.name)
        return str(self.place) if numbered else f"{self.place}: {self.name}"

    def __repr__(self) -> str:
        return f"<{self.name}>"


class Topology:
    def __init__(self) -> None:
        self._nodes: dict[str, Node] = {}
        self._stores: set[str] = set()
        self._count = 0

    def __iter__(self) -> Iterator[Node]:
        return iter(self._nodes.values())

    def __len__(self) -> int:
        return len(self._nodes)

    def __getitem__(self, name: str) -> Node:
        return self._nodes[name]

    def add(
        self,
        operation: Operation,
        *parents: Node,
        named: str | None = None,
        table: bool = False,
        family: str | None = None,
    ) -> Node:
        """Add a node. `family` is the prefix of its name; by default it follows from `table`."""
        family = family or ("KTABLE" if table else "KSTREAM")
        name = (
            self.numbered(f"{family}-{operation.kind}-") if named is None else checked_name(named)
        )
        if name in self._nodes:
            raise BadTopology(f"two nodes are named {name!r}: give each a name of its own")
        _check_arguments(operation, name)
        for parent in parents:
            if self._nodes.get(parent.name) is not parent:
                raise BadTopology(f"{parent.name} belongs to another application than {name}")
        for store in operation.stores:
            self._take_store(store)
        node = self._nodes[name] = Node(name, operation, parents, table, calling_place())
        return node

    def numbered(self, prefix: str) -> str:
        """Return the next name of this kind; nodes and stores share the numbers."""
        name = f"{prefix}{self._count:010}"
        self._count += 1
        return name

    def _take_store(self, store: str) -> None:
        if checked_name(store) in self._stores:
            raise BadTopology(f"two stores are named {store!r}: give each a name of its own")
        self._stores.add(store)

    def children(self, node: Node) -> list[Node]:
        return [other for other in self if node in other.parents]

    def changed(self, change: Callable[[Operation], Operation]) -> Topology:
        """Return the same graph, with `change` applied to each operation."""
        other = Topology()
        other._stores, other._count = set(self._stores), self._count
        for node in self:
            parents = tuple(other[parent.name] for parent in node.parents)
            other._nodes[node.name] = replace(
                node, operation=change(node.operation), parents=parents
            )
        return other

    def sources(self) -> list[str]:
        """Return the topics that are read, except internal ones."""
        topics: list[str] = []
        for node in self:
            if isinstance(node.operation, Source):
                topics += node.operation.topics
            elif isinstance(node.operation, GlobalSource):
                topics.append(node.operation.topic)
        return list(dict.fromkeys(topics))

    def sinks(self) -> list[str]:
        found = [node.operation.topic for node in self if isinstance(node.operation, Sink)]
        return list(dict.fromkeys(found))


def _check_arguments(operation: Operation, name: str) -> None:
    """Refuse arguments that would otherwise fail only when the query runs, perhaps on another
    machine."""
    for field in fields(operation):
        given = getattr(operation, field.name)
        if field.name == "function" and not callable(given):
            raise BadTopology(f"{name}: {given!r} is no function; such as lambda r: r.value > 10")
        if field.name in ("key", "value") and not isinstance(given, Serde | None):
            raise BadTopology(
                f"{name}: {field.name} is {given!r}; it must be a form such as String() or "
                "Json('amount double')"
            )


def checked_name(name: str) -> str:
    if not _LEGAL.fullmatch(name):
        raise BadTopology(
            f"{name!r} cannot be a name: it becomes a part of names of topics and folders, so it"
            " may have letters, digits, '.', '_' and '-' only"
        )
    return name
