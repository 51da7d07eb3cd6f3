"""Plans a batch: spreads a limit over partitions, and assigns ranges to tasks. All pure.

The rules are those of Spark's Kafka source, with integers.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from ottla.client.values import TopicPartition
from ottla.spark.source.offsets import EARLIEST, LATEST, Offsets


@dataclass(frozen=True, slots=True)
class Range:
    """The offsets from `start` up to, not including, `until`; some may have no record."""

    partition: TopicPartition
    start: int
    until: int

    @property
    def size(self) -> int:
        return self.until - self.start


def spread(
    limit: int, start: Mapping[TopicPartition, int], end: Mapping[TopicPartition, int]
) -> Offsets:
    """Return how far to go from `start` towards `end` to read about `limit` offsets.

    Each partition gets its share, at least 1, so that none starves. So a batch may exceed the limit
    by the number of partitions.
    """
    sizes = {one: end[one] - start[one] for one in end if one in start and end[one] > start[one]}
    total = sum(sizes.values())
    reached = dict(end)
    for one, size in sizes.items():
        reached[one] = min(end[one], start[one] + max(1, limit * size // total))
    return reached


def is_enough(
    least: int, start: Mapping[TopicPartition, int], end: Mapping[TopicPartition, int]
) -> bool:
    return sum(max(0, end[one] - start.get(one, 0)) for one in end) >= least


def needs_earliest(start: Offsets, end: Offsets) -> set[TopicPartition]:
    """Return the partitions that are read from their earliest record: new ones, those that begin
    there, and those created again, whose end is before the start."""
    return {
        one
        for one, until in end.items()
        if (begin := start.get(one, EARLIEST)) == EARLIEST or begin > until
    }


def ranges_between(start: Offsets, end: Offsets, earliest: Offsets) -> list[Range]:
    """Return the non-empty ranges of all partitions in `end`. `earliest` has those that
    `needs_earliest` names; partitions that are not in it are gone."""
    from_earliest = needs_earliest(start, end)
    found = []
    for one in sorted(end):
        begin = earliest.get(one, end[one]) if one in from_earliest else start[one]
        if begin != LATEST and begin < end[one]:
            found.append(Range(one, begin, end[one]))
    return found


def split(
    ranges: Iterable[Range], min_partitions: int | None = None, max_records: int | None = None
) -> list[Range]:
    """Split ranges into tasks: none above `max_records`, about `min_partitions` in all.

    Large ranges are cut, small ones are left whole.
    """
    whole = [one for one in ranges if one.size > 0]
    if max_records is not None:
        whole = [part for one in whole for part in cut(one, -(-one.size // max_records))]
    if min_partitions is None or min_partitions <= len(whole):
        return whole
    total = sum(one.size for one in whole)
    small = [one for one in whole if _parts(one.size, total, min_partitions) == 1]
    left = max(1, min_partitions - len(small))
    large_total = total - sum(one.size for one in small)
    kept = set(small)
    return [
        part
        for one in whole
        for part in (cut(one, _parts(one.size, large_total, left)) if one not in kept else [one])
    ]


def cut(one: Range, parts: int) -> list[Range]:
    """Cut into this many parts of about the same size; no part is empty."""
    count = max(1, min(parts, one.size))
    places = [one.start + one.size * number // count for number in range(count + 1)]
    return [Range(one.partition, *pair) for pair in itertools.pairwise(places)]


def _parts(size: int, total: int, wanted: int) -> int:
    """Return its share of the wanted tasks, rounded, at least one."""
    return max(1, (2 * size * wanted + total) // (2 * total)) if total else 1
