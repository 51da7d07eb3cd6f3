"""Turns the brokers' descriptions of groups into values.

Classic members describe themselves in bytes that only they and their leader need to understand.
Members of protocol type "consumer" use a known format; the bytes of all others are skipped.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ottla.client.admin.group_values import CLASSIC, CONSUMER, DescribedGroup, GroupMember
from ottla.client.values import TopicPartition
from ottla.protocol.errors import MalformedMessage


def classic_group(found: Any, node_id: int) -> DescribedGroup:
    readable = found.protocol_type == CONSUMER
    members = [_classic_member(member, readable) for member in found.members]
    return DescribedGroup(
        group_id=found.group_id,
        type=CLASSIC,
        state=found.group_state,
        coordinator=node_id,
        protocol_type=found.protocol_type,
        assignor=found.protocol_data or None,
        members=tuple(sorted(members, key=lambda member: member.member_id)),
    )


def consumer_group(found: Any, node_id: int) -> DescribedGroup:
    members = [_consumer_member(member) for member in found.members]
    return DescribedGroup(
        group_id=found.group_id,
        type=CONSUMER,
        state=found.group_state,
        coordinator=node_id,
        protocol_type=CONSUMER,
        assignor=found.assignor_name or None,
        members=tuple(sorted(members, key=lambda member: member.member_id)),
        epoch=found.group_epoch,
        assignment_epoch=found.assignment_epoch,
    )


def _classic_member(member: Any, readable: bool) -> GroupMember:
    return GroupMember(
        member_id=member.member_id,
        instance_id=member.group_instance_id,
        client_id=member.client_id,
        host=member.client_host.removeprefix("/"),
        assignment=_assigned(member.member_assignment) if readable else (),
        topics=_subscribed(member.member_metadata) if readable else (),
    )


def _consumer_member(member: Any) -> GroupMember:
    return GroupMember(
        member_id=member.member_id,
        instance_id=member.instance_id,
        client_id=member.client_id,
        host=member.client_host.removeprefix("/"),
        assignment=_named(member.assignment),
        target=_named(member.target_assignment),
        epoch=member.member_epoch,
        rack=member.rack_id,
        topics=tuple(sorted(member.subscribed_topic_names)),
        pattern=member.subscribed_topic_regex or None,
    )


def _named(assignment: Any) -> tuple[TopicPartition, ...]:
    return _flat((topic.topic_name, topic.partitions) for topic in assignment.topic_partitions)


def _flat(topics: Iterable[tuple[str, Iterable[int]]]) -> tuple[TopicPartition, ...]:
    return tuple(sorted(TopicPartition(name, index) for name, part in topics for index in part))


def _assigned(data: bytes) -> tuple[TopicPartition, ...]:
    from ottla.protocol.consumer_protocol import read_assignment

    try:
        read = read_assignment(data)
    except MalformedMessage:  # one client's mistake must not hide the whole group
        return ()
    return _flat((topic.topic, topic.partitions) for topic in read.assigned_partitions)


def _subscribed(data: bytes) -> tuple[str, ...]:
    from ottla.protocol.consumer_protocol import read_subscription

    try:
        return tuple(sorted(read_subscription(data).topics))
    except MalformedMessage:
        return ()
