"""From a classic group of consumers to a consumer group, while its members go on working."""

from __future__ import annotations

from random import Random

from ottla.coordinator.classic.group import ClassicGroup
from ottla.coordinator.classic.member import Member as ClassicMember
from ottla.coordinator.classic.stored import group_key
from ottla.coordinator.consumer.embedded import (
    CONSUMER,
    by_topic_id,
    read_assignment,
    read_subscription,
)
from ottla.coordinator.consumer.group import ConsumerGroup
from ottla.coordinator.consumer.member import Held, Member
from ottla.coordinator.consumer.settings import ConsumerSettings
from ottla.coordinator.outbox import Now, Outbox
from ottla.metadata.image import MetadataImage
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
    """The consumer group that continues it; `KafkaError` if there can be none.

    The classic group itself is left as it is, so that whoever asked for this may still fail. After
    that it is to be dissolved with REBALANCE_IN_PROGRESS: its members then come to the new group.
    """
    _check(classic, settings)
    try:
        members = [_member(member, classic, image) for member in classic.members]
    except MalformedMessage as error:
        raise _refused(classic, f"the metadata of its members are malformed: {error}") from error
    outbox.append(group_key(classic.group_id), None)
    group = ConsumerGroup(classic.group_id, settings, random)
    group.image = image
    group.take_over(members, classic.generation, now, outbox)
    return group


def _check(classic: ClassicGroup, settings: ConsumerSettings) -> None:
    if not settings.may_upgrade:
        raise _refused(classic, "group.consumer.migration.policy does not allow it")
    if classic.protocol_type != CONSUMER:
        raise _refused(classic, f"its members are no consumers but {classic.protocol_type!r}")
    if len(classic.members) > settings.members_max:
        raise _refused(classic, "it has more members than group.consumer.max.size")


def _refused(classic: ClassicGroup, why: str) -> KafkaError:
    return KafkaError(
        ErrorCode.GROUP_ID_NOT_FOUND,
        f"classic group {classic.group_id} cannot become a consumer group: {why}",
    )


def _member(member: ClassicMember, classic: ClassicGroup, image: MetadataImage) -> Member:
    """What it works on now is what it has; its generation is its epoch."""
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
