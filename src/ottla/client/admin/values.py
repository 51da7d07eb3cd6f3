"""The values that administration works with."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

from ottla.protocol.errors import KafkaError


class ResourceType(IntEnum):
    """What a config belongs to, by the protocol's numbers."""

    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32


class ConfigSource(IntEnum):
    UNKNOWN = 0
    DYNAMIC_TOPIC = 1
    DYNAMIC_BROKER = 2
    DYNAMIC_CLUSTER_DEFAULT = 3
    STATIC_BROKER = 4
    DEFAULT = 5
    DYNAMIC_BROKER_LOGGER = 6
    CLIENT_METRICS = 7
    GROUP = 8


class AlterOperation(IntEnum):
    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


@dataclass(frozen=True, slots=True)
class ConfigEntry:
    name: str
    value: str | None
    source: ConfigSource
    read_only: bool
    sensitive: bool
    documentation: str | None

    @property
    def is_default(self) -> bool:
        return self.source in (ConfigSource.DEFAULT, ConfigSource.STATIC_BROKER)


@dataclass(frozen=True, slots=True)
class OffsetAt:
    offset: int
    """-1: no record is that late."""
    timestamp_ms: int
    leader_epoch: int


@dataclass(frozen=True, slots=True)
class CreatedTopic:
    name: str
    topic_id: bytes | None
    partitions: int | None
    replication_factor: int | None


@dataclass(frozen=True, slots=True)
class Replica:
    topic: str
    partition: int
    size_bytes: int
    offset_lag: int
    is_future: bool


@dataclass(frozen=True, slots=True)
class LogDir:
    broker: int
    path: str
    error: KafkaError | None
    total_bytes: int | None
    usable_bytes: int | None
    replicas: list[Replica]
