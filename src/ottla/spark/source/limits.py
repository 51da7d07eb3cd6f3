"""Where to begin and where to end, from the options: an end of the log, offsets, or times.

The precedence is Spark's: one time for all, then times by partition, then offsets.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from ottla.spark.source.offsets import EARLIEST, LATEST, Offsets, parse_offsets, parse_times

Strategy = Literal["error", "latest"]


@dataclass(frozen=True)
class AtEnd:
    """The same end of every log: EARLIEST or LATEST."""

    place: int


@dataclass(frozen=True)
class AtOffsets:
    """An offset may also be EARLIEST or LATEST."""

    offsets: Offsets


@dataclass(frozen=True)
class AtTimes:
    """The first record at or after a time, by partition."""

    times: Offsets


@dataclass(frozen=True)
class AtTime:
    time_ms: int


Limit = AtEnd | AtOffsets | AtTimes | AtTime


def read_limit(
    options: Mapping[str, str], side: Literal["starting", "ending"], default: int
) -> Limit:
    """Read the limit of one side; `options` have lower-case names."""
    time = options.get(f"{side}timestamp")
    if time is not None:
        return AtTime(_time(time))
    times = options.get(f"{side}offsetsbytimestamp")
    if times is not None:
        return AtTimes(parse_times(times.strip()))
    offsets = options.get(f"{side}offsets", "").strip()
    ends = {"": default, "earliest": EARLIEST, "latest": LATEST}
    if offsets.lower() in ends:
        return AtEnd(ends[offsets.lower()])
    return AtOffsets(parse_offsets(offsets))


def _time(text: str) -> int:
    try:
        time = int(text.strip())
    except ValueError:
        raise ValueError(f"Expected a single long value, got {text}") from None
    if time < 0:
        raise ValueError(f"a timestamp is in milliseconds since 1970 and not below 0, got {text}")
    return time


def check_batch(starting: Limit, ending: Limit) -> None:
    """Refuse limits that a batch query cannot start or end at."""
    if starting == AtEnd(LATEST):
        raise ValueError("starting offset can't be latest for batch queries on Kafka")
    if ending == AtEnd(EARLIEST):
        raise ValueError("ending offset can't be earliest for batch queries on Kafka")
    for limit, place, words in (
        (starting, LATEST, "startingOffsets for {} can't be latest for batch queries on Kafka"),
        (ending, EARLIEST, "ending offset for {} can't be earliest for batch queries on Kafka"),
    ):
        for one, offset in limit.offsets.items() if isinstance(limit, AtOffsets) else ():
            if offset == place:
                raise ValueError(words.format(one))
    _check_order(starting, ending)


def _check_order(starting: Limit, ending: Limit) -> None:
    if isinstance(starting, AtOffsets) and isinstance(ending, AtOffsets):
        first, last, what = starting.offsets, ending.offsets, "offset"
    elif isinstance(starting, AtTimes) and isinstance(ending, AtTimes):
        first, last, what = starting.times, ending.times, "timestamp"
    else:
        return
    if first.keys() != last.keys():
        names = [", ".join(map(str, sorted(side))) for side in (first, last)]
        raise ValueError(
            "The specified start offset and end offset should have the same topic-partitions. "
            f"Topic-partitions for start offset: {names[0]}, "
            f"topic-partitions for end offset: {names[1]}."
        )
    for one, begin in first.items():
        if begin > last[one] >= 0:
            raise ValueError(
                f"The specified start {what} {begin} is greater than the end {what} {last[one]} "
                f"for topic {one.topic} partition {one.partition}."
            )
