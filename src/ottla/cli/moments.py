"""Positions in a partition as people name them: by offset, by time, or by distance from the end.

earliest            the first record
latest              after the last record
max-timestamp       the record with the largest timestamp
1234                that offset
-10                 ten records before the end
@1700000000000      the first record at or after that time, in ms since the epoch
2026-01-31T12:00    ... at that time (the machine's time zone unless it names one)
90s 15m 2h 7d       ... that long ago
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

import typer

from ottla.durations import SHORT, parse_ms

if TYPE_CHECKING:
    from ottla.client.admin.admin import Admin
    from ottla.client.network.metadata import Topic

HELP = (
    "earliest, latest, max-timestamp, an offset, -N (before the end), @MS, an ISO time, "
    "or how long ago (15m)"
)

_NAMES = {
    "earliest": "earliest",
    "beginning": "earliest",
    "start": "earliest",
    "latest": "latest",
    "end": "latest",
    "max-timestamp": "max-timestamp",
}


@dataclass(frozen=True, slots=True)
class Moment:
    kind: str
    """earliest, latest, max-timestamp, offset, tail (value records before the end) or time (ms)."""
    value: int = 0


def parse_moment(text: str, now_ms: int, option: str) -> Moment:
    text = text.strip()
    if name := _NAMES.get(text.lower()):
        return Moment(name)
    if text.isascii() and text.isdigit():
        return Moment("offset", int(text))
    if text[:1] == "-" and text[1:].isdigit():
        return Moment("tail", int(text[1:]))
    return Moment("time", parse_time(text, now_ms, option))


def parse_time(text: str, now_ms: int, option: str) -> int:
    """Parse a time into milliseconds since the epoch."""
    if text[:1] == "@" and text[1:].isdigit():
        return int(text[1:])
    if (ago_ms := parse_ms(text, SHORT, spaced=False)) is not None:
        return now_ms - ago_ms
    try:
        return int(datetime.fromisoformat(text).timestamp() * 1000)
    except ValueError:
        raise typer.BadParameter(f"{text!r} is none of: {HELP}", param_hint=option) from None


async def resolve(
    admin: Admin, topic: str, partitions: Iterable[int], moment: Moment, *, isolation: int = 0
) -> dict[int, int]:
    """Return the offset of the moment in each partition; the end if it is after the last record."""
    from ottla.client.admin.offsets import OffsetSpec

    async def find(indexes: list[int], at: int) -> dict[int, int]:
        return await _offsets(admin, topic, dict.fromkeys(indexes, at), isolation)

    wanted = list(partitions)
    if moment.kind == "offset":
        return dict.fromkeys(wanted, moment.value)
    if moment.kind == "time":
        offsets = await find(wanted, moment.value)
    elif moment.kind == "max-timestamp":
        offsets = await find(wanted, OffsetSpec.MAX_TIMESTAMP)
    elif moment.kind == "earliest":
        offsets = await find(wanted, OffsetSpec.EARLIEST)
    else:
        offsets = await find(wanted, OffsetSpec.LATEST)
    if moment.kind == "tail":
        starts = await find(wanted, OffsetSpec.EARLIEST)
        return {i: max(starts[i], offsets[i] - moment.value) for i in wanted}
    beyond = [index for index, offset in offsets.items() if offset < 0]
    if beyond:
        offsets |= await find(beyond, OffsetSpec.LATEST)
    return offsets


async def _offsets(
    admin: Admin, topic: str, at: Mapping[int, int], isolation: int
) -> dict[int, int]:
    from ottla.client.network.leaders import all_or_raise
    from ottla.client.values import TopicPartition

    found = await admin.list_offsets(
        {TopicPartition(topic, index): when for index, when in at.items()},
        isolation_level="read_committed" if isolation else "read_uncommitted",
    )
    return {one.partition: there.offset for one, there in all_or_raise(found).items()}


def now_ms() -> int:
    from ottla.runtime.clock import SystemClock

    return SystemClock().wall_ms()


def existing(topic: Topic, chosen: list[int] | None) -> list[int]:
    """Return the chosen partitions, else all; raise `TopicMissing` if one does not exist."""
    from ottla.client.errors import TopicMissing

    there = [partition.index for partition in topic.partitions]
    for index in chosen or ():
        if index not in there:
            raise TopicMissing(topic.name, index)
    return chosen or there


def parse_partitions(texts: list[str] | None) -> list[int] | None:
    """Parse `--partition 0,3-5` options into numbers; None if there are none."""
    if not texts:
        return None
    chosen: set[int] = set()
    for part in ",".join(texts).split(","):
        low, dash, high = part.strip().partition("-")
        if not low.isdigit() or (dash and not high.isdigit()):
            raise typer.BadParameter(
                f"{part!r} is no partition; write 0, 0,2 or 0-3", param_hint="--partition"
            )
        chosen.update(range(int(low), int(high if dash else low) + 1))
    return sorted(chosen)
