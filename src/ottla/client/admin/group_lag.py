"""How far a group is behind: in records, and in the age of the first one that it has not read."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from ottla.client.admin.admin import EARLIEST, LATEST
from ottla.client.admin.first_records import first_record_times
from ottla.client.admin.group_offsets import GroupOffsets
from ottla.client.admin.group_values import Committed, DescribedGroup, GroupMember
from ottla.client.admin.values import OffsetAt
from ottla.client.network.cluster import Cluster
from ottla.client.network.leaders import Answers, log_offsets
from ottla.client.values import TopicPartition
from ottla.protocol.errors import KafkaError


class PartitionLag(NamedTuple):
    """A partition of a group. What cannot be told now is None, and `error` says why."""

    topic: str
    partition: int
    committed: int | None
    log_start: int | None
    log_end: int | None
    lag: int | None
    lag_ms: int | None
    """The age of the first record not committed; 0 when there is none."""
    member: GroupMember | None
    error: str | None


async def lag_of(
    cluster: Cluster, groups: Iterable[DescribedGroup], now_ms: int
) -> dict[str, list[PartitionLag] | KafkaError]:
    """For each group the partitions that it has committed, and those that its members own."""
    described = {group.group_id: group for group in groups}
    committed = await GroupOffsets(cluster).committed_by(described)
    everywhere: set[TopicPartition] = set()
    for group_id, group in described.items():
        found = committed[group_id]
        if not isinstance(found, KafkaError):
            everywhere |= found.keys() | _owners(group).keys()
    starts = await log_offsets(cluster, everywhere, EARLIEST)
    ends = await log_offsets(cluster, everywhere, LATEST)
    lags: dict[str, list[PartitionLag] | KafkaError] = {}
    for group_id, group in described.items():
        found = committed[group_id]
        if isinstance(found, KafkaError):
            lags[group_id] = found
        else:
            lags[group_id] = await _lag(cluster, group, found, starts, ends, now_ms)
    return lags


async def _lag(
    cluster: Cluster,
    group: DescribedGroup,
    committed: Mapping[TopicPartition, Committed],
    starts: Answers[OffsetAt],
    ends: Answers[OffsetAt],
    now_ms: int,
) -> list[PartitionLag]:
    owners = _owners(group)
    ranges = {
        one: (max(found.offset, start.offset), end.offset)
        for one, found in committed.items()
        if isinstance(start := starts[one], OffsetAt)
        and isinstance(end := ends[one], OffsetAt)
        and found.offset < end.offset
    }
    times = await first_record_times(cluster, ranges)
    return [
        _partition(
            one, committed.get(one), starts[one], ends[one], times.get(one), owners.get(one), now_ms
        )
        for one in sorted(committed.keys() | owners.keys())
    ]


def _partition(
    one: TopicPartition,
    committed: Committed | None,
    start: OffsetAt | KafkaError,
    end: OffsetAt | KafkaError,
    time: int | KafkaError | None,
    owner: GroupMember | None,
    now_ms: int,
) -> PartitionLag:
    problems = [value for value in (end, start, time) if isinstance(value, KafkaError)]
    log_end = end.offset if isinstance(end, OffsetAt) else None
    offset = committed.offset if committed else None
    known = offset is not None and log_end is not None and not problems
    return PartitionLag(
        topic=one.topic,
        partition=one.partition,
        committed=offset,
        log_start=start.offset if isinstance(start, OffsetAt) else None,
        log_end=log_end,
        lag=log_end - offset if log_end is not None and offset is not None else None,
        lag_ms=_age(time, now_ms) if known and not isinstance(time, KafkaError) else None,
        member=owner,
        error=str(problems[0]) if problems else None,
    )


def _age(time: int | None, now_ms: int) -> int | None:
    """None for a record without a time. A clock ahead of ours is no lag."""
    if time is None:
        return 0
    return max(0, now_ms - time) if time >= 0 else None


def _owners(group: DescribedGroup) -> dict[TopicPartition, GroupMember]:
    return {one: member for member in group.members for one in member.assignment}
