"""Eligible leader replicas (KIP-966): replicas that may lead although they are no longer in sync.

A leader commits nothing while fewer replicas are in sync than `min.insync.replicas`. So a replica
that leaves the ISR below that number still has all committed records: the partition keeps it in its
ELR, and elects from there when the ISR is empty. A replica that may have lost the end of its log
(it was not shut down cleanly, or its log dir is gone) leaves the ELR too.

That is only right while controller and leaders use the same `min.insync.replicas`. So with this
feature it can be set for topics and for the cluster, but not for single brokers.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Final

from ottla.broker.controller.partition_change import NO_ELR, change_partition
from ottla.broker.metadata.features import ELR_VERSION_FEATURE, FEATURES
from ottla.broker.metadata.image import MetadataImage
from ottla.broker.metadata.resources import CLUSTER_DEFAULT, ConfigResource, ResourceType
from ottla.config.broker import BrokerConfig
from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.metadata_records.config_record import ConfigRecord
from ottla.protocol.metadata_records.feature_level_record import FeatureLevelRecord
from ottla.protocol.metadata_records.partition_change_record import PartitionChangeRecord
from ottla.protocol.schema import Message

MIN_ISR_KEY: Final = "min.insync.replicas"

MinIsrOf = Callable[[str], int]
"""Topic name -> its `min.insync.replicas`; NO_ELR if no ELR is kept."""


def keeps_elr(image: MetadataImage) -> bool:
    return image.features.get(ELR_VERSION_FEATURE, 0) > 0


def min_isr_by_topic(image: MetadataImage) -> MinIsrOf:
    if not keeps_elr(image):
        return lambda topic: NO_ELR
    default = int(image.config(CLUSTER_DEFAULT).get(MIN_ISR_KEY, "1"))

    def min_isr_of(topic: str) -> int:
        own = image.topic_config(topic).get(MIN_ISR_KEY)
        return default if own is None else int(own)

    return min_isr_of


def explicit_min_isr(image: MetadataImage, config: BrokerConfig) -> list[Message]:
    """Return a record that sets the cluster's number explicitly, before the first topic, if none is
    set."""
    levels = image.features or {feature.name: feature.level for feature in FEATURES}
    stated = MIN_ISR_KEY in image.config(CLUSTER_DEFAULT)
    if stated or not levels.get(ELR_VERSION_FEATURE, 0):
        return []
    return [_min_isr("", str(config[MIN_ISR_KEY]))]


def check_min_isr(
    image: MetadataImage, resource: ConfigResource, keys: Collection[str], after: Collection[str]
) -> None:
    """Refuse a change of `keys`, resulting in `after`, by which brokers would use another number
    than the controller."""
    kind, name = resource
    if kind != ResourceType.BROKER or MIN_ISR_KEY not in keys or not keeps_elr(image):
        return
    problem = "Cluster-level min.insync.replicas cannot be removed while ELR is enabled."
    if name:
        problem = "Broker-level min.insync.replicas cannot be altered while ELR is enabled."
    if name or MIN_ISR_KEY not in after:
        raise KafkaError(ErrorCode.INVALID_CONFIG, problem)


def min_isr_changed(image: MetadataImage, configs: Sequence[Message]) -> list[Message]:
    """Return the records that must be written with these config changes, and before them: a leader
    that now needs fewer replicas in sync commits without those in the ELR. A partition without a
    leader commits nothing, so its ELR stays; Kafka clears it there, too."""
    if not any(getattr(record, "name", None) == MIN_ISR_KEY for record in configs):
        return []
    after = image.apply(configs, image.offset + len(configs), image.epoch)
    return _changed(image, min_isr_by_topic(after))


def level_changed(
    image: MetadataImage, levels: Sequence[Message], config: BrokerConfig
) -> list[Message]:
    """Return the records that must be written with these feature levels, and before them."""
    wanted = [
        record.feature_level
        for record in levels
        if isinstance(record, FeatureLevelRecord) and record.name == ELR_VERSION_FEATURE
    ]
    if not wanted:
        return []
    return _switched_on(image, config) if wanted[0] > 0 else _switched_off(image)


def _switched_on(image: MetadataImage, config: BrokerConfig) -> list[Message]:
    """Return records that make all nodes use the same number."""
    records: list[Message] = []
    if MIN_ISR_KEY not in image.config(CLUSTER_DEFAULT):
        records.append(_min_isr("", str(config[MIN_ISR_KEY])))
    for (kind, name), configs in image.configs.items():
        if kind == ResourceType.BROKER and name and MIN_ISR_KEY in configs:
            records.append(_min_isr(name, None))
    return records


def _switched_off(image: MetadataImage) -> list[Message]:
    """Return records that clear the ELR. Its replicas return to an empty ISR, because without ELR
    the partition waits for them."""
    records: list[Message] = []
    for topic in image.topics.values():
        for partition in topic.partitions.values():
            elr, last_known = partition.eligible_leader_replicas, partition.last_known_elr
            if elr or last_known or not partition.isr:
                records.append(
                    PartitionChangeRecord(
                        partition_id=partition.index,
                        topic_id=topic.id,
                        isr=None if partition.isr else list(elr or last_known),
                        eligible_leader_replicas=[],
                        last_known_elr=[],
                    )
                )
    return records


def _changed(image: MetadataImage, min_isr_of: MinIsrOf) -> list[Message]:
    records: list[Message] = []
    for topic in image.topics.values():
        for partition in topic.partitions.values():
            if partition.eligible_leader_replicas:
                record = change_partition(
                    topic.id, partition, image.brokers, min_isr=min_isr_of(topic.name)
                )
                if record is not None:
                    records.append(record)
    return records


def _min_isr(broker: str, value: str | None) -> ConfigRecord:
    return ConfigRecord(
        resource_type=int(ResourceType.BROKER), resource_name=broker, name=MIN_ISR_KEY, value=value
    )
