"""Offsets of many partitions, and their JSON: {"topic": {"0": 23, "1": -1}}, as in Spark.

Spark keeps the JSON in its checkpoints and compares it as text, so it is always in the same order.
An offset of -2 stands for the earliest, -1 for the latest. Checkpoints also contain the ids of the
topics, {"@ids": {"topic": "6f1d..."}}, if known: only the id distinguishes a topic from another
that was created with its name while the query was away.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from ottla.client.values import TopicPartition
from ottla.protocol.uuids import ZERO_UUID

EARLIEST = -2
LATEST = -1

Offsets = dict[TopicPartition, int]

_PARTITIONS_EXAMPLE = '{"topicA":[0,1],"topicB":[0,1]}'
_OFFSETS_EXAMPLE = '{"topicA":{"0":23,"1":-1},"topicB":{"0":-2}}'
_TIMES_EXAMPLE = '{"topicA": {"0": 123456789, "1": 123456789}, "topicB": {"0": 123456789}}'


IDS = "@ids"
"""No topic can have this name."""


def to_json(
    offsets: Mapping[TopicPartition, int], ids: Mapping[str, bytes] | None = None
) -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = {}
    for one in sorted(offsets):
        found.setdefault(one.topic, {})[str(one.partition)] = offsets[one]
    known = {topic: (ids or {}).get(topic, ZERO_UUID) for topic in found}
    told = {topic: topic_id.hex() for topic, topic_id in known.items() if topic_id != ZERO_UUID}
    return {**found, IDS: told} if told else found


def from_json(given: Mapping[str, Mapping[str, Any]]) -> Offsets:
    return {
        TopicPartition(topic, int(index)): offset
        for topic, parts in given.items()
        if topic != IDS
        for index, offset in parts.items()
    }


def ids_from_json(given: Mapping[str, Mapping[str, Any]]) -> dict[str, bytes]:
    """Return topic ids by name; empty for checkpoints of Spark's own connector."""
    return {topic: bytes.fromhex(text) for topic, text in given.get(IDS, {}).items()}


def parse_offsets(text: str) -> Offsets:
    return _parse(text, EARLIEST, _OFFSETS_EXAMPLE)


def parse_times(text: str) -> Offsets:
    """Parse milliseconds since 1970 for each partition."""
    return _parse(text, 0, _TIMES_EXAMPLE)


def parse_partitions(text: str) -> frozenset[TopicPartition]:
    expected = ValueError(f"Expected e.g. {_PARTITIONS_EXAMPLE}, got {text}")
    given = _object(text, expected)
    if not all(isinstance(parts, list) and all(map(_is_whole, parts)) for parts in given.values()):
        raise expected
    return frozenset(
        TopicPartition(topic, index) for topic, parts in given.items() for index in parts
    )


def _parse(text: str, least: int, example: str) -> Offsets:
    expected = ValueError(f"Expected e.g. {example}, got {text}")
    given = _object(text, expected)
    if not all(
        isinstance(parts, dict)
        and all(map(_is_index, parts))
        and all(_is_whole(value, least) for value in parts.values())
        for parts in given.values()
    ):
        raise expected
    return from_json(given)


def _object(text: str, expected: ValueError) -> dict[str, Any]:
    try:
        given = json.loads(text)
    except ValueError:
        raise expected from None
    if not isinstance(given, dict):
        raise expected
    return given


def _is_index(text: str) -> bool:
    return text.isascii() and text.isdigit()


def _is_whole(value: object, least: int = 0) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= least


def show(partitions: Iterable[TopicPartition]) -> str:
    return ", ".join(str(one) for one in sorted(partitions))
