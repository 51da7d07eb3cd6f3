"""What a follower does with what its leader tells: pure decisions on epochs and offsets.

A follower never decides alone where its log has to be cut. It says in each fetch how far it is and
which epoch wrote its last record; a leader whose log says otherwise answers with the end of the
greatest epoch not above that one, and the two meet there, in as many steps as it takes. The high
watermark has no part in it: records above it may be committed.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

UNDEFINED = -1


class EpochView(Protocol):
    """A log, as far as truncation looks at it."""

    end_offset: int

    def epoch_end_offset(self, epoch: int) -> tuple[int, int]: ...


def truncation_offset(log: EpochView, epoch: int, end_offset: int) -> int:
    """Where to cut: the leader's log holds epochs up to `epoch` to `end_offset` and no further.

    If this log knows that epoch, both agree up to the lesser of the two ends. If it does not, all
    that its own later epochs wrote goes, and the next fetch asks about the epoch before.
    """
    known_epoch, known_end = log.epoch_end_offset(epoch)
    if known_epoch == UNDEFINED or known_end == UNDEFINED:
        return min(end_offset, log.end_offset)
    if known_epoch != epoch:
        return min(known_end, log.end_offset)
    return min(known_end, end_offset, log.end_offset)


class OutOfRange(NamedTuple):
    """How to go on after the leader had nothing at the offset asked for."""

    offset: int
    start_over: bool
    """Nothing of the log is of use: begin anew at `offset`. Else cut to it, if it is longer."""


def after_out_of_range(end_offset: int, leader_start: int, leader_end: int) -> OutOfRange:
    if leader_end < end_offset:
        return OutOfRange(leader_end, start_over=False)
    if leader_start > end_offset:
        return OutOfRange(leader_start, start_over=True)
    return OutOfRange(end_offset, start_over=False)


class FetchState:
    """One partition that is being followed, between two fetches."""

    __slots__ = ("fetching_at", "index", "lag", "leader_epoch", "topic_id")

    def __init__(self, topic_id: bytes, index: int, leader_epoch: int) -> None:
        self.topic_id = topic_id
        self.index = index
        self.leader_epoch = leader_epoch
        self.lag: int | None = None
        """Behind the leader's high watermark by so many offsets; None before the first answer."""
        self.fetching_at = UNDEFINED
        """The offset that the last request named: answers to others are void."""

    @property
    def key(self) -> tuple[bytes, int]:
        return self.topic_id, self.index

    @property
    def is_in_sync(self) -> bool:
        return self.lag == 0
