"""Consequences for partitions when a broker is fenced, unfenced or loses log dirs.

If there are several records, they are in an order in which a part of them (after a crash of the
controller between two batches) is a valid state for the next controller: a broker is fenced only
after its partitions have moved to others.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Final

from ottla.broker.controller.eligible import min_isr_by_topic
from ottla.broker.controller.partition_change import Target, change_partition, without
from ottla.broker.controller.unclean import ElectionOf
from ottla.broker.metadata.image import NO_LEADER, BrokerImage, MetadataImage, PartitionImage
from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.metadata_records.broker_registration_change_record import (
    BrokerRegistrationChangeRecord,
)
from ottla.protocol.metadata_records.unregister_broker_record import UnregisterBrokerRecord
from ottla.protocol.schema import Message

FENCE: Final = 1
UNFENCE: Final = -1
IN_CONTROLLED_SHUTDOWN: Final = 1


def check_epoch(image: MetadataImage, broker_id: int, epoch: int) -> BrokerImage:
    """Return the broker that asks; raise `STALE_BROKER_EPOCH` if a newer process has replaced
    it."""
    broker = image.brokers.get(broker_id)
    if broker is None:
        raise KafkaError(
            ErrorCode.STALE_BROKER_EPOCH, f"No broker with the id {broker_id} is registered."
        )
    if broker.epoch != epoch:
        raise KafkaError(
            ErrorCode.STALE_BROKER_EPOCH,
            f"Broker {broker_id} is registered with epoch {broker.epoch}, not {epoch}.",
        )
    return broker


def fence(image: MetadataImage, broker: BrokerImage, election_of: ElectionOf) -> list[Message]:
    """Fence a broker that is silent, or asks for it: others lead, and it is in no ISR."""
    records = leave(image, broker._replace(fenced=True), election_of)
    change = BrokerRegistrationChangeRecord(
        broker_id=broker.id, broker_epoch=broker.epoch, fenced=FENCE
    )
    return [*records, change]


def unfence(image: MetadataImage, broker: BrokerImage, election_of: ElectionOf) -> list[Message]:
    """Unfence a broker that is ready: it leads the partitions that waited for it."""
    change = BrokerRegistrationChangeRecord(
        broker_id=broker.id, broker_epoch=broker.epoch, fenced=UNFENCE
    )
    brokers = {**image.brokers, broker.id: broker._replace(fenced=False)}
    return [change, *lead_leaderless(image, brokers, election_of)]


def begin_shutdown(
    image: MetadataImage, broker: BrokerImage, election_of: ElectionOf
) -> list[Message]:
    """Start a broker's controlled shutdown: others lead before it stops."""
    leaving = broker._replace(in_controlled_shutdown=True)
    records = leave(image, leaving, election_of)
    if not broker.in_controlled_shutdown:
        change = BrokerRegistrationChangeRecord(
            broker_id=broker.id,
            broker_epoch=broker.epoch,
            in_controlled_shutdown=IN_CONTROLLED_SHUTDOWN,
        )
        records.append(change)
    return records


def lose_folders(
    image: MetadataImage, broker: BrokerImage, lost: Collection[bytes], election_of: ElectionOf
) -> list[Message]:
    """Remove failed log dirs of a broker; at least one other still works."""
    online = tuple(folder for folder in broker.directories if folder not in lost)
    if online == broker.directories:
        return []
    change = BrokerRegistrationChangeRecord(
        broker_id=broker.id, broker_epoch=broker.epoch, log_dirs=list(online)
    )
    return [*leave_folders(image, broker, lost, election_of), change]


def leave_folders(
    image: MetadataImage, broker: BrokerImage, lost: Collection[bytes], election_of: ElectionOf
) -> list[Message]:
    """Move leadership away from a broker's replicas in lost log dirs. Their data counts as lost."""

    def is_hit(partition: PartitionImage) -> bool:
        return partition.directory_of(broker.id) in lost

    rest = tuple(folder for folder in broker.directories if folder not in lost)
    return leave(image, broker._replace(directories=rest), election_of, is_hit, lost=True)


def unregister(image: MetadataImage, broker_id: int, election_of: ElectionOf) -> list[Message]:
    """Remove a broker; its replicas stay assigned to it until they are reassigned."""
    broker = image.brokers.get(broker_id)
    if broker is None:
        raise KafkaError(
            ErrorCode.BROKER_ID_NOT_REGISTERED, f"Broker ID {broker_id} is not registered."
        )
    records = leave(image, broker._replace(fenced=True), election_of)
    return [*records, UnregisterBrokerRecord(broker_id=broker_id, broker_epoch=broker.epoch)]


def leave(
    image: MetadataImage,
    broker: BrokerImage,
    election_of: ElectionOf,
    is_hit: Callable[[PartitionImage], bool] | None = None,
    *,
    lost: bool = False,
) -> list[Message]:
    """Remove a broker, in its new state, from every ISR (that `is_hit` picks) and elect other
    leaders. If too few replicas are left it stays eligible to lead (see `eligible.py`), unless its
    data may be `lost`. Without ELR it stays in an ISR in which it is the last one: the partition
    then waits for it."""
    brokers = {**image.brokers, broker.id: broker}
    gone = (broker.id,)
    min_isr_of = min_isr_by_topic(image)
    records: list[Message] = []
    for topic in image.topics.values():
        min_isr = min_isr_of(topic.name)
        for partition in topic.partitions.values():
            counts = broker.id in partition.isr or (
                lost and broker.id in partition.eligible_leader_replicas
            )
            if counts and (is_hit is None or is_hit(partition)):
                target = Target.of(partition)._replace(isr=without(partition.isr, gone))
                record = change_partition(
                    topic.id,
                    partition,
                    brokers,
                    target,
                    election=election_of(topic.name),
                    min_isr=min_isr,
                    lost=gone if lost else (),
                )
                if record is not None:
                    records.append(record)
    return records


def lead_leaderless(
    image: MetadataImage,
    brokers: Mapping[int, BrokerImage],
    election_of: ElectionOf,
    most: int | None = None,
) -> list[Message]:
    """Elect a leader for every partition (up to `most` of them) that has none and can have one."""
    min_isr_of = min_isr_by_topic(image)
    records: list[Message] = []
    for topic in image.topics.values():
        for partition in topic.partitions.values():
            if partition.leader != NO_LEADER:
                continue
            if most is not None and len(records) >= most:
                return records
            record = change_partition(
                topic.id,
                partition,
                brokers,
                election=election_of(topic.name),
                min_isr=min_isr_of(topic.name),
            )
            if record is not None:
                records.append(record)
    return records
