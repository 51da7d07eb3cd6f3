"""Decides what happens to batches: they are delivered, retried, split or failed.

Kafka's rules for an idempotent producer apply (KIP-360): a duplicate is a success; a batch that is
out of order only because an earlier one failed is retried after it; a batch that is out of order by
itself leads to a new epoch; every batch ends after `delivery_timeout_ms`.
"""

from __future__ import annotations

from typing import Any, Protocol

from ottla.client.errors import DeliveryTimedOut, ProducerClosed
from ottla.client.network.cluster import Cluster
from ottla.client.network.metadata import Broker
from ottla.client.producer.batching.accumulator import Accumulator
from ottla.client.producer.batching.batch import ProducerBatch
from ottla.client.producer.batching.partition_queue import NO_LEADER, PartitionQueue
from ottla.client.producer.batching.splitting import split
from ottla.client.producer.producer_metrics import ProducerMetrics
from ottla.client.producer.routing.topic_route import TopicRoute
from ottla.client.producer.sending import verdicts
from ottla.client.producer.sending.failures import Failures
from ottla.client.producer.sending.idempotence import IdempotentIdentity
from ottla.client.producer.sending.identity import IdentityKeeper, Nobody
from ottla.client.producer.sending.requests import Load
from ottla.client.producer.sending.verdicts import Verdict
from ottla.client.settings.producer import ProducerSettings
from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.runtime.runtime import Timer

JITTER = 0.2
NOT_ANSWERED = KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, "the broker left the partition out")


class Scheduler(Protocol):
    """The part of the sender that delivery uses."""

    def ready(self, queue: PartitionQueue) -> None: ...

    def rest(self, queue: PartitionQueue, pause_s: float) -> None: ...

    def trouble_of(self, node_id: int) -> Exception | None: ...


class Delivery:
    def __init__(
        self,
        cluster: Cluster,
        settings: ProducerSettings,
        routes: dict[str, TopicRoute],
        accumulator: Accumulator,
        failures: Failures,
        metrics: ProducerMetrics,
        scheduler: Scheduler,
    ) -> None:
        self.keeper: IdentityKeeper = Nobody()
        self._cluster = cluster
        self._runtime = cluster.runtime
        self._settings = settings
        self._routes = routes
        self._accumulator = accumulator
        self._failures = failures
        self._metrics = metrics
        self._scheduler = scheduler
        self._timeout_s = settings.delivery_timeout_ms / 1000
        self._deadline: Timer | None = None

    def _queue(self, batch: ProducerBatch) -> PartitionQueue:
        topic, partition = batch.partition
        return self._routes[topic].queues[partition]

    def may_go_on(self, queue: PartitionQueue) -> bool:
        """Return whether the queue's sequence numbers are in order; restart them if possible."""
        if not queue.wants_new_start:
            return True
        keeper = self.keeper
        if queue.on_wire or not isinstance(keeper, IdempotentIdentity):
            return False
        if queue.identity == keeper.identity:
            keeper.start_anew()
        queue.start_anew()
        return keeper.ready

    # Responses

    def answered(self, load: Load, response: Any) -> None:
        self._metrics.throttle_time.record(response.throttle_time_ms)
        answers = load.answers(response)
        for batch in load.batches:
            answer = answers.get(batch.partition)
            if answer is None:
                self._send_again(batch, NOT_ANSWERED)
            else:
                self._settle(batch, answer, response)

    def failed(self, load: Load, error: BaseException) -> None:
        """Handle a request that failed, or whose outcome is unknown."""
        cause = error if isinstance(error, Exception) else RuntimeError(repr(error))
        verdict = verdicts.verdict_on_failure(error)
        for batch in load.batches:
            if verdict is Verdict.RESEND:
                self._send_again(batch, cause)
            else:
                self._refuse(batch, cause)
        self._cluster.metadata.request_refresh()

    def left(self, load: Load) -> None:
        """Complete batches that were sent without waiting for a response (acks=0)."""
        for batch in load.batches:
            self._deliver(batch, -1, -1)

    def _settle(self, batch: ProducerBatch, answer: Any, response: Any) -> None:
        code = ErrorCode.of(answer.error_code)
        verdict = verdicts.verdict_on_code(code, batch.count)
        if verdict is Verdict.DELIVERED:
            offset = -1 if code else answer.base_offset
            self._deliver(batch, offset, answer.log_append_time_ms)
            return
        error = verdicts.error_of(batch.partition, answer)
        if verdict is Verdict.RESEND:
            self._send_again(batch, error)
            self._look_for_leader(batch, code, answer, response)
        elif verdict is Verdict.OUT_OF_ORDER:
            self._out_of_order(batch, error)
        elif verdict is Verdict.SPLIT and not batch.done:
            self._split(batch)
        else:
            others = verdicts.error_of_others(batch.partition, answer)
            self._refuse(batch, others, verdicts.record_errors_of(batch.partition, answer))

    def _look_for_leader(
        self, batch: ProducerBatch, code: ErrorCode, answer: Any, response: Any
    ) -> None:
        leader = answer.current_leader
        if code in verdicts.NAMES_NEW_LEADER and leader.leader_id >= 0:
            endpoints = [
                Broker(node.node_id, node.host, node.port, node.rack)
                for node in response.node_endpoints
            ]
            self._cluster.metadata.leader_changed(
                batch.partition, leader.leader_id, leader.leader_epoch, endpoints
            )
        self._cluster.metadata.request_refresh()

    def _deliver(self, batch: ProducerBatch, base_offset: int, append_time: int) -> None:
        queue = self._queue(batch)
        queue.delivered(batch)
        self.keeper.delivered(batch.partition)
        if not batch.done:
            batch.complete(base_offset, append_time)
            self._accumulator.forget(batch)

    def _send_again(self, batch: ProducerBatch, error: Exception) -> None:
        batch.trouble = error
        queue = self._queue(batch)
        if not batch.done and batch.attempts > self._settings.retries:
            self._fail(batch, error)
        queue.came_back(batch)
        if not batch.done:
            self._metrics.retried.add(batch.count)
            self._scheduler.rest(queue, self._pause_s(batch.attempts))
        elif queue.waiting:
            self._scheduler.ready(queue)

    def _out_of_order(self, batch: ProducerBatch, error: Exception) -> None:
        queue = self._queue(batch)
        if self.keeper.is_transactional and not queue.is_consequence(batch):
            self._refuse(batch, error)  # the transaction can no longer be complete
            return
        if not queue.is_consequence(batch):
            queue.mark_hole(batch)
        self._send_again(batch, error)

    def _split(self, batch: ProducerBatch) -> None:
        queue = self._queue(batch)
        parts, ratio = split(batch, self._settings.batch_size)
        self._routes[batch.partition.topic].was_too_large(ratio)
        self._metrics.splits.add()
        for part in parts:
            self._accumulator.memory.free -= part.memory
        self._accumulator.memory.release(batch.memory)
        batch.memory = 0
        queue.split(batch, parts)
        batch.adopt_parts(parts)
        self._scheduler.ready(queue)

    def _refuse(
        self,
        batch: ProducerBatch,
        error: Exception,
        record_errors: dict[int, Exception] | None = None,
    ) -> None:
        queue = self._queue(batch)
        queue.refused(batch)
        if not batch.done:
            self._fail(batch, error, record_errors)
        if queue.waiting:
            self._scheduler.ready(queue)

    def _pause_s(self, attempts: int) -> float:
        settings = self._settings
        limit_ms = max(settings.retry_backoff_ms, settings.retry_backoff_max_ms)
        pause_ms = min(settings.retry_backoff_ms * 2.0 ** min(attempts - 1, 30), limit_ms)
        return pause_ms / 1000 * (1 + JITTER * (2 * self._runtime.random.random() - 1))

    # Failing

    def _fail(
        self,
        batch: ProducerBatch,
        error: Exception,
        record_errors: dict[int, Exception] | None = None,
    ) -> None:
        self._metrics.failed.add(batch.count)
        self._failures.add(batch)
        batch.fail(error, record_errors)
        self._accumulator.forget(batch)
        self.keeper.failed(batch.partition, error)

    def give_up(self, batch: ProducerBatch, error: Exception) -> None:
        """Fail a batch wherever it is, with all its parts that have no outcome yet."""
        if batch.parts is not None:
            for part in batch.parts:
                self.give_up(part, error)
        elif not batch.done:
            self._queue(batch).give_up(batch)
            self._fail(batch, error)

    def give_up_all(self, error: Exception) -> None:
        for batch in list(self._accumulator.incomplete):
            self.give_up(batch, error)

    def give_up_for_closing(self) -> None:
        """Fail every record with an error that says whether it may have arrived, and why."""
        for batch in list(self._accumulator.incomplete):
            for leaf in batch.leaves():
                if not leaf.done:
                    self.give_up(leaf, self._closed_before(leaf))

    def _closed_before(self, batch: ProducerBatch) -> ProducerClosed:
        text = "the producer was closed before the record was acknowledged"
        if batch.attempts:
            text += "; it was under way and may have arrived"
        trouble = batch.trouble or self._scheduler.trouble_of(self._queue(batch).leader)
        if trouble is not None:
            text += f" ({trouble})"
        return ProducerClosed(text, may_have_arrived=batch.attempts > 0)

    # Deadlines

    def watch_deadlines(self) -> None:
        """Start the timer for the oldest batch, which is the first to expire."""
        if self._deadline is None:
            for batch in self._accumulator.incomplete:
                wait_s = batch.created_at + self._timeout_s - self._runtime.clock.now()
                self._deadline = self._runtime.call_later(max(0.0, wait_s), self._expire)
                return

    def _expire(self) -> None:
        self._deadline = None
        now = self._runtime.clock.now()
        for batch in list(self._accumulator.incomplete):
            if batch.created_at + self._timeout_s > now:
                break
            for part in batch.leaves():
                if not part.done:
                    self.give_up(part, self._timed_out(part, now))
        self.watch_deadlines()

    def _timed_out(self, batch: ProducerBatch, now: float) -> DeliveryTimedOut:
        queue = self._queue(batch)
        reason = self._reason(batch, queue)
        if batch is queue.gathering:
            batch.close()
        waited_ms = (now - batch.created_at) * 1000
        return DeliveryTimedOut(batch.partition, batch.count, waited_ms, reason)

    def _reason(self, batch: ProducerBatch, queue: PartitionQueue) -> str:
        if batch.trouble is not None:
            return str(batch.trouble)
        if batch in queue.on_wire:
            return "the broker has not answered"
        if queue.leader == NO_LEADER:
            trouble = self._cluster.metadata.failure
            return f"no leader is known{f' ({trouble})' if trouble else ''}"
        if (trouble := self._scheduler.trouble_of(queue.leader)) is not None:
            return str(trouble)
        if isinstance(self.keeper, IdempotentIdentity) and self.keeper.trouble is not None:
            return f"no producer id could be had: {self.keeper.trouble}"
        return "earlier batches are still on their way: brokers are slower than this producer"

    def stop(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
