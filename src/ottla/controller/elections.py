"""Who leads a partition when brokers and their folders come and go."""

from __future__ import annotations

from collections.abc import Mapping

from ottla.metadata.image import NO_LEADER, BrokerImage, PartitionImage, TopicImage
from ottla.protocol.metadata_records.partition_change_record import PartitionChangeRecord


def may_lead(broker_id: int, partition: PartitionImage, brokers: Mapping[int, BrokerImage]) -> bool:
    """In sync, alive, and the folder that holds the replica in working order."""
    broker = brokers.get(broker_id)
    return (
        broker is not None
        and broker_id in partition.isr
        and broker.is_active
        and broker.has_online(partition.directory_of(broker_id))
    )


def clean_leader(partition: PartitionImage, brokers: Mapping[int, BrokerImage]) -> int:
    """Who leads without loss: the present leader if it can, else the most preferred; or nobody."""
    if may_lead(partition.leader, partition, brokers):
        return partition.leader
    for replica in partition.replicas:
        if may_lead(replica, partition, brokers):
            return replica
    return NO_LEADER


def lead_record(topic: TopicImage, partition: PartitionImage, leader: int) -> PartitionChangeRecord:
    """A new term for `leader`, who may be the one of the old term. The ISR stays: nobody else has
    what its members have."""
    return PartitionChangeRecord(partition_id=partition.index, topic_id=topic.id, leader=leader)
