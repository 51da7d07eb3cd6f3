"""What the broker's configuration says about groups and their offsets."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ottla.coordinator.classic.settings import GroupSettings

if TYPE_CHECKING:
    from ottla.config.broker import BrokerConfig


@dataclass(frozen=True, slots=True)
class GroupShardSettings:
    classic: GroupSettings = field(default_factory=GroupSettings)
    offset_metadata_bytes_max: int = 4096
    offset_retention_ms: int = 7 * 24 * 3_600_000
    expiry_interval_ms: int = 600_000

    @classmethod
    def of(cls, config: BrokerConfig) -> GroupShardSettings:
        return cls(
            classic=GroupSettings.of(config),
            offset_metadata_bytes_max=config["offset.metadata.max.bytes"],
            offset_retention_ms=config["offsets.retention.minutes"] * 60_000,
            expiry_interval_ms=config["offsets.retention.check.interval.ms"],
        )
