"""Metrics of connections, under Kafka's names."""

from __future__ import annotations

from ottla.counters import MetricRegistry


class ConnectionMetrics:
    """Looked up once, because every request updates them."""

    __slots__ = (
        "closed",
        "created",
        "failed_authentications",
        "incoming_bytes",
        "latency_ms",
        "outgoing_bytes",
        "requests",
        "responses",
        "throttle_ms",
    )

    def __init__(self, metrics: MetricRegistry) -> None:
        self.created = metrics.counter("connection-creation-total")
        self.closed = metrics.counter("connection-close-total")
        self.failed_authentications = metrics.counter("failed-authentication-total")
        self.requests = metrics.counter("request-total")
        self.responses = metrics.counter("response-total")
        self.outgoing_bytes = metrics.counter("outgoing-byte-total")
        self.incoming_bytes = metrics.counter("incoming-byte-total")
        self.latency_ms = metrics.timer("request-latency")
        self.throttle_ms = metrics.timer("throttle-time")
        metrics.gauge("connection-count", self.open_count)

    def open_count(self) -> int:
        return self.created.value - self.closed.value
