"""The numbers that generator, pipeline and verifier must agree on. Times are those of the story."""

from __future__ import annotations

from typing import Any

MINUTE_MS = 60_000

BURST_PAYMENTS = 6
"""This many payments with one card in one minute are suspicious."""
LARGE_FACTOR = 10
"""A payment of more than this many times the customer's typical amount is suspicious."""
TRAVEL_MINUTES = 10
"""Nobody pays at tills in two countries with the same card within this many minutes."""
MEMORY_MINUTES = 60
"""How long a card's payments are kept, and windows stay open for late events."""

PAYMENTS = "payments"
CUSTOMERS = "customers"
CLEAN = "payments-clean"
DEAD_LETTERS = "payments-dead-letters"
MERCHANT_MINUTES = "merchant-minutes"
ALERTS = "fraud-alerts"
TOPICS = {PAYMENTS: 4, CUSTOMERS: 1, CLEAN: 2, DEAD_LETTERS: 1, MERCHANT_MINUTES: 2, ALERTS: 1}
"""Topics and their numbers of partitions."""
COMPACTED = {CUSTOMERS, MERCHANT_MINUTES}


def recent(payments: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the payments within the memory before the newest."""
    oldest_ms = max(one["at_ms"] for one in payments) - MEMORY_MINUTES * MINUTE_MS
    return [one for one in payments if one["at_ms"] >= oldest_ms]
