"""When a token is replaced by a fresh one, by the rules of Kafka's `sasl.login.refresh.*`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from ottla.config.security.oauth_login import RefreshWindow
    from ottla.network.oauth.token import HeldToken

PAUSE_MIN_MS: Final = 1_000
"""Bounds how often a provider is asked whose tokens expire at once."""


def refresh_at_ms(token: HeldToken, window: RefreshWindow, now_ms: int, chance: float) -> int:
    """`chance` is random, from 0 to 1."""
    part = window.factor + window.jitter * chance
    expires_at_ms = token.expires_at_ms
    if now_ms + window.period_min_ms + window.buffer_ms > expires_at_ms:
        # Too short a life for the two periods.
        wanted_ms = now_ms + int((expires_at_ms - now_ms) * part)
    else:
        issued_at_ms = now_ms if token.issued_at_ms is None else token.issued_at_ms
        wanted_ms = issued_at_ms + int((expires_at_ms - issued_at_ms) * part)
        wanted_ms = max(wanted_ms, now_ms + window.period_min_ms)
        wanted_ms = min(wanted_ms, expires_at_ms - window.buffer_ms)
    return max(wanted_ms, now_ms + PAUSE_MIN_MS)
