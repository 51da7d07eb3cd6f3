"""Operations that read or write topics."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from ottla.streams.serdes import Serde
from ottla.streams.topology.operation import Function, Operation


@dataclass(frozen=True, eq=False)
class Source(Operation):
    """`timestamp` returns the time of a record, if it is not the topic's."""

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
    """A table that is read whole where it is joined; it starts no query by itself."""

    kind: ClassVar[str] = "GLOBALTABLE"
    topic: str
    key: Serde
    value: Serde


@dataclass(frozen=True, eq=False)
class Sink(Operation):
    """Without a serde, records keep the serde they have."""

    kind: ClassVar[str] = "SINK"
    topic: str
    key: Serde | None
    value: Serde | None


@dataclass(frozen=True, eq=False)
class Repartition(Operation):
    """Sends records through an internal topic by key: writes it, and starts from it again."""

    kind: ClassVar[str] = "REPARTITION"
    starts: ClassVar[bool] = True
    partitions: int | None
    key: Serde | None
    value: Serde | None
