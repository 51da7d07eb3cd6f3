"""The `delegation.token.*` keys, read together."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ottla.config.broker import BrokerConfig


@dataclass(frozen=True, slots=True)
class TokenSettings:
    secret_key: bytes = field(repr=False)
    max_lifetime_ms: int
    """How long a token can live, however often it is renewed."""
    expiry_time_ms: int
    """How long a token is valid if it is not renewed."""


def token_settings(config: BrokerConfig) -> TokenSettings | None:
    """Return None if delegation tokens are switched off: without a secret key."""
    secret: str | None = config["delegation.token.secret.key"]
    if not secret:
        return None
    return TokenSettings(
        secret.encode(),
        config["delegation.token.max.lifetime.ms"],
        config["delegation.token.expiry.time.ms"],
    )
