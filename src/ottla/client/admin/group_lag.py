"""Computes how far a group is behind: in records, and as the age of the first unread record."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ottla.client.admin.first_records import first_record_times
from ottla.client.admin.group_offsets import Committed, committed_by
from ottla.client.admin.group_values import DescribedGroup, GroupMember, PartitionLag
from ottla.client.admin.groups import describe_group
from ottla.client.admin.link import AdminLink
from ottla.client.admin.offsets import OffsetSpec, find_offsets
from ottla.client.network.cluster import Cluster
from ottla.client.network.leaders import Answers
from ottla.client.values import OffsetAndTimestamp, TopicPartition
from ottla.protocol.errors import KafkaError

Lags = dict[str, list[PartitionLag] | KafkaError]


class GroupLagAdmin:
    _link: AdminLink

    async def group_lag(self, group_id: str) -> list[PartitionLag]:
        """Return the lag, in records and in ms, of each partition that a group committed or owns.

        >>> sum(partition.lag or 0 for partition in await admin.group_lag("ledger"))
        """
        cluster = self._link.cluster
        group = await describe_group(cluster, group_id)
        lag = (await _lag_of(cluster, {group_id: group}))[group_id]
        if isinstance(lag, KafkaError):
            raise lag
        return lag

    async def group_lags(
        self, groups: Iterable[DescribedGroup]
    ) -> dict[str, list[PartitionLag] | KafkaError]:
        """Return the same for several groups that are already described."""
        return await _lag_of(self._link.cluster, {group.group_id: group for group in groups})


async def _lag_of(cluster: Cluster, described: Mapping[str, DescribedGroup]) -> Lags:
    committed = await committed_by(cluster, described)
    everywhere: set[TopicPartition] = set()
    for group_id, group in described.items():
        found = committed[group_id]
        if not isinstance(found, KafkaError):
            everywhere |= found.keys() | _owners(group).keys()
    starts = await find_offsets(cluster, dict.fromkeys(everywhere, OffsetSpec.EARLIEST))
    ends = await find_offsets(cluster, dict.fromkeys(everywhere, OffsetSpec.LATEST))
    lags: Lags = {}
    for group_id, group in described.items():
        found = committed[group_id]
        if isinstance(found, KafkaError):
            lags[group_id] = found
        else:
            lags[group_id] = await _lag(cluster, group, found, starts, ends)
    return lags


async def _lag(
    cluster: Cluster,
    group: DescribedGroup,
    committed: Committed,
    starts: Answers[OffsetAndTimestamp],
    ends: Answers[OffsetAndTimestamp],
) -> list[PartitionLag]:
    now_ms = cluster.runtime.clock.wall_ms()
    owners = _owners(group)
    ranges = {
        one: (max(found.offset, start.offset), end.offset)
        for one, found in committed.items()
        if not isinstance(start := starts[one], KafkaError)
        and not isinstance(end := ends[one], KafkaError)
        and found.offset < end.offset
    }
    times = await first_record_times(cluster, ranges)
    lags: list[PartitionLag] = []
    for one in sorted(committed.keys() | owners.keys()):
        offset = committed[one].offset if one in committed else None
        lags.append(
            _partition(one, offset, starts[one], ends[one], times.get(one), owners.get(one), now_ms)
        )
    return lags


def _partition(
    one: TopicPartition,
    committed: int | None,
    start: OffsetAndTimestamp | KafkaError,
    end: OffsetAndTimestamp | KafkaError,
    time: int | KafkaError | None,
    owner: GroupMember | None,
    now_ms: int,
) -> PartitionLag:
    problems = [value for value in (end, start, time) if isinstance(value, KafkaError)]
    log_end = None if isinstance(end, KafkaError) else end.offset
    known = committed is not None and log_end is not None and not problems
    return PartitionLag(
        topic=one.topic,
        partition=one.partition,
        committed=committed,
        log_start=None if isinstance(start, KafkaError) else start.offset,
        log_end=log_end,
        lag=log_end - committed if log_end is not None and committed is not None else None,
        lag_ms=_age(time, now_ms) if known and not isinstance(time, KafkaError) else None,
        member=owner,
        error=str(problems[0]) if problems else None,
    )


def _age(time: int | None, now_ms: int) -> int | None:
    """Return the age of a record: 0 if there is no record, None if it has no timestamp. A
    timestamp ahead of this clock counts as 0."""
    if time is None:
        return 0
    return max(0, now_ms - time) if time >= 0 else None


def _owners(group: DescribedGroup) -> dict[TopicPartition, GroupMember]:
    return {one: member for member in group.members for one in member.assignment}
