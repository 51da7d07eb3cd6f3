"""The numbers that generator, pipeline and verifier must agree on. Times are those of the story."""

from __future__ import annotations

MINUTE_MS = 60_000

BURST_PAYMENTS = 6
"""So many payments with one card in one minute are suspicious."""
LARGE_FACTOR = 10
"""So many times what the customer usually pays."""
TRAVEL_MINUTES = 10
"""Nobody pays with the same card in two countries within so many minutes, but online."""
LATENESS_MINUTES = 10
"""Payments are waited for this long; later ones may be left out."""
MEMORY_MINUTES = 60
"""How long the fraud rules remember a card's payments, and windows stay open."""

PAYMENTS = "payments"
CUSTOMERS = "customers"
CLEAN = "payments-clean"
DEAD_LETTERS = "payments-dead-letters"
MERCHANT_MINUTES = "merchant-minutes"
ALERTS = "fraud-alerts"
TOPICS = {PAYMENTS: 4, CUSTOMERS: 1, CLEAN: 2, DEAD_LETTERS: 1, MERCHANT_MINUTES: 2, ALERTS: 1}
"""With their numbers of partitions."""
COMPACTED = {CUSTOMERS, MERCHANT_MINUTES}
