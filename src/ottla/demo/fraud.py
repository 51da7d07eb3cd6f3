"""The fraud rules, with a memory of each card's payments.

Payments come out of order, so every rule looks at sets of payments, never at the previous one: the
alerts do not depend on the order, and each comes as soon as its last payment is there.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ottla.demo import rules
from ottla.streams import Context, Processor, ProcessorRecord

ALERT = "rule string, alert string, card string, payments array<string>, name string"


REMEMBERED = "id string, country string, channel string, at_ms bigint"
"""The part of a payment that is kept."""

Payment = dict[str, Any]


class FraudRules(Processor):
    def init(self, context: Context) -> None:
        self._context = context
        self._recent = context.store("fraud")

    def process(self, record: ProcessorRecord) -> None:
        payment = record.value
        recent = self._recent.get()
        for rule, name, others in suspicions(payment, recent):
            alert = {
                "rule": rule,
                "alert": f"{rule} {name}",
                "card": payment["card"],
                "payments": [*others, payment["id"]],
                "name": payment["name"],
            }
            self._context.forward(record.key, alert)
        recent.append({name: payment[name] for name in ("id", "country", "channel", "at_ms")})
        self._recent.put(rules.recent(recent))


def suspicions(payment: Payment, recent: list[Payment]) -> Iterator[tuple[str, str, list[str]]]:
    """Yield the rule, the name of the alert, and the earlier payments it is also about."""
    if payment["amount_cents"] > rules.LARGE_FACTOR * payment["typical_cents"]:
        yield "large", payment["id"], []
    same = [one["id"] for one in recent if minute_ms(one) == minute_ms(payment)]
    if len(same) + 1 == rules.BURST_PAYMENTS:
        yield "burst", f"{payment['card']} {minute_ms(payment)}", same
    for other in recent:
        if is_impossible(payment, other):
            yield "travel", " ".join(sorted((payment["id"], other["id"]))), [other["id"]]


def minute_ms(payment: Payment) -> int:
    at_ms: int = payment["at_ms"]
    return at_ms - at_ms % rules.MINUTE_MS


def is_impossible(one: Payment, other: Payment) -> bool:
    """True if one is at a till in one country, and the other too soon at a till in another."""
    soon = abs(one["at_ms"] - other["at_ms"]) <= rules.TRAVEL_MINUTES * rules.MINUTE_MS
    at_tills = one["channel"] == other["channel"] == "chip"
    return bool(soon and at_tills and one["country"] != other["country"])
