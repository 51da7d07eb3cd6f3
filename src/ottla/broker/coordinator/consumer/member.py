"""A member of a consumer group: its subscription, and its progress towards the target."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from ottla.protocol.coordinator_records.consumer_group_member_metadata import (
        ClassicMemberMetadata,
    )

JOINING_EPOCH: Final = 0
LEAVING_EPOCH: Final = -1
STATIC_LEAVING_EPOCH: Final = -2
"""Sent by a static member that will be back soon; also its epoch until then."""

Held = Mapping[bytes, Mapping[int, int]]
"""Partitions by topic id, each with the epoch in which it was assigned to the member."""


class MemberState(IntEnum):
    """The numbers are those of Kafka's records."""

    STABLE = 0
    """It owns what the target assigned to it, in the present or in an older epoch."""
    UNREVOKED_PARTITIONS = 1
    """It was asked to revoke partitions, and has not confirmed it yet."""
    UNRELEASED_PARTITIONS = 2
    """It waits for partitions that other members still own."""
    UNKNOWN = 127


@dataclass(frozen=True, slots=True)
class Member:
    """Immutable: each record creates a new object."""

    member_id: str
    instance_id: str | None = None
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    topics: frozenset[str] = frozenset()
    """The topics it subscribes to by name."""
    regex: str = ""
    """The regular expression for further topics; empty if there is none."""
    rebalance_timeout_ms: int = -1
    server_assignor: str | None = None
    classic: ClassicMemberMetadata | None = field(default=None)
    """Set while the member uses the classic protocol: its session timeout and protocols."""
    epoch: int = 0
    previous_epoch: int = -1
    state: MemberState = MemberState.STABLE
    assigned: Held = field(default_factory=dict)
    revoking: Held = field(default_factory=dict)
    """Partitions it was asked to revoke. It owns them until it confirms that it has revoked
    them."""

    @property
    def uses_classic(self) -> bool:
        return self.classic is not None

    def is_reconciled_to(self, assignment_epoch: int) -> bool:
        return self.state == MemberState.STABLE and self.epoch == assignment_epoch

    def assignment_epoch(self, topic_id: bytes, partition: int) -> int | None:
        """Return the epoch since which it owns the partition; None if it does not."""
        for held in (self.assigned, self.revoking):
            epoch = held.get(topic_id, {}).get(partition)
            if epoch is not None:
                return epoch
        return None

    def holds_all(self, owned: Mapping[bytes, Iterable[int]]) -> bool:
        return all(
            topic_id in self.assigned and set(indexes) <= self.assigned[topic_id].keys()
            for topic_id, indexes in owned.items()
        )


def same_partitions(one: Held, other: Held) -> bool:
    """True if the partitions are equal, whatever their epochs."""
    return one.keys() == other.keys() and all(
        one[topic_id].keys() == other[topic_id].keys() for topic_id in one
    )
