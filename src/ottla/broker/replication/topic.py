"""A topic on this broker: its partitions here, and the rules for its producers."""

from __future__ import annotations

from typing import Literal, cast

from ottla.broker.metadata.image import INTERNAL_TOPICS
from ottla.broker.replication import isr
from ottla.broker.replication.partition import Partition
from ottla.config.topic import TopicConfig
from ottla.records.codec import Codec
from ottla.records.rules import ProduceRules


class HostedTopic:
    __slots__ = ("config", "id", "is_internal", "name", "partitions", "rules")

    def __init__(self, name: str, topic_id: bytes, config: TopicConfig) -> None:
        self.name = name
        self.is_internal = name in INTERNAL_TOPICS
        """True if only coordinators write to it: clients may not produce to it."""
        self.id = topic_id
        self.partitions: dict[int, Partition] = {}
        self.configure(config)

    def configure(self, config: TopicConfig) -> None:
        """Take a new config; it applies from the next batch on."""
        self.config = config
        self.rules = produce_rules(config)
        for partition in self.partitions.values():
            self.configure_partition(partition)

    def configure_partition(self, partition: Partition) -> None:
        partition.min_insync_replicas = self.config.min_insync_replicas
        if partition.log is not None:
            partition.log.update_config(self.config)
            isr.review(partition)


def produce_rules(config: TopicConfig) -> ProduceRules:
    codec = None
    if config.compression_type != "producer":
        name = config.compression_type
        codec = Codec.NONE if name == "uncompressed" else Codec[name.upper()]
    return ProduceRules(
        max_message_bytes=config.max_message_bytes,
        timestamp_type=cast(
            "Literal['CreateTime', 'LogAppendTime']", config.message_timestamp_type
        ),
        timestamp_before_max_ms=config.message_timestamp_before_max_ms,
        timestamp_after_max_ms=config.message_timestamp_after_max_ms,
        compression=codec,
        compression_level=config.compression_level,
        compacted=config.compact,
    )
