"""Each payment once, though terminals that had no answer send some again."""

from __future__ import annotations

from typing import Any

from ottla.demo import rules
from ottla.streams import Context, Processor, ProcessorRecord

SEEN = "id string, at_ms bigint"


class Once(Processor):
    """Keyed by card: the same payment has the same card."""

    def init(self, context: Context) -> None:
        self._context = context
        self._seen = context.store("once")

    def process(self, record: ProcessorRecord) -> None:
        payment: dict[str, Any] = record.value
        seen = self._seen.get()
        if any(one["id"] == payment["id"] for one in seen):
            return
        seen.append({"id": payment["id"], "at_ms": payment["at_ms"]})
        self._seen.put(rules.recent(seen))
        self._context.forward(record.key, payment)
