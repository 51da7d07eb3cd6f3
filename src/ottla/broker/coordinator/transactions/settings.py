"""Settings of the transaction coordinator, from the broker's configuration."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from ottla.config.broker import BrokerConfig


class TransactionSettings(NamedTuple):
    timeout_max_ms: int = 900_000
    expiration_ms: int = 604_800_000
    """A transactional id that was not used for this long is removed."""
    expiry_check_interval_ms: int = 3_600_000
    two_phase_commit: bool = False
    """True if producers may open transactions that never time out, and keep those they find."""


def transaction_settings(config: BrokerConfig) -> TransactionSettings:
    return TransactionSettings(
        timeout_max_ms=config["transaction.max.timeout.ms"],
        expiration_ms=config["transactional.id.expiration.ms"],
        expiry_check_interval_ms=config[
            "transaction.remove.expired.transaction.cleanup.interval.ms"
        ],
        two_phase_commit=config["transaction.two.phase.commit.enable"],
    )
