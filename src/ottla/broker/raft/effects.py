"""The effects of an event, which the driver has to carry out.

The safety rule: **`persist` must be durable before any request or answer of the same effects, or of
later ones, leaves the node.** A crash in between then loses only what nobody was told. Everything
else may be done in any order and at any pace.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

from ottla.broker.raft.ids import Node, OffsetAndEpoch
from ottla.protocol.schema import Message


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


class LostLeader(NamedTuple):
    leader_id: int
    silent_ms: int
    is_gone: bool = False
    """True if no process listens at its address."""


@dataclass(slots=True)
class Effects:
    persist: bytes | None = None
    """The new content of the file `quorum-state`. Write and fsync it before anything is sent."""
    requests: list[Request] = field(default_factory=list)
    answers: list[Answer] = field(default_factory=list)
    flush: bool = False
    """Flush the log, then pass in `LogFlushed`. Requests that come during a flush are covered by
    one more flush."""
    store_snapshot: OffsetAndEpoch | None = None
    """All parts of this snapshot are written: verify it, make it durable, pass in
    `SnapshotStored`."""
    high_watermark: int | None = None
    """Everything before this offset is committed; None if it has not changed."""
    leader: LeaderAndEpoch | None = None
    """The new leader or epoch; None if it has not changed."""
    lost_leader: LostLeader | None = None
    """Set when this leader was silent for too long, so another one is sought; or when this node
    leads, and a majority was silent. Only for logging: everything else follows by itself."""
    wake_at_ms: int | None = None
    """Pass in `TimePassed` at this time, unless another event comes first; it replaces any earlier
    time."""
    is_shut_down: bool = False
    """The requested shutdown is done: no other node waits for this one any more."""
