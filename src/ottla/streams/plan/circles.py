"""Finds topologies that feed themselves: records are read from a topic and written to it again.

If an operation in the cycle drops records (a filter, a branch, a join, ...) such a cycle may be
intended, for example to retry. If none does, each record goes round for ever.
"""

from __future__ import annotations

from collections.abc import Iterator

from ottla.streams.errors import BadTopology
from ottla.streams.topology import stateless
from ottla.streams.topology.ends import Repartition, Sink, Source
from ottla.streams.topology.topology import Node, Topology

_PASSES_ALL = (
    stateless.Map,
    stateless.MapValues,
    stateless.SelectKey,
    stateless.Peek,
    stateless.Merge,
    stateless.ToStream,
    stateless.ToTable,
    Repartition,
)


def refuse_endless(topology: Topology) -> None:
    copies: dict[str, set[str]] = {}
    for node in topology:
        if isinstance(node.operation, Sink):
            for topic in _copied(node.parents[0]):
                copies.setdefault(topic, set()).add(node.operation.topic)
    for topic in copies:
        if way := _way_back(topic, copies):
            raise BadTopology(
                f"the application feeds itself: what it reads from {topic!r} it writes to it again"
                f" ({' -> '.join(way)}), so that every record goes round for ever. Write to another"
                " topic, or leave out on the way what is done"
            )


def _copied(node: Node) -> Iterator[str]:
    """Yield the topics whose records all reach `node`."""
    if isinstance(node.operation, Source):
        yield from node.operation.topics
    elif isinstance(node.operation, _PASSES_ALL):
        for parent in node.parents:
            yield from _copied(parent)


def _way_back(topic: str, copies: dict[str, set[str]]) -> list[str] | None:
    ways, seen = [[topic]], {topic}
    while ways:
        way = ways.pop(0)
        for follower in sorted(copies.get(way[-1], ())):
            if follower == topic:
                return [*way, topic]
            if follower not in seen:
                seen.add(follower)
                ways.append([*way, follower])
    return None
