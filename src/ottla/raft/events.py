"""What can happen to the core. Each event is handed in once, with the time at which it happened."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ottla.protocol.errors import ErrorCode
from ottla.protocol.schema import Message
from ottla.raft.ids import OffsetAndEpoch


@dataclass(frozen=True, slots=True)
class RequestReceived:
    """A request of the quorum's APIs; its answer comes as an effect, perhaps of a later event."""

    token: Any
    """Comes back with the answer."""
    message: Message
    version: int
    wall_ms: int = 0
    """The time since 1970, for answers that tell it."""


@dataclass(frozen=True, slots=True)
class ResponseReceived:
    correlation_id: int
    message: Message


@dataclass(frozen=True, slots=True)
class RequestFailed:
    """No answer will come: the connection broke, or the receiver speaks no fitting version."""

    correlation_id: int
    error: ErrorCode = ErrorCode.NETWORK_EXCEPTION


@dataclass(frozen=True, slots=True)
class TimePassed:
    """The time that `Effects.wake_at_ms` named has come. Too early or too often does no harm."""


@dataclass(frozen=True, slots=True)
class LogAppended:
    """The driver appended batches in the core's epoch while the core was leader."""


@dataclass(frozen=True, slots=True)
class LogFlushed:
    """The log's `flushed_offset` has moved."""


@dataclass(frozen=True, slots=True)
class SnapshotStored:
    """A fetched snapshot is complete, checked and durable."""

    snapshot: OffsetAndEpoch


@dataclass(frozen=True, slots=True)
class SnapshotRefused:
    """A fetched snapshot is damaged and was thrown away."""

    snapshot: OffsetAndEpoch


@dataclass(frozen=True, slots=True)
class ResignRequested:
    """Give up leading this epoch, if it is still the one led."""

    epoch: int


@dataclass(frozen=True, slots=True)
class ShutdownRequested:
    """Hand leadership over and take part in no further election."""


Event = (
    RequestReceived
    | ResponseReceived
    | RequestFailed
    | TimePassed
    | LogAppended
    | LogFlushed
    | SnapshotStored
    | SnapshotRefused
    | ResignRequested
    | ShutdownRequested
)
