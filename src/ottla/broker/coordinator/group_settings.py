"""Settings of groups and their offsets, from the broker's configuration."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ottla.broker.coordinator.classic.settings import GroupSettings
from ottla.broker.coordinator.consumer.settings import ConsumerSettings

if TYPE_CHECKING:
    from ottla.config.broker import BrokerConfig


@dataclass(frozen=True, slots=True)
class GroupShardSettings:
    classic: GroupSettings = field(default_factory=GroupSettings)
    consumer: ConsumerSettings = field(default_factory=ConsumerSettings)
    offset_metadata_bytes_max: int = 4096
    commit_bytes_max: int = 1_048_588
    """All offsets of a request are written as one batch, so that all of them take effect or
    none."""
    offset_retention_ms: int = 7 * 24 * 3_600_000
    expiry_interval_ms: int = 600_000
    config: BrokerConfig | None = None
    """The broker's configuration, which settings of single groups override."""

    @classmethod
    def of(cls, config: BrokerConfig) -> GroupShardSettings:
        return cls(
            classic=GroupSettings.of(config),
            consumer=ConsumerSettings.of(config),
            offset_metadata_bytes_max=config["offset.metadata.max.bytes"],
            commit_bytes_max=config["message.max.bytes"],
            offset_retention_ms=config["offsets.retention.minutes"] * 60_000,
            expiry_interval_ms=config["offsets.retention.check.interval.ms"],
            config=config,
        )

    def consumer_of(self, overrides: Mapping[str, str]) -> ConsumerSettings:
        if not overrides or self.config is None:
            return self.consumer
        return ConsumerSettings.of(self.config, overrides)
