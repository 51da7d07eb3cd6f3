"""What a topic looks like that a client used before anybody created it."""

from __future__ import annotations

from collections.abc import Iterable

from ottla.config.broker import BrokerConfig
from ottla.protocol.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)

_SETTINGS = {
    "__consumer_offsets": "offsets.topic",
    "__transaction_state": "transaction.state.log",
    "__share_group_state": "share.coordinator.state.topic",
}
"""Internal topic -> the prefix of the broker keys that shape it."""


def auto_create_request(names: Iterable[str], config: BrokerConfig) -> CreateTopicsRequest:
    return CreateTopicsRequest(topics=[_topic(name, config) for name in names])


def _topic(name: str, config: BrokerConfig) -> CreatableTopic:
    prefix = _SETTINGS.get(name)
    if prefix is None:
        return CreatableTopic(name=name, num_partitions=-1, replication_factor=-1)
    configs = {
        "cleanup.policy": "delete" if name == "__share_group_state" else "compact",
        "compression.type": "producer",
        "segment.bytes": str(config[f"{prefix}.segment.bytes"]),
    }
    if name == "__transaction_state":
        configs["compression.type"] = "uncompressed"
        configs["min.insync.replicas"] = str(config[f"{prefix}.min.isr"])
        configs["unclean.leader.election.enable"] = "false"
    return CreatableTopic(
        name=name,
        num_partitions=config[f"{prefix}.num.partitions"],
        replication_factor=config[f"{prefix}.replication.factor"],
        configs=[CreatableTopicConfig(name=key, value=value) for key, value in configs.items()],
    )
