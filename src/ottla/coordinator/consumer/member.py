"""One member of a consumer group: what it wants, and how far it has come in getting it."""

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
"""Sent by a static member that will be back soon; also the epoch it has until then."""

Held = Mapping[bytes, Mapping[int, int]]
"""Partitions by topic id, each with the epoch in which the member was given it."""


class MemberState(IntEnum):
    """The numbers are those of Kafka's records."""

    STABLE = 0
    """It has what the target assignment gives it, or had it in an older epoch."""
    UNREVOKED_PARTITIONS = 1
    """It was asked to give up partitions, and has not said yet that it did."""
    UNRELEASED_PARTITIONS = 2
    """It waits for partitions that other members still have."""
    UNKNOWN = 127


@dataclass(frozen=True, slots=True)
class Member:
    """Never changed: the next record makes the next one."""

    member_id: str
    instance_id: str | None = None
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    topics: frozenset[str] = frozenset()
    """The topics it names."""
    regex: str = ""
    """The expression whose topics it wants besides; empty if there is none."""
    rebalance_timeout_ms: int = -1
    server_assignor: str | None = None
    classic: ClassicMemberMetadata | None = field(default=None)
    """Set while the member speaks the classic protocol: its session time-out and protocols."""
    epoch: int = 0
    previous_epoch: int = -1
    state: MemberState = MemberState.STABLE
    assigned: Held = field(default_factory=dict)
    revoking: Held = field(default_factory=dict)
    """What it was asked to give up. Still its own, until it reports that it let go."""

    @property
    def uses_classic(self) -> bool:
        return self.classic is not None

    def is_reconciled_to(self, assignment_epoch: int) -> bool:
        return self.state == MemberState.STABLE and self.epoch == assignment_epoch

    def assignment_epoch(self, topic_id: bytes, partition: int) -> int | None:
        """Since which epoch it owns the partition; None if it does not."""
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
    """Equal but for the epochs?"""
    return one.keys() == other.keys() and all(
        one[topic_id].keys() == other[topic_id].keys() for topic_id in one
    )
