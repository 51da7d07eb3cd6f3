"""The output about a topic and its partitions: as tables and as JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ottla.client.admin.topics import EligibleLeaders
    from ottla.client.network.metadata import Partition, Topic
    from ottla.client.values import TopicPartition


def print_topic(
    topic: Topic, parts: Sequence[Partition], others: Mapping[TopicPartition, EligibleLeaders]
) -> None:
    from ottla.cli.output import print_sentence, print_table
    from ottla.client.values import TopicPartition
    from ottla.protocol.uuids import to_text

    print_sentence(
        f"{topic.name}  id {to_text(topic.topic_id)}, {len(topic.partitions)} partition(s), "
        f"replication factor {replica_range(topic)}"
    )
    print_table(
        ("partition", "leader", "epoch", "replicas", "in sync", "offline")
        + (("eligible", "led last") if others else ()),
        [
            (
                p.index,
                p.leader if p.leader >= 0 else None,
                p.leader_epoch,
                p.replicas,
                p.isr,
                p.offline or None,
            )
            + (_eligible(others.get(TopicPartition(topic.name, p.index))) if others else ())
            for p in parts
        ],
    )


def _eligible(found: EligibleLeaders | None) -> tuple[object, object]:
    return (None, None) if found is None else (found.eligible or None, found.last_known or None)


def replica_range(topic: Topic) -> int | str:
    """Return how many replicas its partitions have; `2-3` if they differ, as while some move."""
    counts = {len(partition.replicas) for partition in topic.partitions} or {0}
    return max(counts) if len(counts) == 1 else f"{min(counts)}-{max(counts)}"


def summary(topic: Topic) -> dict[str, Any]:
    from ottla.protocol.uuids import to_text

    return {
        "topic": topic.name,
        "topic_id": to_text(topic.topic_id),
        "internal": topic.internal,
        "partition_count": len(topic.partitions),
        "replication_factor": topic.replication_factor,
    }


def _row(partition: Partition, others: EligibleLeaders | None) -> dict[str, Any]:
    return {
        "partition": partition.index,
        "leader": partition.leader if partition.leader >= 0 else None,
        "leader_epoch": partition.leader_epoch,
        "replicas": list(partition.replicas),
        "in_sync": list(partition.isr),
        "eligible_leader_replicas": [] if others is None else list(others.eligible),
        "last_known_elr": [] if others is None else list(others.last_known),
        "offline": list(partition.offline),
    }


def description(
    topic: Topic, parts: Sequence[Partition], others: Mapping[TopicPartition, EligibleLeaders]
) -> dict[str, Any]:
    from ottla.client.values import TopicPartition

    rows = [_row(part, others.get(TopicPartition(topic.name, part.index))) for part in parts]
    return {**summary(topic), "partitions": rows}
