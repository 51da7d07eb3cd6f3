"""Values that describe groups in admin results."""

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
    """classic, consumer, share or streams; None if the cluster does not report it."""
    state: str | None
    protocol_type: str
    """The protocol type of a classic group; empty for a group that only holds offsets."""
    coordinator: int


class GroupMember(NamedTuple):
    member_id: str
    instance_id: str | None
    """Set for a static member, which may rejoin under this name."""
    client_id: str
    host: str
    assignment: tuple[TopicPartition, ...]
    target: tuple[TopicPartition, ...] | None = None
    """The target assignment; None for a classic group, where only the members know it."""
    epoch: int | None = None
    rack: str | None = None
    topics: tuple[str, ...] = ()
    """The subscribed topics, as far as they can be read."""
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
        """True if the group may have members, which then own its offsets."""
        return self.state not in (EMPTY, DEAD)


class PartitionLag(NamedTuple):
    """The lag of a group in one partition. Unknown values are None, and `error` says why."""

    topic: str
    partition: int
    committed: int | None
    log_start: int | None
    log_end: int | None
    lag: int | None
    lag_ms: int | None
    """The age of the first uncommitted record; 0 if there is none."""
    member: GroupMember | None
    error: str | None
