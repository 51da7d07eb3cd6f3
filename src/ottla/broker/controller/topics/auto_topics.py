"""The settings of topics that are created automatically."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from ottla.broker.metadata.image import GROUPS_TOPIC, SHARE_GROUPS_TOPIC, TRANSACTIONS_TOPIC
from ottla.config.broker import BrokerConfig
from ottla.protocol.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)


class _Keys(NamedTuple):
    """The broker settings for an internal topic."""

    partitions: str
    replicas: str
    segment_bytes: str


_INTERNAL = {
    GROUPS_TOPIC: _Keys(
        "offsets.topic.num.partitions",
        "offsets.topic.replication.factor",
        "offsets.topic.segment.bytes",
    ),
    TRANSACTIONS_TOPIC: _Keys(
        "transaction.state.log.num.partitions",
        "transaction.state.log.replication.factor",
        "transaction.state.log.segment.bytes",
    ),
    SHARE_GROUPS_TOPIC: _Keys(
        "share.coordinator.state.topic.num.partitions",
        "share.coordinator.state.topic.replication.factor",
        "share.coordinator.state.topic.segment.bytes",
    ),
}


def auto_create_request(
    names: Iterable[str], config: BrokerConfig, broker_count: int
) -> CreateTopicsRequest:
    """Return the request. `broker_count` brokers are registered, which limits the number of
    replicas."""
    return CreateTopicsRequest(topics=[_topic(name, config, broker_count) for name in names])


def _topic(name: str, config: BrokerConfig, broker_count: int) -> CreatableTopic:
    keys = _INTERNAL.get(name)
    if keys is None:
        return CreatableTopic(name=name, num_partitions=-1, replication_factor=-1)
    # Kafka's default of three replicas would leave a single node without groups and transactions.
    # If the number is set explicitly, too few brokers are an error, as in Kafka.
    replicas: int = config[keys.replicas]
    if keys.replicas not in config.explicit:
        replicas = max(1, min(replicas, broker_count))
    configs = {
        "cleanup.policy": "delete" if name == SHARE_GROUPS_TOPIC else "compact",
        "compression.type": "producer",
        "segment.bytes": str(config[keys.segment_bytes]),
    }
    if name == TRANSACTIONS_TOPIC:
        configs["compression.type"] = "uncompressed"
        configs["min.insync.replicas"] = str(min(config["transaction.state.log.min.isr"], replicas))
        configs["unclean.leader.election.enable"] = "false"
    return CreatableTopic(
        name=name,
        num_partitions=config[keys.partitions],
        replication_factor=replicas,
        configs=[CreatableTopicConfig(name=key, value=value) for key, value in configs.items()],
    )
