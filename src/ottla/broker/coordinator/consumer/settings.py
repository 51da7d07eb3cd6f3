"""Settings of consumer groups, from the configurations of the broker and of single groups."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from ottla.broker.coordinator.classic.settings import GroupSettings
from ottla.broker.coordinator.consumer.assignors import ASSIGNORS
from ottla.config.errors import ConfigError
from ottla.config.group import group_values

if TYPE_CHECKING:
    from ottla.config.broker import BrokerConfig

_CLASS_NAMES: Final = {
    "org.apache.kafka.coordinator.group.assignor.UniformAssignor": "uniform",
    "org.apache.kafka.coordinator.group.assignor.RangeAssignor": "range",
}
_NO_OVERRIDES: Final[Mapping[str, str]] = {}


@dataclass(frozen=True, slots=True)
class ConsumerSettings:
    heartbeat_interval_ms: int = 5_000
    session_timeout_ms: int = 45_000
    assignment_interval_ms: int = 0
    """Minimum time between two assignments, so that many joins cause one rebalance."""
    members_max: int = 2_147_483_647
    assignors: tuple[str, ...] = tuple(ASSIGNORS)
    """The first one is used unless members ask for another."""
    migration_policy: str = "bidirectional"
    classic: GroupSettings = field(default_factory=GroupSettings)
    """For a group that is converted to a classic one."""

    @classmethod
    def of(
        cls, config: BrokerConfig, overrides: Mapping[str, str] = _NO_OVERRIDES
    ) -> ConsumerSettings:
        """`overrides` are the settings of the group itself. They are ignored if they no longer fit
        the broker's settings."""
        try:
            values = group_values(config, overrides)
        except ConfigError:
            values = group_values(config, _NO_OVERRIDES)
        named = (_CLASS_NAMES.get(name, name) for name in config["group.consumer.assignors"])
        return cls(
            heartbeat_interval_ms=values["consumer.heartbeat.interval.ms"],
            session_timeout_ms=values["consumer.session.timeout.ms"],
            assignment_interval_ms=values["consumer.assignment.interval.ms"],
            members_max=config["group.consumer.max.size"],
            assignors=tuple(name for name in named if name in ASSIGNORS) or tuple(ASSIGNORS),
            migration_policy=config["group.consumer.migration.policy"].lower(),
            classic=GroupSettings.of(config),
        )

    @property
    def may_upgrade(self) -> bool:
        return self.migration_policy in ("bidirectional", "upgrade")

    @property
    def may_downgrade(self) -> bool:
        return self.migration_policy in ("bidirectional", "downgrade")
