"""A consumer group as ConsumerGroupDescribe shows it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from ottla.broker.coordinator.consumer.group import ConsumerGroup
from ottla.broker.coordinator.consumer.member import Member
from ottla.broker.metadata.image import MetadataImage
from ottla.protocol.messages import consumer_group_describe as message

_CLASSIC: Final = 0
_CONSUMER: Final = 1


def describe(group: ConsumerGroup, image: MetadataImage) -> message.DescribedGroup:
    return message.DescribedGroup(
        group_id=group.group_id,
        group_state=group.state.value,
        group_epoch=group.epoch,
        assignment_epoch=group.assignment_epoch,
        assignor_name=group.assignor,
        members=[
            _member(member, group.targets.get(member_id, {}), image)
            for member_id, member in group.members.items()
        ],
    )


def _member(
    member: Member, target: Mapping[bytes, Iterable[int]], image: MetadataImage
) -> message.Member:
    return message.Member(
        member_id=member.member_id,
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        member_epoch=member.epoch,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=sorted(member.topics),
        subscribed_topic_regex=member.regex,
        assignment=_assignment(member.assigned, image),
        target_assignment=_assignment(target, image),
        member_type=_CLASSIC if member.uses_classic else _CONSUMER,
    )


def _assignment(
    partitions: Mapping[bytes, Iterable[int]], image: MetadataImage
) -> message.Assignment:
    """Return the assignment without deleted topics, which have no name."""
    return message.Assignment(
        topic_partitions=[
            message.TopicPartitions(
                topic_id=topic_id,
                topic_name=image.topics_by_id[topic_id].name,
                partitions=sorted(indexes),
            )
            for topic_id, indexes in sorted(partitions.items())
            if topic_id in image.topics_by_id
        ]
    )
