"""Partitions by topic id, as members of the consumer protocol name them and back.

Classic members know topics only by name.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ottla.broker.metadata.image import MetadataImage
from ottla.protocol import consumer_protocol
from ottla.protocol.embedded.consumer_protocol_assignment import (
    ConsumerProtocolAssignment,
    TopicPartition,
)


def write_assignment(
    partitions: Mapping[bytes, Iterable[int]], version: int, image: MetadataImage
) -> bytes:
    """Encode an assignment; deleted topics are left out."""
    assignment = ConsumerProtocolAssignment(
        assigned_partitions=[
            TopicPartition(topic=image.topics_by_id[topic_id].name, partitions=sorted(indexes))
            for topic_id, indexes in partitions.items()
            if topic_id in image.topics_by_id
        ]
    )
    return consumer_protocol.write(assignment, version)


def by_topic_id(
    topics: Iterable[tuple[str, Iterable[int]]], image: MetadataImage
) -> dict[bytes, set[int]]:
    """Return partitions by the ids of their topics; unknown topics are left out."""
    found: dict[bytes, set[int]] = {}
    for name, indexes in topics:
        if name in image.topics:
            found.setdefault(image.topics[name].id, set()).update(indexes)
    return found
