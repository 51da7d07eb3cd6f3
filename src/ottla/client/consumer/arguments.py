"""Checks the arguments that applications pass to a consumer, before they are used.

A wrong type raises a `TypeError` that says what to write, instead of an error deep inside.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from ottla.client.errors import IllegalState
from ottla.client.values import OffsetAndMetadata, TopicPartition

if TYPE_CHECKING:
    from ottla.client.consumer.groups.rebalance_listener import RebalanceListener

LISTENER_METHODS = ("on_partitions_revoked", "on_partitions_assigned", "on_partitions_lost")


def topic_names(topics: object) -> frozenset[str]:
    if isinstance(topics, str):
        raise IllegalState(f"subscribe() takes a list of topics: write [{topics!r}]")
    if not isinstance(topics, Iterable):
        raise TypeError(f"subscribe() takes a list of topics, not {topics!r}")
    return frozenset(map(topic_name, topics))


def topic_name(name: object) -> str:
    if not isinstance(name, str):
        raise TypeError(f"{name!r} is not the name of a topic: that is a str")
    if not name:
        raise ValueError("the name of a topic cannot be empty")
    return name


def matchable(pattern: str | re.Pattern[str]) -> re.Pattern[str]:
    if not isinstance(pattern, str | re.Pattern):
        raise TypeError(f"subscribe(pattern=...) takes a str or a re.Pattern, not {pattern!r}")
    try:
        return re.compile(pattern)
    except re.error as error:
        raise ValueError(f"subscribe(pattern={pattern!r}): {error}") from error


def checked_listener(listener: RebalanceListener | None) -> RebalanceListener | None:
    if listener is None:
        return None
    lacks = [name for name in LISTENER_METHODS if not callable(getattr(listener, name, None))]
    if lacks or isinstance(listener, type):
        why = f"it has no {lacks[0]}" if lacks else "it is a class"
        raise TypeError(f"listener={listener!r} is not a RebalanceListener: {why}")
    return listener


# Partitions and offsets


def partition(one: object) -> TopicPartition:
    """Return a `TopicPartition`, also from a plain tuple."""
    if not _is_partition(one):
        raise TypeError(f'{one!r} is not a partition: write TopicPartition("topic", 0)')
    found = TopicPartition(*one)  # type: ignore[misc]
    topic_name(found.topic)
    if found.partition < 0:
        raise ValueError(f"{one!r}: partitions are numbered from 0")
    return found


def partitions(many: object) -> list[TopicPartition]:
    if not isinstance(many, Iterable) or isinstance(many, str) or _is_partition(many):
        raise TypeError(f'{many!r} is not a list of partitions: write [TopicPartition("topic", 0)]')
    return list(map(partition, many))


def flat(given: Iterable[object]) -> list[TopicPartition]:
    """Return one list from partitions and lists of partitions."""
    found: list[TopicPartition] = []
    for one in given:
        if _is_partition(one) or not isinstance(one, Iterable) or isinstance(one, str):
            found.append(partition(one))
        else:
            found.extend(partitions(one))
    return found


def _is_partition(one: object) -> bool:
    return (
        isinstance(one, tuple) and len(one) == 2 and isinstance(one[0], str) and _is_number(one[1])
    )


def by_partition(given: object, what: str) -> dict[TopicPartition, Any]:
    if not isinstance(given, Mapping):
        raise TypeError(f"{given!r} is not a dict from partitions to {what}")
    return {partition(one): value for one, value in given.items()}


def offset(one: TopicPartition, at: object) -> OffsetAndMetadata:
    found = OffsetAndMetadata(at) if _is_number(at) else at  # type: ignore[arg-type]
    if not isinstance(found, OffsetAndMetadata) or not _is_number(found.offset):
        raise TypeError(f"{one}: {at!r} is not an offset: that is an int or an OffsetAndMetadata")
    if found.offset < 0:
        raise ValueError(f"{one}: {found.offset} is not an offset: they begin at 0")
    return found


def time_ms(one: TopicPartition, at: object) -> int:
    if not _is_number(at):
        raise TypeError(f"{one}: {at!r} is not a time: that is an int, milliseconds since 1970")
    if at < 0:  # type: ignore[operator]
        raise ValueError(f"{one}: {at} ms is not a time: it must not be negative")
    return at  # type: ignore[return-value]


# Timeouts and limits


def timeout_s(timeout_ms: float) -> float:
    if not isinstance(timeout_ms, int | float) or isinstance(timeout_ms, bool):
        raise TypeError(
            f"timeout_ms={timeout_ms!r} is not a number of milliseconds; "
            'to wait for as long as it takes, give float("inf")'
        )
    return timeout_ms / 1000


def checked_limit(max_records: int | None) -> int | None:
    if max_records is not None and not _is_number(max_records):
        raise TypeError(f"max_records={max_records!r} is not an int")
    if max_records is not None and max_records < 1:
        raise ValueError(f"max_records={max_records}: it must be at least 1")
    return max_records


def _is_number(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)
