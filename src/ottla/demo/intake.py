"""The intake of events: parses and checks them, and passes each payment once."""

from __future__ import annotations

import json
from typing import Any

from ottla.demo import rules
from ottla.streams import Context, Processor, ProcessorRecord

PAYMENT = (
    "id string, card string, customer string, merchant string, category string, country string, "
    "channel string, amount_cents bigint, at_ms bigint"
)
SEEN = "id string, at_ms bigint"


class Intake(Processor):
    """Keyed by card: a payment that a terminal repeats, without an answer, has the same card."""

    def init(self, context: Context) -> None:
        self._context = context
        self._seen = context.store("intake")

    def process(self, record: ProcessorRecord) -> None:
        payment = payment_in(record.value)
        seen = self._seen.get()
        if any(one["id"] == payment["id"] for one in seen):
            return
        seen.append({"id": payment["id"], "at_ms": payment["at_ms"]})
        self._seen.put(rules.recent(seen))
        self._context.forward(record.key, payment)


def payment_in(event: bytes) -> dict[str, Any]:
    """Parse an event. An error here makes the event a dead letter with the reason."""
    fields = json.loads(event)
    payment = {column.split()[0]: fields[column.split()[0]] for column in PAYMENT.split(", ")}
    if payment["amount_cents"] <= 0 or payment["at_ms"] <= 0:
        raise ValueError(f"nobody pays {payment['amount_cents']} cents at {payment['at_ms']}")
    return payment
