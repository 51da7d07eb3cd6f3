"""Metrics of group membership, under Kafka's names."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from ottla.client.consumer.subscriptions import Subscriptions
from ottla.counters import MetricRegistry
from ottla.runtime.clock import Clock

NEVER = -1.0


class MembershipMetrics:
    def __init__(self, metrics: MetricRegistry, clock: Clock, subscriptions: Subscriptions) -> None:
        self._metrics = metrics
        self._clock = clock
        self._rebalance_began: float | None = None
        self._rebalanced_at: float | None = None
        self._heartbeat_at: float | None = None
        self.rebalances = metrics.counter("rebalance-total")
        self.failed_rebalances = metrics.counter("failed-rebalance-total")
        self._rebalance_latency = metrics.timer("rebalance-latency")
        self._rebalance_time = metrics.counter("rebalance-latency-total")
        self.heartbeats = metrics.counter("heartbeat-total")
        metrics.gauge("assigned-partitions", lambda: len(subscriptions.states))
        metrics.gauge("last-rebalance-seconds-ago", lambda: self._since(self._rebalanced_at))
        metrics.gauge("last-heartbeat-seconds-ago", lambda: self._since(self._heartbeat_at))

    def _since(self, moment: float | None) -> float:
        return NEVER if moment is None else self._clock.now() - moment

    def rebalance_began(self) -> None:
        """Note the start of a rebalance. Attempts after a failure belong to the same one."""
        if self._rebalance_began is None:
            self._rebalance_began = self._clock.now()

    def rebalance_ended(self) -> None:
        now = self._clock.now()
        began = now if self._rebalance_began is None else self._rebalance_began
        self._rebalance_began = None
        self._rebalanced_at = now
        self.rebalances.add()
        self._rebalance_latency.record((now - began) * 1000)
        self._rebalance_time.add(round((now - began) * 1000))

    def heartbeat_sent(self) -> None:
        self._heartbeat_at = self._clock.now()
        self.heartbeats.add()

    @contextmanager
    def timed(self, name: str, total: str | None = None) -> Iterator[None]:
        """Record the milliseconds as `<name>-avg` and `<name>-max`, and count under `total`."""
        began = self._clock.now()
        try:
            yield
        finally:
            self._metrics.timer(name).record((self._clock.now() - began) * 1000)
            if total is not None:
                self._metrics.counter(total).add()
