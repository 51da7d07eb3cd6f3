"""The figures shown while the demo runs, collected from its threads."""

from __future__ import annotations

import json
import time
from collections import Counter, deque
from dataclasses import dataclass, field
from statistics import median
from typing import Any

LATENCIES_KEPT = 20
RATE_OVER_S = 5.0


QUERIES = ("intake", "minutes", "fraud", "archive")
"""In the order in which a payment passes them."""


@dataclass
class QueryFigures:
    batch: int = -1
    batches: int = 0
    """Batches that had records."""
    rows: int = 0
    """Rows of the last batch that had records."""
    ms: int = 0
    total: int = 0
    """Records of all batches; a batch that is repeated after a kill counts once."""
    end: int = 0
    """Records of its topic that it has passed."""


@dataclass
class Figures:
    queries: dict[str, QueryFigures] = field(default_factory=dict)
    alerts: Counter[str] = field(default_factory=Counter)
    latest: deque[str] = field(default_factory=lambda: deque(maxlen=4))
    latencies_s: deque[float] = field(default_factory=lambda: deque(maxlen=LATENCIES_KEPT))
    notes: list[str] = field(default_factory=list)
    sent: int = 0
    opened_at: float | None = None
    """When the timed payments began."""
    first_alert_s: float | None = None
    """From then until the first alert."""
    _samples: deque[tuple[float, int]] = field(default_factory=deque)

    def batch_done(self, told: dict[str, Any]) -> None:
        one = self.queries.setdefault(told["query"], QueryFigures())
        one.end = _records(told["end"]) or one.end
        if told["rows"]:
            one.rows, one.ms = told["rows"], told["ms"]
            one.batches += 1
            one.total += told["rows"] if told["batch"] > one.batch else 0
            one.batch = told["batch"]

    def alert(self, alert: dict[str, Any], sent_at: float | None) -> None:
        self.alerts[alert["rule"]] += 1
        self.latest.append(f"{alert['rule']:6}  {alert['card']}  {alert['name']}")
        if sent_at is not None:
            self.latencies_s.append(time.time() - sent_at)
            if self.opened_at is not None and self.first_alert_s is None:
                self.first_alert_s = time.time() - self.opened_at
                self.note(f"First alert {self.first_alert_s:.1f} s after the first payment")

    def batches_done(self) -> int:
        """Return the batches done by the query that has done the fewest."""
        return min(self.queries[name].batches if name in self.queries else 0 for name in QUERIES)

    def note(self, text: str) -> None:
        self.notes.append(text)

    def sample(self) -> None:
        """Take a sample for the rate; call this from time to time."""
        now = time.monotonic()
        self._samples.append((now, self.sent))
        while now - self._samples[0][0] > RATE_OVER_S:
            self._samples.popleft()

    @property
    def per_s(self) -> float:
        if len(self._samples) < 2:
            return 0.0
        (began, first), (ended, last) = self._samples[0], self._samples[-1]
        return (last - first) / max(ended - began, 1e-9)

    @property
    def lag(self) -> int:
        """Events that are sent and not yet processed."""
        first = self.queries.get("intake")
        return max(0, self.sent - (first.end if first else 0))

    @property
    def latency_s(self) -> float | None:
        return median(self.latencies_s) if self.latencies_s else None


def _records(end: Any) -> int:
    """Sum the offsets in `{"topic": {"0": 12, "1": 7}, "@ids": ...}`, which may come as text."""
    offsets = json.loads(end) if isinstance(end, str) else end or {}
    return sum(sum(parts.values()) for topic, parts in offsets.items() if topic[0] != "@")
