"""The output of `ottla groups describe`: as tables and as JSON."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ottla.cli.output import print_sentence, print_table
from ottla.client.admin.group_values import DescribedGroup, GroupMember, PartitionLag
from ottla.client.admin.partitions import indexes_by_topic
from ottla.client.values import TopicPartition
from ottla.durations import in_short


def summary(group: DescribedGroup) -> dict[str, Any]:
    return {
        "group": group.group_id,
        "type": group.type,
        "state": group.state,
        "protocol": group.protocol_type,
        "assignor": group.assignor,
        "coordinator": group.coordinator,
        "epoch": group.epoch,
        "assignment_epoch": group.assignment_epoch,
        "member_count": len(group.members),
        "error": None,
    }


def offsets_entry(lags: list[PartitionLag]) -> dict[str, Any]:
    longest_ms = _longest_ms(lags)
    return {
        "lag": _total(lags),
        "lag_seconds": None if longest_ms is None else longest_ms / 1000,
        "partitions": [
            {
                "topic": one.topic,
                "partition": one.partition,
                "committed": one.committed,
                "log_start": one.log_start,
                "log_end": one.log_end,
                "lag": one.lag,
                "lag_seconds": None if one.lag_ms is None else one.lag_ms / 1000,
                "member_id": one.member.member_id if one.member else None,
                "instance_id": one.member.instance_id if one.member else None,
                "client_id": one.member.client_id if one.member else None,
                "host": one.member.host if one.member else None,
                "error": one.error,
            }
            for one in lags
        ],
    }


def members_entry(group: DescribedGroup) -> dict[str, Any]:
    return {
        "members": [
            {
                "member_id": member.member_id,
                "instance_id": member.instance_id,
                "client_id": member.client_id,
                "host": member.host,
                "rack": member.rack,
                "epoch": member.epoch,
                "topics": list(member.topics),
                "pattern": member.pattern,
                "assignment": _places(member.assignment),
                "target": None if member.target is None else _places(member.target),
            }
            for member in group.members
        ]
    }


def _places(places: Iterable[TopicPartition]) -> list[dict[str, Any]]:
    return [one._asdict() for one in places]


def print_headline(group: DescribedGroup, lags: list[PartitionLag] | None) -> None:
    line = f"{group.group_id}  {group.type}, {group.state}, {len(group.members)} member(s)"
    if group.epoch is not None:
        line += f", epoch {group.epoch}"
    if lags:
        line += f", lag {_total(lags)} record(s)"
        if (longest_ms := _longest_ms(lags)) is not None:
            line += f" and {in_short(longest_ms)}"
    print_sentence(line)


def print_offsets(lags: list[PartitionLag]) -> None:
    columns = ("topic", "partition", "committed", "end", "lag", "lag time")
    print_table(
        (*columns, "member", "client", "host"),
        [
            (
                one.topic,
                one.partition,
                one.committed,
                one.log_end,
                one.lag,
                None if one.lag_ms is None else in_short(one.lag_ms),
                *(
                    (one.member.member_id, one.member.client_id, one.member.host)
                    if one.member
                    else (None,) * 3
                ),
            )
            for one in lags
        ],
        spare=("member", "host", "client"),
    )


def print_members(group: DescribedGroup) -> None:
    static = any(member.instance_id for member in group.members)
    epochs = group.epoch is not None
    print_table(
        (
            *("member", "client", "host"),
            *(("instance",) if static else ()),
            *(("epoch",) if epochs else ()),
            *("partitions", "assignment"),
            *(("to come",) if epochs else ()),
        ),
        [
            (
                *(member.member_id, member.client_id, member.host),
                *((member.instance_id,) if static else ()),
                *((member.epoch,) if epochs else ()),
                *(len(member.assignment), _shown(member.assignment)),
                *((_shown(_to_come(member)),) if epochs else ()),
            )
            for member in group.members
        ],
    )


def print_states(groups: Iterable[DescribedGroup]) -> None:
    print_table(
        ("group", "type", "state", "protocol", "assignor", "epoch", "members", "coordinator"),
        [
            (
                group.group_id,
                group.type,
                group.state,
                group.protocol_type or None,
                group.assignor,
                group.epoch,
                len(group.members),
                group.coordinator,
            )
            for group in groups
        ],
        spare=("epoch", "protocol", "assignor"),
    )


def _to_come(member: GroupMember) -> list[TopicPartition]:
    return sorted(set(member.target or ()) - set(member.assignment))


def _shown(places: Iterable[TopicPartition]) -> str | None:
    topics = indexes_by_topic(places)
    parts = (f"{name}:{','.join(map(str, indexes))}" for name, indexes in topics.items())
    return " ".join(parts) or None


def _total(lags: list[PartitionLag]) -> int:
    return sum(one.lag for one in lags if one.lag is not None)


def _longest_ms(lags: list[PartitionLag]) -> int | None:
    return max((one.lag_ms for one in lags if one.lag_ms is not None), default=None)
