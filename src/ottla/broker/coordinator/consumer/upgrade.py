"""Converts a classic group of consumers to a consumer group, while its members go on working."""

from __future__ import annotations

from random import Random

from ottla.broker.coordinator.classic.group import ClassicGroup
from ottla.broker.coordinator.classic.member import Member as ClassicMember
from ottla.broker.coordinator.classic.stored import group_key
from ottla.broker.coordinator.consumer.group import ConsumerGroup
from ottla.broker.coordinator.consumer.member import Held, Member
from ottla.broker.coordinator.consumer.members import loaded
from ottla.broker.coordinator.consumer.settings import ConsumerSettings
from ottla.broker.coordinator.consumer.subscriptions import current_hash
from ottla.broker.coordinator.consumer.topic_names import by_topic_id
from ottla.broker.coordinator.consumer.writing import (
    write_assignment_epoch,
    write_current,
    write_epoch,
    write_member,
    write_target,
)
from ottla.broker.coordinator.outbox import Now, Outbox
from ottla.broker.metadata.image import MetadataImage
from ottla.protocol.consumer_protocol import PROTOCOL_TYPE, read_assignment, read_subscription
from ottla.protocol.coordinator_records.consumer_group_member_metadata import (
    ClassicMemberMetadata,
    ClassicProtocol,
)
from ottla.protocol.errors import ErrorCode, KafkaError, MalformedMessage


def upgraded(
    classic: ClassicGroup,
    settings: ConsumerSettings,
    random: Random,
    image: MetadataImage,
    now: Now,
    outbox: Outbox,
) -> ConsumerGroup:
    """Return the consumer group that continues the classic one; raise `KafkaError` if that is
    impossible.

    The classic group is not changed, so that the caller may still fail. After success the caller
    must dissolve it with REBALANCE_IN_PROGRESS: its members then rejoin, in the new group.
    """
    _check(classic, settings)
    try:
        members = [_member(member, classic, image) for member in classic.members]
    except MalformedMessage as error:
        raise _refused(classic, f"the metadata of its members are malformed: {error}") from error
    outbox.append(group_key(classic.group_id), None)
    group = ConsumerGroup(classic.group_id, settings, random)
    group.image = image
    _take_over(group, members, classic.generation, now, outbox)
    return group


def _take_over(
    group: ConsumerGroup, members: list[Member], generation: int, now: Now, outbox: Outbox
) -> None:
    """Take over the members of a classic group as a stable group, and write all records."""
    for member in members:
        write_member(group, member, outbox)
    write_epoch(group, generation, current_hash(group), outbox)
    for member in members:
        held = {topic_id: frozenset(indexes) for topic_id, indexes in member.assigned.items()}
        write_target(group, member.member_id, held, outbox)
    write_assignment_epoch(group, 0, outbox)
    for member in members:
        write_current(group, member, outbox)
    loaded(group, now, outbox)


def _check(classic: ClassicGroup, settings: ConsumerSettings) -> None:
    if not settings.may_upgrade:
        raise _refused(classic, "group.consumer.migration.policy does not allow it")
    if classic.protocol_type != PROTOCOL_TYPE:
        raise _refused(classic, f"its members are no consumers but {classic.protocol_type!r}")
    if len(classic.members) > settings.members_max:
        raise _refused(classic, "it has more members than group.consumer.max.size")


def _refused(classic: ClassicGroup, why: str) -> KafkaError:
    return KafkaError(
        ErrorCode.GROUP_ID_NOT_FOUND,
        f"classic group {classic.group_id} cannot become a consumer group: {why}",
    )


def _member(member: ClassicMember, classic: ClassicGroup, image: MetadataImage) -> Member:
    """Convert a classic member: its assignment stays, and the generation becomes its epoch."""
    protocol = classic.protocol_name
    if protocol not in member.protocols:
        protocol = next(iter(member.protocols))
    subscription = read_subscription(member.protocols[protocol])
    assignment = read_assignment(member.assignment)
    if assignment.user_data:
        raise _refused(classic, "its assignor tells members more than their partitions")
    held = by_topic_id(((t.topic, t.partitions) for t in assignment.assigned_partitions), image)
    assigned: Held = {
        topic_id: dict.fromkeys(indexes, classic.generation) for topic_id, indexes in held.items()
    }
    return Member(
        member.member_id,
        instance_id=member.instance_id,
        rack_id=subscription.rack_id,
        client_id=member.client_id,
        client_host=member.client_host,
        topics=frozenset(subscription.topics),
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        classic=ClassicMemberMetadata(
            session_timeout_ms=member.session_timeout_ms,
            supported_protocols=[
                ClassicProtocol(name=name, metadata=metadata)
                for name, metadata in member.protocols.items()
            ],
        ),
        epoch=classic.generation,
        previous_epoch=classic.generation,
        assigned=assigned,
    )
