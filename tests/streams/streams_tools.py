"""What the tests of running applications need: records in, records out."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from ottla import TopicPartition
from ottla.blocking import Admin, Consumer, Producer

_HOUR_MS = 3_600_000
T0 = (int(time.time() * 1000) // _HOUR_MS - 3) * _HOUR_MS + 40_000
"""A moment to count from, in milliseconds: not so old that a broker deletes it, and 20 s before the
start of a minute."""

READ_MAX_S = 30


class In(NamedTuple):
    topic: str
    key: str | None
    value: Any
    """Bytes as they are, text as UTF-8, other things as JSON, None as a tombstone."""
    at: int = T0
    headers: Sequence[tuple[str, bytes]] = ()
    partition: int | None = None


class Out(NamedTuple):
    key: bytes | None
    value: bytes | None
    at: int
    headers: dict[str, bytes | None]

    @property
    def text(self) -> str | None:
        return None if self.key is None else self.key.decode()

    @property
    def json(self) -> Any:
        return None if self.value is None else json.loads(self.value)

    @property
    def number(self) -> int | None:
        return None if self.value is None else int.from_bytes(self.value, "big", signed=True)


def create(bootstrap: str, *topics: str, partitions: int = 2) -> None:
    with Admin(bootstrap_servers=bootstrap) as admin:
        for topic in topics:
            admin.create_topic(topic, partitions=partitions)


def send(bootstrap: str, records: Iterable[In]) -> None:
    with Producer(bootstrap_servers=bootstrap) as producer:
        for one in records:
            producer.send(
                one.topic,
                encoded(one.value),
                None if one.key is None else one.key.encode(),
                timestamp_ms=one.at,
                headers=list(one.headers),
                partition=one.partition,
            )
        producer.flush()


def encoded(value: Any) -> bytes | None:
    if value is None or isinstance(value, bytes):
        return value
    return value.encode() if isinstance(value, str) else json.dumps(value).encode()


def committed(bootstrap: str, topic: str) -> list[Out]:
    """All that a `read_committed` reader finds in a topic, in the order of each partition."""
    found: list[Out] = []
    deadline = time.monotonic() + READ_MAX_S
    options: dict[str, Any] = {
        "bootstrap_servers": bootstrap,
        "group_id": None,
        "isolation_level": "read_committed",
        "auto_offset_reset": "earliest",
    }
    with Admin(bootstrap_servers=bootstrap) as admin:
        if topic not in admin.list_topics(internal=True):
            return []
    with Consumer(**options) as consumer:
        numbers = consumer.partitions_for_topic(topic)
        consumer.assign(TopicPartition(topic, number) for number in numbers)
        ends = consumer.end_offsets(consumer.assignment())
        while any(consumer.position(one) < end for one, end in ends.items()):
            assert time.monotonic() < deadline, f"{topic} cannot be read to its end"
            for records in consumer.poll(timeout_ms=200).values():
                found += [
                    Out(one.key, one.value, one.timestamp, dict(one.headers)) for one in records
                ]
    return found


def by_key(records: Iterable[Out]) -> dict[str | None, list[Out]]:
    made: dict[str | None, list[Out]] = {}
    for one in records:
        made.setdefault(one.text, []).append(one)
    return made
