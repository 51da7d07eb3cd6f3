"""Operations that read topics or write them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from ottla.streams.serdes import Serde
from ottla.streams.topology.operation import Function, Operation


@dataclass(frozen=True, eq=False)
class Source(Operation):
    """`timestamp` gives the time of a record, if it is not the topic's."""

    kind: ClassVar[str] = "SOURCE"
    starts: ClassVar[bool] = True
    topics: tuple[str, ...]
    key: Serde
    value: Serde
    start: str = "earliest"
    timestamp: Function | None = None

    def signature(self) -> str:
        return f"{self.kind} {','.join(self.topics)}"


@dataclass(frozen=True, eq=False)
class GlobalSource(Operation):
    """A table that is read whole where it is joined; it starts nothing by itself."""

    kind: ClassVar[str] = "GLOBALTABLE"
    topic: str
    key: Serde
    value: Serde


@dataclass(frozen=True, eq=False)
class Sink(Operation):
    """Records without a serde are written in the form they have."""

    kind: ClassVar[str] = "SINK"
    topic: str
    key: Serde | None
    value: Serde | None


@dataclass(frozen=True, eq=False)
class Repartition(Operation):
    """Through an internal topic, by key: writes it, and starts anew from it."""

    kind: ClassVar[str] = "REPARTITION"
    starts: ClassVar[bool] = True
    partitions: int | None
    key: Serde | None
    value: Serde | None
