"""The events of the core. Each is passed in once, with the time at which it happened."""

from __future__ import annotations

from typing import Any, NamedTuple

from ottla.broker.raft.ids import OffsetAndEpoch
from ottla.protocol.errors import ErrorCode
from ottla.protocol.schema import Message


class RequestReceived(NamedTuple):
    """A request of the quorum's APIs; its answer is an effect, perhaps of a later event."""

    token: Any
    """Returned with the answer."""
    message: Message
    version: int
    wall_ms: int = 0
    """The wall-clock time, for answers that contain it."""


class ResponseReceived(NamedTuple):
    correlation_id: int
    message: Message


class RequestFailed(NamedTuple):
    """No answer will come: the connection broke, or the receiver supports no fitting version."""

    correlation_id: int
    error: ErrorCode = ErrorCode.NETWORK_EXCEPTION
    refused: bool = False
    """True if no process listens at the receiver's address."""


class TimePassed:
    """The time in `Effects.wake_at_ms` has come. Too early or too often does no harm."""

    __slots__ = ()


class Stalled(NamedTuple):
    """This node itself was stalled for this long: the silence of the others in that time means
    nothing."""

    late_ms: int


class LogAppended:
    """The driver appended batches in the core's epoch while the core was leader."""

    __slots__ = ()


class LogFlushed:
    """The log's `flushed_offset` has moved."""

    __slots__ = ()


class SnapshotStored(NamedTuple):
    """A fetched snapshot is complete, verified and durable."""

    snapshot: OffsetAndEpoch


class SnapshotRefused(NamedTuple):
    """A fetched snapshot is damaged and was discarded."""

    snapshot: OffsetAndEpoch


class ResignRequested(NamedTuple):
    """Stop leading this epoch, if it is still the present one."""

    epoch: int


class ShutdownRequested:
    """Hand over leadership and take part in no further election."""

    __slots__ = ()


Event = (
    RequestReceived
    | ResponseReceived
    | RequestFailed
    | TimePassed
    | Stalled
    | LogAppended
    | LogFlushed
    | SnapshotStored
    | SnapshotRefused
    | ResignRequested
    | ShutdownRequested
)
