"""What is seen while the demo runs, gathered from its threads for whoever shows it."""

from __future__ import annotations

import json
import time
from collections import Counter, deque
from dataclasses import dataclass, field
from statistics import median
from typing import Any

LATENCIES_KEPT = 20
RATE_OVER_S = 5.0


@dataclass
class QueryFigures:
    batch: int = -1
    rows: int = 0
    """Of the last batch that had any."""
    ms: int = 0
    end: int = 0
    """Records of its topic that it is past."""


@dataclass
class Figures:
    queries: dict[str, QueryFigures] = field(default_factory=dict)
    alerts: Counter[str] = field(default_factory=Counter)
    latest: deque[str] = field(default_factory=lambda: deque(maxlen=4))
    latencies_s: deque[float] = field(default_factory=lambda: deque(maxlen=LATENCIES_KEPT))
    notes: list[str] = field(default_factory=list)
    sent: int = 0
    batches: int = 0
    """Of all queries, those that had rows."""
    _samples: deque[tuple[float, int]] = field(default_factory=deque)

    def batch_done(self, told: dict[str, Any]) -> None:
        one = self.queries.setdefault(told["query"], QueryFigures())
        one.batch = told["batch"]
        one.end = _records(told["end"]) or one.end
        if told["rows"]:
            one.rows, one.ms = told["rows"], told["ms"]
            self.batches += 1

    def alert(self, alert: dict[str, Any], sent_at: float | None) -> None:
        self.alerts[alert["rule"]] += 1
        self.latest.append(f"{alert['rule']:6}  {alert['card']}  {alert['name']}")
        if sent_at is not None:
            self.latencies_s.append(time.time() - sent_at)

    def note(self, text: str) -> None:
        self.notes.append(text)

    def sample(self) -> None:
        """To be called now and then, for the rate."""
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
        """Events that are sent and not yet looked at."""
        first = self.queries.get("intake")
        return max(0, self.sent - (first.end if first else 0))

    @property
    def latency_s(self) -> float | None:
        return median(self.latencies_s) if self.latencies_s else None


def _records(end: Any) -> int:
    """Of `{"topic": {"0": 12, "1": 7}, "@ids": ...}`, which may come as text."""
    offsets = json.loads(end) if isinstance(end, str) else end or {}
    return sum(sum(parts.values()) for topic, parts in offsets.items() if topic[0] != "@")
