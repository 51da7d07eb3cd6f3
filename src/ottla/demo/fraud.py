"""The fraud rules, with the memory of each card: a stateful processor for Spark.

Payments come out of order, so every rule asks about sets of payments, never about the previous one:
whatever the order, the same alerts are given, each as soon as its last payment is there.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, NamedTuple

from pyspark.sql import Row
from pyspark.sql.streaming.stateful_processor import (
    StatefulProcessor,
    StatefulProcessorHandle,
    TimerValues,
)

from ottla.demo import rules

ALERT = "card string, rule string, alert string, payments string, customer string, name string"
REMEMBERED = "id string, country string, channel string, at_ms bigint"


class Remembered(NamedTuple):
    """What is kept of a payment."""

    id: str
    country: str
    channel: str
    at_ms: int

    @property
    def minute_ms(self) -> int:
        return self.at_ms - self.at_ms % rules.MINUTE_MS


class FraudRules(StatefulProcessor):
    """For the payments of one card."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._recent = handle.getListState("recent", REMEMBERED)

    def handleInputRows(
        self, key: Any, rows: Iterator[Row], timerValues: TimerValues
    ) -> Iterator[Row]:
        recent = [Remembered(*fields) for fields in self._recent.get()]
        for row in rows:
            payment = Remembered(row.id, row.country, row.channel, row.at_ms)
            for rule, name, others in suspicions(row, payment, recent):
                yield _alert(row, rule, name, [*others, payment.id])
            recent.append(payment)
        oldest_ms = max(one.at_ms for one in recent) - rules.MEMORY_MINUTES * rules.MINUTE_MS
        self._recent.put([tuple(one) for one in recent if one.at_ms >= oldest_ms])


def suspicions(
    row: Row, payment: Remembered, recent: list[Remembered]
) -> Iterator[tuple[str, str, list[str]]]:
    """Rule, name of the alert, and which earlier payments it is about as well."""
    if row.amount_cents > rules.LARGE_FACTOR * row.typical_cents:
        yield "large", payment.id, []
    same_minute = [one.id for one in recent if one.minute_ms == payment.minute_ms]
    if len(same_minute) + 1 == rules.BURST_PAYMENTS:
        yield "burst", f"{row.card} {payment.minute_ms}", same_minute
    for other in recent:
        if is_impossible(payment, other):
            yield "travel", " ".join(sorted((payment.id, other.id))), [other.id]


def is_impossible(one: Remembered, other: Remembered) -> bool:
    """At a till in one country, and too soon at one in another."""
    soon = abs(one.at_ms - other.at_ms) <= rules.TRAVEL_MINUTES * rules.MINUTE_MS
    return soon and one.channel == other.channel == "chip" and one.country != other.country


def _alert(payment: Row, rule: str, name: str, payments: list[str]) -> Row:
    """The last of `payments` is the one that gave rise to it."""
    return Row(
        card=payment.card,
        rule=rule,
        alert=f"{rule} {name}",
        payments=json.dumps(payments),
        customer=payment.customer,
        name=payment.name,
    )
