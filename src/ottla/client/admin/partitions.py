"""Partitions as requests name them: by topic, then by index."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TypeVar

from ottla.client.values import TopicPartition
from ottla.protocol.errors import KafkaError

T = TypeVar("T")

Outcome = dict[TopicPartition, KafkaError | None]
"""For each partition None, or the error that refused it."""


def by_topic(values: Mapping[TopicPartition, T]) -> dict[str, dict[int, T]]:
    """Return the same values nested and sorted as requests name them: topic, then partition."""
    topics: dict[str, dict[int, T]] = {}
    for (topic, index), value in sorted(values.items(), key=lambda item: item[0]):
        topics.setdefault(topic, {})[index] = value
    return topics


def indexes_by_topic(partitions: Iterable[TopicPartition]) -> dict[str, list[int]]:
    return {topic: list(parts) for topic, parts in by_topic(dict.fromkeys(partitions, 0)).items()}
