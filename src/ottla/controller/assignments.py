"""From chosen replicas to the partition records that say so."""

from __future__ import annotations

from collections.abc import Sequence

from ottla.controller.limits import repeated
from ottla.metadata.image import BrokerImage, MetadataImage
from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.metadata_records.partition_record import PartitionRecord
from ottla.protocol.uuids import UNASSIGNED_DIRECTORY


def check_manual(
    image: MetadataImage, replicas: Sequence[int], replication_factor: int | None
) -> None:
    """`INVALID_REPLICA_ASSIGNMENT` unless all are registered, different, and not too few."""
    problem = None
    unknown = [broker for broker in sorted(replicas) if broker not in image.brokers]
    twice = sorted(repeated(replicas))
    if not replicas:
        problem = "includes an empty replica list"
    elif unknown:
        problem = f"includes broker {unknown[0]}, but no such broker is registered"
    elif twice:
        problem = f"includes the broker {twice[0]} more than once"
    elif replication_factor is not None and len(replicas) != replication_factor:
        problem = (
            f"includes a partition with {len(replicas)} replica(s), but this is not consistent "
            f"with previous partitions, which have {replication_factor} replica(s)"
        )
    if problem is not None:
        raise KafkaError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT, f"The manual partition assignment {problem}."
        )


def new_partition(
    image: MetadataImage, topic_id: bytes, index: int, replicas: Sequence[int], *, manual: bool
) -> PartitionRecord:
    """The record of a partition in its first epoch, led by the first replica that is alive."""
    isr = [broker for broker in replicas if image.brokers[broker].is_active]
    if not isr and manual:
        raise KafkaError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            "All brokers specified in the manual partition assignment for partition "
            f"{index} are fenced or in controlled shutdown.",
        )
    if not isr:
        raise KafkaError(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"Unable to replicate the partition {len(replicas)} time(s): All brokers are "
            "currently fenced or in controlled shutdown.",
        )
    return PartitionRecord(
        partition_id=index,
        topic_id=topic_id,
        replicas=list(replicas),
        isr=isr,
        leader=isr[0],
        leader_epoch=0,
        partition_epoch=0,
        directories=[default_directory(image.brokers[broker]) for broker in replicas],
    )


def default_directory(broker: BrokerImage) -> bytes:
    """A broker with one folder has no choice; one with several tells later what it chose."""
    return broker.directories[0] if len(broker.directories) == 1 else UNASSIGNED_DIRECTORY
