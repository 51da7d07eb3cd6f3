"""What can happen to the core. Each event is handed in once, with the time at which it happened."""

from __future__ import annotations

from typing import Any, NamedTuple

from ottla.protocol.errors import ErrorCode
from ottla.protocol.schema import Message
from ottla.raft.ids import OffsetAndEpoch


class RequestReceived(NamedTuple):
    """A request of the quorum's APIs; its answer comes as an effect, perhaps of a later event."""

    token: Any
    """Comes back with the answer."""
    message: Message
    version: int
    wall_ms: int = 0
    """The time since 1970, for answers that tell it."""


class ResponseReceived(NamedTuple):
    correlation_id: int
    message: Message


class RequestFailed(NamedTuple):
    """No answer will come: the connection broke, or the receiver speaks no fitting version."""

    correlation_id: int
    error: ErrorCode = ErrorCode.NETWORK_EXCEPTION


class TimePassed:
    """The time that `Effects.wake_at_ms` named has come. Too early or too often does no harm."""

    __slots__ = ()


class LogAppended:
    """The driver appended batches in the core's epoch while the core was leader."""

    __slots__ = ()


class LogFlushed:
    """The log's `flushed_offset` has moved."""

    __slots__ = ()


class SnapshotStored(NamedTuple):
    """A fetched snapshot is complete, checked and durable."""

    snapshot: OffsetAndEpoch


class SnapshotRefused(NamedTuple):
    """A fetched snapshot is damaged and was thrown away."""

    snapshot: OffsetAndEpoch


class ResignRequested(NamedTuple):
    """Give up leading this epoch, if it is still the one led."""

    epoch: int


class ShutdownRequested:
    """Hand leadership over and take part in no further election."""

    __slots__ = ()


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
