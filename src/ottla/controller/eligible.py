"""Eligible leader replicas (KIP-966): who may lead although it is not in sync any more.

A leader commits nothing while fewer replicas are in sync than `min.insync.replicas` asks for. So
whoever leaves the ISR below that number still has all that is committed: the partition keeps it in
its ELR, and elects from there when nobody is left in sync. Whoever may have lost the end of its log
(it did not stop properly, or its folder is gone) leaves the ELR too.

That holds only while the controller counts with the same `min.insync.replicas` as the leaders, so
it is a matter of topics and of the cluster, and not of single brokers, once the feature is on.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Final

from ottla.config.broker import BrokerConfig
from ottla.controller.partition_change import NO_ELR, change_partition
from ottla.metadata.features import ELR_VERSION_FEATURE, FEATURES
from ottla.metadata.image import MetadataImage
from ottla.metadata.resources import CLUSTER_DEFAULT, ConfigResource, ResourceType
from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.metadata_records.config_record import ConfigRecord
from ottla.protocol.metadata_records.feature_level_record import FeatureLevelRecord
from ottla.protocol.metadata_records.partition_change_record import PartitionChangeRecord
from ottla.protocol.schema import Message

MIN_ISR_KEY: Final = "min.insync.replicas"

MinIsrOf = Callable[[str], int]
"""Topic name -> its `min.insync.replicas`, and NO_ELR where no ELR is kept."""


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
    """Before the first topic: what the whole cluster counts with, where nothing says so yet."""
    levels = image.features or {feature.name: feature.level for feature in FEATURES}
    stated = MIN_ISR_KEY in image.config(CLUSTER_DEFAULT)
    if stated or not levels.get(ELR_VERSION_FEATURE, 0):
        return []
    return [_min_isr("", str(config[MIN_ISR_KEY]))]


def check_min_isr(
    image: MetadataImage, resource: ConfigResource, keys: Collection[str], after: Collection[str]
) -> None:
    """Refuse a change of `keys`, and so to `after`, by which brokers would count differently from
    the controller."""
    kind, name = resource
    if kind != ResourceType.BROKER or MIN_ISR_KEY not in keys or not keeps_elr(image):
        return
    problem = "Cluster-level min.insync.replicas cannot be removed while ELR is enabled."
    if name:
        problem = "Broker-level min.insync.replicas cannot be altered while ELR is enabled."
    if name or MIN_ISR_KEY not in after:
        raise KafkaError(ErrorCode.INVALID_CONFIG, problem)


def min_isr_changed(image: MetadataImage, configs: Sequence[Message]) -> list[Message]:
    """What has to be written with these changes of configuration, and before them: a leader that
    now needs fewer in sync commits without those in the ELR. Where nobody leads, nobody commits,
    and the ELR stays; Kafka forgets it there, too."""
    if not any(getattr(record, "name", None) == MIN_ISR_KEY for record in configs):
        return []
    after = image.apply(configs, image.offset + len(configs), image.epoch)
    return _changed(image, min_isr_by_topic(after))


def level_changed(
    image: MetadataImage, levels: Sequence[Message], config: BrokerConfig
) -> list[Message]:
    """What has to be written with these feature levels, and before them."""
    wanted = [
        record.feature_level
        for record in levels
        if isinstance(record, FeatureLevelRecord) and record.name == ELR_VERSION_FEATURE
    ]
    if not wanted:
        return []
    return _switched_on(image, config) if wanted[0] > 0 else _switched_off(image)


def _switched_on(image: MetadataImage, config: BrokerConfig) -> list[Message]:
    """Everybody counts with the same number from now on."""
    records: list[Message] = []
    if MIN_ISR_KEY not in image.config(CLUSTER_DEFAULT):
        records.append(_min_isr("", str(config[MIN_ISR_KEY])))
    for (kind, name), configs in image.configs.items():
        if kind == ResourceType.BROKER and name and MIN_ISR_KEY in configs:
            records.append(_min_isr(name, None))
    return records


def _switched_off(image: MetadataImage) -> list[Message]:
    """Without ELR the last ones in sync stay in the ISR, and the partition waits for them."""
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
