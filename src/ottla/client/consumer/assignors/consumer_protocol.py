"""Subscriptions and assignments of assignors, as the bytes of JoinGroup and SyncGroup."""

from __future__ import annotations

from collections.abc import Iterable

from ottla.client.consumer.assignors.assignor import Assignment, Subscription
from ottla.client.values import TopicPartition
from ottla.protocol import consumer_protocol
from ottla.protocol.embedded import consumer_protocol_assignment as assignments
from ottla.protocol.embedded import consumer_protocol_subscription as subscriptions


def write_subscription(subscription: Subscription) -> bytes:
    """Encode in the newest version: older readers skip the fields they do not know."""
    message = subscriptions.ConsumerProtocolSubscription(
        topics=sorted(subscription.topics),
        user_data=subscription.user_data,
        owned_partitions=[
            subscriptions.TopicPartition(topic=topic, partitions=indexes)
            for topic, indexes in _by_topic(sorted(subscription.owned)).items()
        ],
        generation_id=subscription.generation,
        rack_id=subscription.rack,
    )
    return consumer_protocol.write(message)


def read_subscription(data: bytes, instance_id: str | None = None) -> Subscription:
    read = consumer_protocol.read_subscription(data)
    return Subscription(
        topics=tuple(read.topics),
        user_data=None if read.user_data is None else bytes(read.user_data),
        owned=_flat((one.topic, one.partitions) for one in read.owned_partitions),
        generation=read.generation_id,
        rack=read.rack_id or None,
        instance_id=instance_id,
    )


def write_assignment(assignment: Assignment) -> bytes:
    message = assignments.ConsumerProtocolAssignment(
        assigned_partitions=[
            assignments.TopicPartition(topic=topic, partitions=indexes)
            for topic, indexes in _by_topic(assignment.partitions).items()
        ],
        user_data=assignment.user_data,
    )
    return consumer_protocol.write(message)


def read_assignment(data: bytes) -> Assignment:
    """Decode an assignment. Empty bytes mean no partitions, as from a leader that knows none."""
    read = consumer_protocol.read_assignment(data)
    return Assignment(
        _flat((one.topic, one.partitions) for one in read.assigned_partitions),
        None if read.user_data is None else bytes(read.user_data),
    )


def _by_topic(partitions: Iterable[TopicPartition]) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for one in partitions:
        found.setdefault(one.topic, []).append(one.partition)
    return found


def _flat(topics: Iterable[tuple[str, Iterable[int]]]) -> tuple[TopicPartition, ...]:
    return tuple(TopicPartition(topic, index) for topic, indexes in topics for index in indexes)
