"""Makes partition records from chosen replicas."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ottla.broker.controller.limits import repeated
from ottla.broker.metadata.image import BrokerImage, MetadataImage
from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.metadata_records.partition_record import PartitionRecord
from ottla.protocol.schema import Message
from ottla.protocol.uuids import UNASSIGNED_DIRECTORY


def check_manual(
    image: MetadataImage, replicas: Sequence[int], replication_factor: int | None
) -> None:
    """Raise `INVALID_REPLICA_ASSIGNMENT` unless all are registered, different, and not too few."""
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


def new_partitions(
    image: MetadataImage,
    topic_id: bytes,
    first_index: int,
    layout: Iterable[Sequence[int]],
    *,
    manual: bool,
) -> list[Message]:
    """Return the records of partitions in their first epoch, each led by the first replica that is
    alive.

    Of thousands of partitions many have the same replicas: these are checked once, and share their
    lists.
    """
    brokers = image.brokers
    is_active = {broker.id: broker.is_active for broker in brokers.values()}
    known: dict[tuple[int, ...], tuple[list[int], list[int], list[bytes]]] = {}
    records: list[Message] = []
    for index, chosen in enumerate(layout, first_index):
        replicas = tuple(chosen)
        found = known.get(replicas)
        if found is None:
            isr = [broker for broker in replicas if is_active[broker]]
            if not isr:
                raise _nobody_leads(index, len(replicas), manual=manual)
            directories = [default_directory(brokers[broker]) for broker in replicas]
            found = known[replicas] = (list(replicas), isr, directories)
        records.append(
            PartitionRecord(
                partition_id=index,
                topic_id=topic_id,
                replicas=found[0],
                isr=found[1],
                leader=found[1][0],
                leader_epoch=0,
                partition_epoch=0,
                directories=found[2],
            )
        )
    return records


def _nobody_leads(index: int, replicas: int, *, manual: bool) -> KafkaError:
    if manual:
        return KafkaError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            "All brokers specified in the manual partition assignment for partition "
            f"{index} are fenced or in controlled shutdown.",
        )
    return KafkaError(
        ErrorCode.INVALID_REPLICATION_FACTOR,
        f"Unable to replicate the partition {replicas} time(s): All brokers are "
        "currently fenced or in controlled shutdown.",
    )


def default_directory(broker: BrokerImage) -> bytes:
    """Return the directory of a new replica. A broker with one log dir has no choice; one with
    several reports later which it chose."""
    return broker.directories[0] if len(broker.directories) == 1 else UNASSIGNED_DIRECTORY
