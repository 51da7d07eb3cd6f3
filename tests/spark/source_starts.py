"""Where a query begins: random options of the source, and what they mean by the model."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from source_log import ModelPartition, ModelTopic, Row

EARLIEST, LATEST = -2, -1
BEYOND_MS = 2 * 3_600_000
"""Records are of the last hour."""
Place = tuple[str, int, int]
"""Topic, how often it was made anew, partition."""


@dataclass
class Reading:
    """Options, and the rows that they ask for."""

    options: dict[str, str]
    committed_only: bool
    begins: dict[Place, int] = field(default_factory=dict)
    """First offsets; partitions that came later are read from their start."""
    assigned: frozenset[tuple[str, int]] | None = None

    @property
    def has_headers(self) -> bool:
        return self.options.get("includeHeaders") == "true"

    def asks_for(self, topic: ModelTopic, row: Row) -> bool:
        if self.assigned is not None and (row.topic, row.partition) not in self.assigned:
            return False
        return row.offset >= self.begins.get((topic.name, topic.incarnation, row.partition), 0)

    def shown(self, row: Row) -> Row:
        return row if self.has_headers else row._replace(headers=None)

    def rows(self, topics: Sequence[ModelTopic], *, kept_only: bool = False) -> set[Row]:
        found: set[Row] = set()
        for topic in topics:
            rows = topic.kept_rows if kept_only else topic.rows
            visible = rows(committed_only=self.committed_only)
            found |= {self.shown(row) for row in visible if self.asks_for(topic, row)}
        return found


def random_reading(
    chance: random.Random,
    address: str,
    topics: Sequence[ModelTopic],
    *,
    pattern: str | None = None,
    may_assign: bool = True,
) -> Reading:
    committed_only = chance.random() < 0.5
    level = "read_committed" if committed_only else "read_uncommitted"
    options = {"kafka.bootstrap.servers": address, "kafka.isolation.level": level}
    options["includeHeaders"] = chance.choice(("true", "false"))
    if chance.random() < 0.5:
        options["minPartitions"] = str(chance.randint(1, 7))
    if not committed_only and chance.random() < 0.5:
        del options["kafka.isolation.level"]
    reading = Reading(options, committed_only)
    _choose_topics(chance, reading, topics, pattern, may_assign)
    _choose_start(chance, reading, topics)
    return reading


def _choose_topics(
    chance: random.Random,
    reading: Reading,
    topics: Sequence[ModelTopic],
    pattern: str | None,
    may_assign: bool,
) -> None:
    if pattern is not None:
        reading.options["subscribePattern"] = pattern
    elif may_assign and chance.random() < 0.3:
        places = [(topic.name, p) for topic in topics for p in range(len(topic.partitions))]
        chosen = chance.sample(places, chance.randint(1, len(places)))
        reading.assigned = frozenset(chosen)
        names = sorted({name for name, _ in chosen})
        spec = {name: sorted(p for other, p in chosen if other == name) for name in names}
        reading.options["assign"] = json.dumps(spec)
    else:
        reading.options["subscribe"] = ",".join(topic.name for topic in topics)


def _choose_start(chance: random.Random, reading: Reading, topics: Sequence[ModelTopic]) -> None:
    kinds = ["earliest", "default", "latest", "offsets"]
    if not any(topic.is_compacted for topic in topics):  # what a time means is not sure there
        kinds += ["timestamp", "timestamps"]
    kind = chance.choice(kinds)
    match kind:
        case "earliest":
            reading.options["startingOffsets"] = "earliest"
        case "latest":
            reading.options["startingOffsets"] = "latest"
            _begin_each(reading, topics, lambda place, end: end)
        case "default":  # of a stream
            _begin_each(reading, topics, lambda place, end: end)
        case "offsets":
            reading.options["startingOffsets"] = json.dumps(_random_starts(chance, reading, topics))
        case _:
            _choose_times(chance, reading, topics, one_for_all=kind == "timestamp")


def _places(
    reading: Reading, topics: Sequence[ModelTopic]
) -> list[tuple[ModelTopic, int, ModelPartition]]:
    return [
        (topic, index, partition)
        for topic in topics
        for index, partition in enumerate(topic.partitions)
        if reading.assigned is None or (topic.name, index) in reading.assigned
    ]


def _end(reading: Reading, partition: ModelPartition) -> int:
    return partition.stable_end() if reading.committed_only else partition.known_end()


def _begin_each(reading: Reading, topics: Sequence[ModelTopic], at) -> None:  # type: ignore[no-untyped-def]
    for topic, index, partition in _places(reading, topics):
        begin = at(partition, _end(reading, partition))
        reading.begins[topic.name, topic.incarnation, index] = begin


def _random_starts(
    chance: random.Random, reading: Reading, topics: Sequence[ModelTopic]
) -> dict[str, dict[str, int]]:
    spec: dict[str, dict[str, int]] = {}
    for topic, index, partition in _places(reading, topics):
        end = _end(reading, partition)
        value = chance.choice((EARLIEST, LATEST, chance.randint(partition.start, max(end, 0))))
        begin = {EARLIEST: 0, LATEST: end}.get(value, value)
        spec.setdefault(topic.name, {})[str(index)] = value
        reading.begins[topic.name, topic.incarnation, index] = begin
    return spec


def random_ends(
    chance: random.Random, reading: Reading, topics: Sequence[ModelTopic]
) -> dict[str, dict[str, int]]:
    """Of a batch: not before its start."""
    spec: dict[str, dict[str, int]] = {}
    for topic, index, partition in _places(reading, topics):
        begin = reading.begins.get((topic.name, topic.incarnation, index), 0)
        begin = max(begin, partition.start)
        end = max(_end(reading, partition), begin)
        value = chance.choice((LATEST, chance.randint(begin, end)))
        spec.setdefault(topic.name, {})[str(index)] = value
    return spec


def _choose_times(
    chance: random.Random, reading: Reading, topics: Sequence[ModelTopic], *, one_for_all: bool
) -> None:
    """A time that nothing has reached means the end, if asked so."""
    times = [row.timestamp_ms for topic in topics for row in topic.rows(committed_only=False)]
    one = chance.choice(times or [0]) + chance.choice((0, 1, BEYOND_MS))
    spec: dict[str, dict[str, int]] = {}
    for topic, index, partition in _places(reading, topics):
        time_ms = one if one_for_all else chance.choice(times or [0]) + chance.choice((0, 1))
        begin = _begin_at(reading, partition, time_ms)
        if begin is None:
            reading.options["startingOffsets"] = "earliest"
            reading.begins.clear()
            return
        spec.setdefault(topic.name, {})[str(index)] = time_ms
        reading.begins[topic.name, topic.incarnation, index] = begin
    if one_for_all:
        reading.options["startingTimestamp"] = str(one)
    else:
        reading.options["startingOffsetsByTimestamp"] = json.dumps(spec)
    reading.options["startingOffsetsByTimestampStrategy"] = "latest"


def _begin_at(reading: Reading, partition: ModelPartition, time_ms: int) -> int | None:
    """None: not sure, as a marker may come first, which has the time when it was written."""
    found, end = partition.first_at(time_ms), _end(reading, partition)
    marker = partition.first_marker()
    is_of_the_past = time_ms < int(time.time() * 1000)
    if is_of_the_past and marker is not None and (found is None or marker < found):
        return None
    return end if found is None else min(found, end)
