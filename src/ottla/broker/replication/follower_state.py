"""A follower's decisions on epochs and offsets; pure functions.

A follower never decides alone where to truncate its log. Each fetch states its end offset and the
epoch of its last record. A leader whose log disagrees answers with the end of the greatest epoch
not above that one, and the two converge, in as many steps as it takes. The high watermark plays no
part: records above it may be committed.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

UNDEFINED = -1


class EpochView(Protocol):
    """The part of a log's interface that truncation needs."""

    end_offset: int

    def epoch_end_offset(self, epoch: int) -> tuple[int, int]: ...


def truncation_offset(log: EpochView, epoch: int, end_offset: int) -> int:
    """Return where to truncate, given that the leader's log has epochs up to `epoch`, ending at
    `end_offset`.

    If this log knows that epoch, both agree up to the lower of the two ends. If it does not,
    everything of its own later epochs is removed, and the next fetch asks about the epoch before.
    """
    known_epoch, known_end = log.epoch_end_offset(epoch)
    if known_epoch == UNDEFINED or known_end == UNDEFINED:
        return min(end_offset, log.end_offset)
    if known_epoch != epoch:
        return min(known_end, log.end_offset)
    return min(known_end, end_offset, log.end_offset)


class OutOfRange(NamedTuple):
    """How to continue after the leader had nothing at the requested offset."""

    offset: int
    start_over: bool
    """True if nothing of the log can be used: start again at `offset`. Otherwise truncate to it."""


def after_out_of_range(end_offset: int, leader_start: int, leader_end: int) -> OutOfRange:
    if leader_end < end_offset:
        return OutOfRange(leader_end, start_over=False)
    if leader_start > end_offset:
        return OutOfRange(leader_start, start_over=True)
    return OutOfRange(end_offset, start_over=False)


class FetchState:
    """A followed partition, between two fetches."""

    __slots__ = ("fetching_at", "index", "lag", "leader_epoch", "topic_id")

    def __init__(self, topic_id: bytes, index: int, leader_epoch: int) -> None:
        self.topic_id = topic_id
        self.index = index
        self.leader_epoch = leader_epoch
        self.lag: int | None = None
        """The number of offsets behind the leader's high watermark; None before the first
        answer."""
        self.fetching_at = UNDEFINED
        """The offset in the last request: answers for other offsets are ignored."""

    @property
    def key(self) -> tuple[bytes, int]:
        return self.topic_id, self.index

    @property
    def is_in_sync(self) -> bool:
        return self.lag == 0
