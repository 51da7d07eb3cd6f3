"""Metrics of the producer, under the names of Kafka's client."""

from __future__ import annotations

from ottla.client.producer.batching.batch import ProducerBatch
from ottla.client.producer.batching.memory import BufferMemory
from ottla.client.producer.sending.requests import Load
from ottla.counters import MetricRegistry
from ottla.runtime.clock import Clock


class ProducerMetrics:
    def __init__(self, metrics: MetricRegistry, clock: Clock) -> None:
        self._all = metrics
        self._clock = clock
        self._began = clock.now()
        self.sent = metrics.counter("record-send-total")
        self.failed = metrics.counter("record-error-total")
        self.retried = metrics.counter("record-retry-total")
        self.splits = metrics.counter("batch-split-total")
        self.flush_ns = metrics.counter("flush-time-ns-total")
        self._batch_size = metrics.timer("batch-size")
        self._records = metrics.timer("records-per-request")
        self._queue_time = metrics.timer("record-queue-time")
        self._record_size = metrics.timer("record-size")
        self.compression_rate = metrics.timer("compression-rate")
        self.throttle_time = metrics.timer("produce-throttle-time")

    def watch_memory(self, memory: BufferMemory) -> None:
        gauge = self._all.gauge
        gauge("buffer-total-bytes", lambda: memory.limit)
        gauge("buffer-available-bytes", lambda: memory.free)
        gauge("waiting-threads", lambda: memory.waiting)
        gauge("buffer-exhausted-total", lambda: memory.exhausted_count)
        gauge("bufferpool-wait-time-ns-total", lambda: memory.waited_s * 1e9)
        gauge("bufferpool-wait-ratio", lambda: min(1.0, memory.waited_s / self._age_s()))

    def posted(self, load: Load) -> None:
        """Count a request that was sent."""
        count = 0
        for batch in load.batches:
            count += batch.count
            self._left(batch, load.posted_at)
        self._records.record(count)
        self.sent.add(count)

    def snapshot(self) -> dict[str, float]:
        return self._all.snapshot()

    def _left(self, batch: ProducerBatch, now: float) -> None:
        size = 0 if batch.data is None else len(batch.data)
        self._batch_size.record(size)
        self._record_size.record(size / max(1, batch.count))
        self._queue_time.record((now - batch.created_at) * 1000)

    def _age_s(self) -> float:
        return max(1e-3, self._clock.now() - self._began)
