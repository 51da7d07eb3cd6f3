"""What the driver has to do after an event.

The rule that makes it safe: **what stands in `persist` is durable before any request or answer of
the same effects, or of later ones, leaves the node.** A crash in between then takes back only what
nobody was told. Everything else may be done in any order and at any pace.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

from ottla.protocol.schema import Message
from ottla.raft.ids import Node, OffsetAndEpoch


class Request(NamedTuple):
    correlation_id: int
    destination: Node
    message: Message


class Answer(NamedTuple):
    token: Any
    message: Message


class LeaderAndEpoch(NamedTuple):
    leader_id: int
    """-1 if it is not known."""
    epoch: int


@dataclass(slots=True)
class Effects:
    persist: bytes | None = None
    """The new content of the file `quorum-state`. Write and fsync it before anything is sent."""
    requests: list[Request] = field(default_factory=list)
    answers: list[Answer] = field(default_factory=list)
    flush: bool = False
    """Flush the log, then tell `LogFlushed`. While one flush runs, one more covers all that ask."""
    store_snapshot: OffsetAndEpoch | None = None
    """All parts of this snapshot are written: check it, make it durable, tell `SnapshotStored`."""
    high_watermark: int | None = None
    """Everything before this offset is committed; None if nothing new is."""
    leader: LeaderAndEpoch | None = None
    """Another leader or epoch than before, None if it is the same."""
    wake_at_ms: int | None = None
    """Tell `TimePassed` then, unless another event comes first; it replaces any earlier wish."""
    is_shut_down: bool = False
    """The shutdown that was asked for is done: nobody waits for this node any more."""
