"""Converts a consumer group whose members all use the classic protocol to a classic group."""

from __future__ import annotations

from collections.abc import Collection

from ottla.broker.coordinator.classic.conversion import adopt
from ottla.broker.coordinator.classic.group import ClassicGroup
from ottla.broker.coordinator.classic.member import Member as ClassicMember
from ottla.broker.coordinator.classic.rebalancing import rebalance
from ottla.broker.coordinator.consumer.group import ConsumerGroup
from ottla.broker.coordinator.consumer.member import Member
from ottla.broker.coordinator.consumer.timers import cancel_timers
from ottla.broker.coordinator.consumer.topic_names import write_assignment
from ottla.broker.coordinator.consumer.writing import write_tombstones
from ottla.broker.coordinator.outbox import Now, Outbox
from ottla.protocol.consumer_protocol import read_version


def would_downgrade(group: ConsumerGroup, leaving: Collection[Member]) -> bool:
    """True if only classic members would remain."""
    gone = {member.member_id for member in leaving}
    staying = [member for id_, member in group.members.items() if id_ not in gone]
    return (
        bool(staying)
        and any(not member.uses_classic for member in leaving)
        and _can_be_classic(group, staying)
    )


def can_downgrade(group: ConsumerGroup) -> bool:
    """True if all members could be those of a classic group."""
    return _can_be_classic(group, group.members.values())


def _can_be_classic(group: ConsumerGroup, members: Collection[Member]) -> bool:
    return (
        all(member.uses_classic for member in members)
        and group.settings.may_downgrade
        and len(members) <= group.settings.classic.members_max
    )


def downgrade(group: ConsumerGroup, reason: str | None, now: Now, outbox: Outbox) -> None:
    """Make a classic group the successor; each member gets its last target as assignment. Without
    a reason it is not rebalanced: members keep their assignments."""
    members, targets, image = list(group.members.values()), dict(group.targets), group.image

    def assignment_of(member: ClassicMember, metadata: bytes) -> bytes:
        return write_assignment(targets.get(member.member_id, {}), read_version(metadata), image)

    for member in members:
        cancel_timers(group, member.member_id, outbox)
    write_tombstones(group, outbox)
    classic = ClassicGroup(group.group_id, group.settings.classic, group.random)
    adopt(classic, map(_classic, members), group.epoch, assignment_of, now, outbox)
    if reason is not None:
        rebalance(classic, reason, now, outbox)
    group.successor = classic


def _classic(member: Member) -> ClassicMember:
    assert member.classic is not None
    return ClassicMember(
        member.member_id,
        instance_id=member.instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        session_timeout_ms=member.classic.session_timeout_ms,
        protocols={one.name: one.metadata for one in member.classic.supported_protocols},
    )
