"""The content of a picture: topics, steps grouped by query, stores, and arrows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from ottla.streams.plan import Plan
from ottla.streams.plan.graph import PROCESSOR, Box, QueryGraph

TOPIC, INTERNAL, STEP, STORE = "topic", "internal topic", "step", "store"


@dataclass(frozen=True)
class Shape:
    """`group` is the number of its query; None for topics, which queries share."""

    id: str
    label: str
    kind: str
    group: int | None = None


@dataclass
class Drawing:
    title: str
    groups: list[str]
    shapes: dict[str, Shape] = field(default_factory=dict)
    arrows: dict[tuple[str, str], None] = field(default_factory=dict)

    def of_group(self, number: int | None) -> list[Shape]:
        return [shape for shape in self.shapes.values() if shape.group == number]


def drawing_of(plan: Plan, title: str) -> Drawing:
    internal = {topic.name for topic in plan.internal_topics}
    made = Drawing(title, [query.name for query in plan.queries])
    for number, query in enumerate(plan.queries):
        boxes = QueryGraph(query).boxes
        ends = {box.name: list(_ends(box, number, internal)) for box in boxes}
        for shape in (shape for shapes in ends.values() for shape in shapes):
            made.shapes.setdefault(shape.id, shape)
        for box in boxes:
            _connect(made, box, ends, number)
    return made


def _ends(box: Box, group: int, internal: set[str]) -> Iterator[Shape]:
    """Yield the shapes of a box: a step is one shape; sources and sinks are drawn as topics."""
    if box.kind == PROCESSOR:
        yield Shape(f"{group}/{box.name}", box.name, STEP, group)
    for topic in box.topics:
        yield Shape(f"topic/{topic}", topic, INTERNAL if topic in internal else TOPIC)


def _connect(made: Drawing, box: Box, ends: dict[str, list[Shape]], group: int) -> None:
    for follower in box.successors:
        for start in ends[box.name]:
            for end in ends[follower]:
                made.arrows[start.id, end.id] = None
    for store in box.stores:
        shape = Shape(f"{group}/store/{store}", store, STORE, group)
        made.shapes.setdefault(shape.id, shape)
        made.arrows[f"{group}/{box.name}", shape.id] = None
