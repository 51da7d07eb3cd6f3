"""Describes a plan in the format of Kafka Streams' `TopologyDescription`, which tools can read."""

from __future__ import annotations

from collections.abc import Iterator

from ottla.streams.plan.graph import SINK, SOURCE, Box, QueryGraph
from ottla.streams.plan.plan import Plan


def describe(plan: Plan) -> str:
    lines = ["Topologies:"]
    for number, query in enumerate(plan.queries):
        lines.append(f"   Sub-topology: {number} for query {query.name}")
        for box in QueryGraph(query).boxes:
            lines += _lines(box)
        lines.append("")
    return "\n".join(lines)


def _lines(box: Box) -> Iterator[str]:
    yield f"    {box.kind}: {box.name} ({_topics_or_stores(box)})"
    if box.kind != SINK:
        yield f"      --> {_names(box.successors)}"
    if box.kind != SOURCE:
        yield f"      <-- {_names(box.predecessors)}"


def _topics_or_stores(box: Box) -> str:
    if box.kind == SOURCE:
        return f"topics: [{', '.join(box.topics)}]"
    if box.kind == SINK:
        return f"topic: {box.topics[0]}"
    return f"stores: [{', '.join(box.stores)}]"


def _names(names: list[str]) -> str:
    return ", ".join(names) or "none"
