"""A hash of everything about a group's topics that its assignment depends on.

It is stored with the group's epoch. If it differs from the hash of the present metadata, topics
were created, deleted or extended, or replicas changed their racks: a new assignment is needed.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from typing import Final

from ottla.broker.coordinator.consumer.xxh3 import xxh3_64
from ottla.broker.metadata.image import MetadataImage, TopicImage

_INT: Final = struct.Struct("<i")
_LONG: Final = struct.Struct("<q")
_FORMAT: Final = b"\0"
_KEPT_UNDER: Final = "consumer group hash"


def metadata_hash(topics: Iterable[str], image: MetadataImage) -> int:
    """Return the hash of the existing topics, sorted by name; 0 if there are none."""
    existing = sorted(name for name in topics if name in image.topics)
    if not existing:
        return 0
    hashes = (_topic_hash(image.topics[name], image) for name in existing)
    return xxh3_64(b"".join(map(_LONG.pack, hashes)))


def _topic_hash(topic: TopicImage, image: MetadataImage) -> int:
    kept = topic.derived.get(_KEPT_UNDER)
    if kept is not None and kept[0] is image.brokers:
        return int(kept[1])
    parts = [_FORMAT, topic.id[7::-1], topic.id[:7:-1], _text(topic.name)]
    parts.append(_INT.pack(len(topic.partitions)))
    for index, partition in enumerate(topic.partitions.values()):
        parts.append(_INT.pack(index))
        for rack in _racks(partition.replicas, image):
            parts += (_INT.pack(len(rack)), _text(rack))
    value = xxh3_64(b"".join(parts))
    topic.derived[_KEPT_UNDER] = (image.brokers, value)
    return value


def _racks(replicas: Iterable[int], image: MetadataImage) -> list[str]:
    brokers = (image.brokers.get(replica) for replica in replicas)
    return sorted(broker.rack for broker in brokers if broker is not None and broker.rack)


def _text(text: str) -> bytes:
    units = text.encode("utf-16-le")
    return units + _INT.pack(len(units) // 2)
