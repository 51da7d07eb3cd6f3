"""What the transaction coordinator takes from the broker's settings."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from ottla.config.broker import BrokerConfig


class TransactionSettings(NamedTuple):
    timeout_max_ms: int = 900_000
    expiration_ms: int = 604_800_000
    """An id that was not used for so long is forgotten."""
    expiry_check_interval_ms: int = 3_600_000
    two_phase_commit: bool = False
    """Whether producers may open transactions that never time out, and keep those they find."""


def transaction_settings(config: BrokerConfig) -> TransactionSettings:
    return TransactionSettings(
        timeout_max_ms=config["transaction.max.timeout.ms"],
        expiration_ms=config["transactional.id.expiration.ms"],
        expiry_check_interval_ms=config[
            "transaction.remove.expired.transaction.cleanup.interval.ms"
        ],
        two_phase_commit=config["transaction.two.phase.commit.enable"],
    )
