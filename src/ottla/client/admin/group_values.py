"""Groups as administration sees them."""

from __future__ import annotations

from typing import NamedTuple

from ottla.client.values import TopicPartition

CLASSIC = "classic"
CONSUMER = "consumer"
EMPTY = "Empty"
DEAD = "Dead"


class ListedGroup(NamedTuple):
    group_id: str
    type: str | None
    """classic, consumer, share or streams; None from a cluster that does not tell."""
    state: str | None
    protocol_type: str
    """What classic members agree on; empty for a group that only holds offsets."""
    coordinator: int


class GroupMember(NamedTuple):
    member_id: str
    instance_id: str | None
    """Set for a static member, which may come back under this name."""
    client_id: str
    host: str
    assignment: tuple[TopicPartition, ...]
    target: tuple[TopicPartition, ...] | None = None
    """What it is to own in the end; None where only the members know (classic)."""
    epoch: int | None = None
    rack: str | None = None
    topics: tuple[str, ...] = ()
    """What it subscribes to, as far as that can be read."""
    pattern: str | None = None


class DescribedGroup(NamedTuple):
    group_id: str
    type: str
    state: str
    coordinator: int
    protocol_type: str
    assignor: str | None
    members: tuple[GroupMember, ...]
    epoch: int | None = None
    assignment_epoch: int | None = None

    @property
    def active(self) -> bool:
        """Whether members may be reading, so that its offsets are theirs to move."""
        return self.state not in (EMPTY, DEAD)


class PartitionLag(NamedTuple):
    """A partition of a group. What cannot be told now is None, and `error` says why."""

    topic: str
    partition: int
    committed: int | None
    log_start: int | None
    log_end: int | None
    lag: int | None
    lag_ms: int | None
    """The age of the first record not committed; 0 when there is none."""
    member: GroupMember | None
    error: str | None
