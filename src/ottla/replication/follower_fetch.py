"""What a leader and the sessions in which its followers fetch tell each other."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    from ottla.replication.partition import Partition


class Reader(Protocol):
    """The fetch session of one follower, as far as this partition is in it."""

    def appended(self, partition: Partition, offset: int) -> None:
        """There is more to copy, from `offset` on."""
        ...

    def marked(self, partition: Partition) -> None:
        """The high watermark moved."""
        ...

    def moved_start(self, partition: Partition) -> None:
        """Records were deleted: that is to be told soon."""
        ...

    def replaced(self) -> None:
        """Another session of the same follower is told of this partition from now on."""
        ...

    def disturbed(self, partition: Partition) -> None:
        """This broker no longer leads it, or not in the same epoch, or it went offline."""
        ...


class FollowerFetch(NamedTuple):
    """What a follower says of itself when it asks for records."""

    follower_id: int
    broker_epoch: int
    leader_epoch: int
    offset: int
    last_epoch: int
    """The epoch of its last record, -1 if it has none."""
    log_start_offset: int
