"""The partitions to read: assigned ones, all of some topics, or all of topics by a pattern."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from ottla.client.values import TopicPartition
from ottla.spark.source.offsets import parse_partitions

WAYS = {"subscribe": "subscribe", "subscribepattern": "subscribePattern", "assign": "assign"}


@dataclass(frozen=True)
class TopicChoice:
    """Exactly one of these is set."""

    partitions: frozenset[TopicPartition] = frozenset()
    topics: tuple[str, ...] = ()
    pattern: str = ""

    @property
    def names(self) -> tuple[str, ...] | None:
        """The topics to ask for; None: all, to see which match."""
        if self.pattern:
            return None
        return self.topics or tuple(sorted({one.topic for one in self.partitions}))

    def wants(self, one: TopicPartition, *, is_internal: bool) -> bool:
        if self.pattern:
            return not is_internal and re.search(self.pattern, one.topic) is not None
        return one in self.partitions if self.partitions else one.topic in self.topics

    def __str__(self) -> str:
        if self.pattern:
            return f"topics that match {self.pattern!r}"
        return ", ".join(map(str, sorted(self.partitions) or self.topics))


def read_choice(given: Mapping[str, str]) -> TopicChoice:
    """Read the choice of topics; `given` has lower-case names."""
    chosen = [name for name in WAYS if name in given]
    if len(chosen) != 1:
        one = "Only one of" if chosen else "One of"
        can = "can" if chosen else "must"
        raise ValueError(
            f"{one} the following options {can} be specified for Kafka source: "
            f"{', '.join(WAYS.values())}. See the docs for more details."
        )
    (name,) = chosen
    value = given[name]
    if name == "assign":
        return _assigned(value)
    if name == "subscribe":
        return _subscribed(value)
    return _matched(value)


def _assigned(value: str) -> TopicChoice:
    partitions = parse_partitions(value) if value.strip().startswith("{") else frozenset()
    if not partitions:
        raise ValueError(
            f"No topicpartitions to assign as specified value for option 'assign' is '{value}'"
        )
    return TopicChoice(partitions=partitions)


def _subscribed(value: str) -> TopicChoice:
    topics = tuple(dict.fromkeys(name.strip() for name in value.split(",") if name.strip()))
    if not topics:
        raise ValueError(
            f"No topics to subscribe to as specified value for option 'subscribe' is '{value}'"
        )
    return TopicChoice(topics=topics)


def _matched(value: str) -> TopicChoice:
    pattern = value.strip()
    if not pattern:
        raise ValueError(
            "Pattern to subscribe is empty as specified value for option "
            f"'subscribePattern' is '{value}'"
        )
    try:
        re.compile(pattern)
    except re.error as error:
        raise ValueError(
            f"subscribePattern {pattern!r} is no regular expression: {error}"
        ) from None
    return TopicChoice(pattern=pattern)
