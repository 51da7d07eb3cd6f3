"""What classic consumers pack into the opaque bytes of JoinGroup and SyncGroup, and back."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping
from typing import Final

from ottla.metadata.image import MetadataImage
from ottla.protocol.codec import decoder, encoder
from ottla.protocol.embedded.consumer_protocol_assignment import (
    ConsumerProtocolAssignment,
    TopicPartition,
)
from ottla.protocol.embedded.consumer_protocol_subscription import ConsumerProtocolSubscription
from ottla.protocol.errors import MalformedMessage

CONSUMER: Final = "consumer"
_VERSION: Final = struct.Struct(">h")
_HIGHEST: Final = 3


def version_of(data: bytes) -> int:
    if len(data) < _VERSION.size:
        raise MalformedMessage("a consumer's metadata are too short to hold their version")
    version = int(_VERSION.unpack_from(data)[0])
    if version < 0:
        raise MalformedMessage(f"a consumer's metadata have version {version}")
    # Versions yet to come begin with all the fields of those before them.
    return min(version, _HIGHEST)


def read_subscription(data: bytes) -> ConsumerProtocolSubscription:
    return decoder(ConsumerProtocolSubscription, version_of(data))(data, _VERSION.size)[0]


def read_assignment(data: bytes) -> ConsumerProtocolAssignment:
    """No bytes at all stand for nothing assigned: a member that never synced."""
    if not data:
        return ConsumerProtocolAssignment()
    return decoder(ConsumerProtocolAssignment, version_of(data))(data, _VERSION.size)[0]


def write_assignment(
    partitions: Mapping[bytes, Iterable[int]], version: int, image: MetadataImage
) -> bytes:
    """Classic members know topics by name only; those that no longer exist are left out."""
    assignment = ConsumerProtocolAssignment(
        assigned_partitions=[
            TopicPartition(topic=image.topics_by_id[topic_id].name, partitions=sorted(indexes))
            for topic_id, indexes in partitions.items()
            if topic_id in image.topics_by_id
        ]
    )
    chunks = encoder(ConsumerProtocolAssignment, version)(assignment)
    return _VERSION.pack(version) + b"".join(bytes(chunk) for chunk in chunks)  # type: ignore[arg-type]


def by_topic_id(
    topics: Iterable[tuple[str, Iterable[int]]], image: MetadataImage
) -> dict[bytes, set[int]]:
    found: dict[bytes, set[int]] = {}
    for name, indexes in topics:
        if name in image.topics:
            found.setdefault(image.topics[name].id, set()).update(indexes)
    return found
