"""The numbers that generator, pipeline and verifier must agree on. Times are those of the story."""

from __future__ import annotations

from typing import Any

MINUTE_MS = 60_000

BURST_PAYMENTS = 6
"""So many payments with one card in one minute are suspicious."""
LARGE_FACTOR = 10
"""So many times what the customer usually pays."""
TRAVEL_MINUTES = 10
"""Nobody pays with the same card in two countries within so many minutes, but online."""
MEMORY_MINUTES = 60
"""How long a card's payments are remembered, and windows stay open for latecomers."""

PAYMENTS = "payments"
CUSTOMERS = "customers"
CLEAN = "payments-clean"
DEAD_LETTERS = "payments-dead-letters"
MERCHANT_MINUTES = "merchant-minutes"
ALERTS = "fraud-alerts"
TOPICS = {PAYMENTS: 4, CUSTOMERS: 1, CLEAN: 2, DEAD_LETTERS: 1, MERCHANT_MINUTES: 2, ALERTS: 1}
"""With their numbers of partitions."""
COMPACTED = {CUSTOMERS, MERCHANT_MINUTES}


def recent(payments: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Those worth remembering, beside the newest."""
    oldest_ms = max(one["at_ms"] for one in payments) - MEMORY_MINUTES * MINUTE_MS
    return [one for one in payments if one["at_ms"] >= oldest_ms]
