"""The offsets that a reset would set: the requested target, kept within the log's range."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from ottla.client.admin.admin import Admin
from ottla.client.admin.group_offsets import Committed
from ottla.client.admin.offsets import OffsetSpec
from ottla.client.errors import ClientError
from ottla.client.network.leaders import all_or_raise
from ottla.client.values import TopicPartition

NO_RECORD = -1
_NAMED = {"earliest": OffsetSpec.EARLIEST, "latest": OffsetSpec.LATEST}


@dataclass(frozen=True, slots=True)
class Target:
    kind: str
    """earliest, latest, current, time (value in ms), shift (value records on), offset or file."""
    value: int = 0


@dataclass(slots=True)
class PlannedOffset:
    group: str
    place: TopicPartition
    committed: int | None
    offset: int
    warning: str | None
    error: str | None = field(default=None)


class _Choice(NamedTuple):
    offset: int
    warning: str | None = None


async def plan_reset(
    admin: Admin,
    group: str,
    committed: Committed,
    places: Iterable[TopicPartition],
    target: Target,
    from_file: Mapping[TopicPartition, int],
) -> list[PlannedOffset]:
    wanted = sorted(set(places))
    now = {one: committed[one].offset for one in wanted if one in committed}
    if target.kind in _NAMED:
        chosen = await _offsets(admin, wanted, _NAMED[target.kind])
    elif target.kind == "time":
        chosen = await _at_time(admin, wanted, target.value)
    elif target.kind == "current":
        chosen = await _as_they_are(admin, wanted, now)
    elif target.kind == "shift":
        chosen = await _within_log(admin, _shifted(group, wanted, now, target.value))
    elif target.kind == "offset":
        chosen = await _within_log(admin, dict.fromkeys(wanted, target.value))
    else:
        chosen = await _within_log(admin, {one: from_file[one] for one in wanted})
    return [
        PlannedOffset(group, one, now.get(one), chosen[one].offset, chosen[one].warning)
        for one in wanted
    ]


async def _offsets(
    admin: Admin, wanted: Iterable[TopicPartition], at: int
) -> dict[TopicPartition, _Choice]:
    found = all_or_raise(await admin.list_offsets(dict.fromkeys(wanted, at)))
    return {one: _Choice(there.offset) for one, there in found.items()}


async def _at_time(
    admin: Admin, wanted: Iterable[TopicPartition], time_ms: int
) -> dict[TopicPartition, _Choice]:
    chosen = await _offsets(admin, wanted, time_ms)
    late = [one for one, choice in chosen.items() if choice.offset == NO_RECORD]
    ends = await _offsets(admin, late, OffsetSpec.LATEST)
    return chosen | {
        one: _Choice(end.offset, "no record is as late as that; the end is taken")
        for one, end in ends.items()
    }


async def _as_they_are(
    admin: Admin, wanted: Iterable[TopicPartition], now: Mapping[TopicPartition, int]
) -> dict[TopicPartition, _Choice]:
    ends = await _offsets(admin, [one for one in wanted if one not in now], OffsetSpec.LATEST)
    kept = {one: _Choice(offset) for one, offset in now.items()}
    return kept | {
        one: _Choice(end.offset, "nothing is committed there; the end is taken")
        for one, end in ends.items()
    }


def _shifted(
    group: str, wanted: Iterable[TopicPartition], now: Mapping[TopicPartition, int], by: int
) -> dict[TopicPartition, int]:
    for one in wanted:
        if one not in now:
            raise ClientError(
                f"group {group!r} has committed nothing for {one}, so there is no offset to shift; "
                "name partitions with --topic TOPIC:0,1, or use --to-offset there"
            )
    return {one: offset + by for one, offset in now.items()}


async def _within_log(
    admin: Admin, offsets: Mapping[TopicPartition, int]
) -> dict[TopicPartition, _Choice]:
    starts = await _offsets(admin, offsets, OffsetSpec.EARLIEST)
    ends = await _offsets(admin, offsets, OffsetSpec.LATEST)
    chosen: dict[TopicPartition, _Choice] = {}
    for one, offset in offsets.items():
        start, end = starts[one].offset, ends[one].offset
        if offset > end:
            chosen[one] = _Choice(end, f"{offset} is behind the end; {end} is taken")
        elif offset < start:
            chosen[one] = _Choice(start, f"{offset} is before the first record; {start} is taken")
        else:
            chosen[one] = _Choice(offset)
    return chosen
