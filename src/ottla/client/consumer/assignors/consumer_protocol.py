"""What classic members pack into the opaque bytes of JoinGroup and SyncGroup, and back.

Every client writes it alike, or groups of mixed clients could not be: see Kafka's
ConsumerProtocolSubscription and ConsumerProtocolAssignment.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from typing import Any, Final

from ottla.client.consumer.assignors.assignor import Assignment, Subscription
from ottla.client.values import TopicPartition
from ottla.protocol.codec import decoder, encoder
from ottla.protocol.embedded import consumer_protocol_assignment as assignments
from ottla.protocol.embedded import consumer_protocol_subscription as subscriptions
from ottla.protocol.errors import MalformedMessage

PROTOCOL_TYPE: Final = "consumer"
_VERSION: Final = struct.Struct(">h")
_NEWEST: Final = 3


def write_subscription(subscription: Subscription) -> bytes:
    """In the newest version: its readers skip what they do not know."""
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
    return _write(message)


def read_subscription(data: bytes, instance_id: str | None = None) -> Subscription:
    read = _read(subscriptions.ConsumerProtocolSubscription, data)
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
    return _write(message)


def read_assignment(data: bytes) -> Assignment:
    """No bytes at all stand for nothing assigned: a leader that knows no partitions."""
    if not data:
        return Assignment(())
    read = _read(assignments.ConsumerProtocolAssignment, data)
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


def _write(message: Any) -> bytes:
    chunks = encoder(type(message), _NEWEST)(message)
    return _VERSION.pack(_NEWEST) + b"".join(bytes(chunk) for chunk in chunks)  # type: ignore[arg-type]


def _read(message_class: Any, data: bytes) -> Any:
    if len(data) < _VERSION.size:
        raise MalformedMessage("a member's metadata are too short to hold their version")
    (version,) = _VERSION.unpack_from(data)
    if version < 0:
        raise MalformedMessage(f"a member's metadata have version {version}")
    # Versions yet to come begin with all the fields of those before them.
    return decoder(message_class, min(version, _NEWEST))(data, _VERSION.size)[0]
