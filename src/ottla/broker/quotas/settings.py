"""The time over which quotas are measured."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from ottla.config.broker import BrokerConfig

UNUSED_S_MAX: Final = 3600.0
"""Budgets that were not used for so long are forgotten, as Kafka removes their sensors."""
SWEEP_INTERVAL_S: Final = 60.0
"""How often unused budgets are looked for, at most."""


class QuotaWindows(NamedTuple):
    number: int
    size_s: float

    @property
    def span_s(self) -> float:
        """How long something that was used counts."""
        return self.number * self.size_s

    @classmethod
    def of_clients(cls, config: BrokerConfig) -> QuotaWindows:
        return cls(config["quota.window.num"], config["quota.window.size.seconds"])

    @classmethod
    def of_controller(cls, config: BrokerConfig) -> QuotaWindows:
        return cls(
            config["controller.quota.window.num"], config["controller.quota.window.size.seconds"]
        )
