"""Places in a partition as people name them: by offset, by time, or by distance from the end.

earliest            the first record there is
latest              behind the last one
1234                that offset
-10                 ten records before the end
@1700000000000      the first record at or after that time, in ms since the epoch
2026-01-31T12:00    ... at that time (the machine's time zone unless it names one)
90s 15m 2h 7d       ... that long ago
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from ottla.client.admin.admin import Admin
    from ottla.client.network.metadata import Topic

HELP = "earliest, latest, an offset, -N (before the end), @MS, an ISO time, or how long ago (15m)"

_DURATION = re.compile(r"(\d+)(ms|s|m|h|d|w)")
_UNIT_MS = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000, "w": 604_800_000}
_NAMES = {
    "earliest": "earliest",
    "beginning": "earliest",
    "start": "earliest",
    "latest": "latest",
    "end": "latest",
}


@dataclass(frozen=True, slots=True)
class Moment:
    kind: str
    """earliest, latest, offset, tail (value records before the end) or time (value in ms)."""
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
    """Milliseconds since the epoch."""
    if text[:1] == "@" and text[1:].isdigit():
        return int(text[1:])
    if parts := _DURATION.fullmatch(text):
        return now_ms - int(parts[1]) * _UNIT_MS[parts[2]]
    try:
        return int(datetime.fromisoformat(text).timestamp() * 1000)
    except ValueError:
        raise typer.BadParameter(f"{text!r} is none of: {HELP}", param_hint=option) from None


async def resolve(
    admin: Admin, topic: str, partitions: Iterable[int], moment: Moment, *, isolation: int = 0
) -> dict[int, int]:
    """The offset that the moment means in each partition; beyond the last record it is the end."""
    from ottla.client.admin.offsets import OffsetSpec

    async def find(indexes: list[int], at: int) -> dict[int, int]:
        return await _offsets(admin, topic, dict.fromkeys(indexes, at), isolation)

    wanted = list(partitions)
    if moment.kind == "offset":
        return dict.fromkeys(wanted, moment.value)
    if moment.kind == "time":
        offsets = await find(wanted, moment.value)
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
    """The chosen partitions, all if none is; `TopicMissing` for one that is not there."""
    from ottla.client.errors import TopicMissing

    there = [partition.index for partition in topic.partitions]
    for index in chosen or ():
        if index not in there:
            raise TopicMissing(topic.name, index)
    return chosen or there


def parse_partitions(texts: list[str] | None) -> list[int] | None:
    """`--partition 0,3-5` options as numbers; None if there are none."""
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
