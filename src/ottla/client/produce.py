"""A producer for one topic: gathers records into batches and keeps a few requests under way.

Each partition's order is kept. With acks=all the producer is idempotent where the broker offers it,
so a resent batch is stored once and several may be under way; otherwise one batch a partition is.
A batch that cannot be delivered ends the producer: what follows would leave a hole in its order.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ottla.client.errors import DeliveryFailed, TopicMissing
from ottla.client.network.backoff import may_pass
from ottla.client.network.cluster import Cluster
from ottla.client.network.connection import Connection
from ottla.client.outbox import Batch, Identity, PartitionQueue, record_size
from ottla.client.partitioner import StickyPartitioner
from ottla.protocol.apis import ApiKey
from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from ottla.records.codec import Codec
from ottla.records.record import Headers, Record

PAUSE_AFTER_FAILURE_S = 0.1
ACKS_ALL = -1


@dataclass(frozen=True, slots=True)
class ProducerSettings:
    acks: int = ACKS_ALL
    codec: Codec = Codec.NONE
    level: int | None = None
    batch_bytes: int = 64 << 10
    linger_ms: float = 5.0
    request_bytes_max: int = 1 << 20
    in_flight_max: int = 5
    buffer_bytes_max: int = 32 << 20
    delivery_timeout_ms: int = 60_000
    idempotent: bool = True


@dataclass(frozen=True, slots=True)
class Delivered:
    """A batch that has arrived."""

    partition: int
    base_offset: int
    count: int
    size: int
    waited_s: float


class Producer:
    """Use as `async with Producer(...)`: leaving the block waits until everything has arrived."""

    def __init__(
        self,
        cluster: Cluster,
        topic: str,
        settings: ProducerSettings | None = None,
        *,
        on_delivered: Callable[[Delivered], object] | None = None,
    ) -> None:
        self._cluster = cluster
        self._runtime = cluster.runtime
        self.topic = topic
        self.settings = settings or ProducerSettings()
        self._on_delivered = on_delivered
        self._identity = Identity()
        self._queues: list[PartitionQueue] = []
        self._partitioner: StickyPartitioner | None = None
        self._in_flight_by_node: dict[int, int] = {}
        self._buffered_bytes = 0
        self._flushing = False
        self._wake = asyncio.Event()
        self._changed = asyncio.Event()
        self._failure: DeliveryFailed | None = None
        self._sender: asyncio.Task[None] | None = None
        self._resumer: asyncio.Task[None] | None = None
        self.delivered_count = 0

    async def __aenter__(self) -> Producer:
        topic = await self._cluster.topic(self.topic, create_missing=True)
        settings = self.settings
        self._queues = [
            PartitionQueue(partition.index, settings.codec, settings.level)
            for partition in topic.partitions
        ]
        self._partitioner = StickyPartitioner(len(self._queues), self._runtime.random)
        if settings.acks == ACKS_ALL and settings.idempotent:
            self._identity = await self._become_idempotent()
        self._sender = asyncio.create_task(self._send_forever(), name="producer")
        return self

    async def __aexit__(self, kind: object, *_: object) -> None:
        try:
            if kind is None:
                await self.flush()
        finally:
            for task in (self._sender, self._resumer):
                if task is not None:
                    task.cancel()
                    await asyncio.gather(task, return_exceptions=True)

    @property
    def partition_count(self) -> int:
        return len(self._queues)

    # Giving records

    async def send(
        self,
        value: bytes | None,
        key: bytes | None = None,
        *,
        headers: Headers = (),
        partition: int | None = None,
        timestamp_ms: int | None = None,
    ) -> None:
        """Take a record; waits while the buffer is full. Failures of earlier ones show here."""
        await self._room()
        assert self._partitioner is not None
        if partition is None:
            partition = self._partitioner.partition(key)
        queue = self._queue(partition)
        size = record_size(key, value, headers)
        now = self._runtime.clock.now()
        if queue.open_size + size > self.settings.batch_bytes:
            self._close(queue, now)
        if timestamp_ms is None:
            timestamp_ms = self._runtime.clock.wall_ms()
        self._buffered_bytes += size
        if queue.add(Record(0, timestamp_ms, key, value, headers), size, now):
            self._runtime.call_later(self.settings.linger_ms / 1000, self._wake.set)
        if queue.open_size >= self.settings.batch_bytes:
            self._close(queue, now)
            await asyncio.sleep(0)  # let the sender have the loop while the next batch fills

    async def send_batch(self, batch: Batch) -> None:
        """Take a batch whose bytes the caller builds; not to be mixed with `send`."""
        await self._room()
        self._buffered_bytes += batch.size
        self._queue(batch.partition).append(batch)
        self._wake.set()
        await asyncio.sleep(0)

    async def flush(self) -> None:
        """Return when everything taken so far has arrived."""
        self._flushing = True
        self._wake.set()
        try:
            while self._buffered_bytes:
                self._raise_failure()
                await self._wait_for_change()
        finally:
            self._flushing = False
        self._raise_failure()

    async def _room(self) -> None:
        self._raise_failure()
        while self._buffered_bytes >= self.settings.buffer_bytes_max:
            await self._wait_for_change()
            self._raise_failure()

    async def _wait_for_change(self) -> None:
        self._changed.clear()
        await self._changed.wait()

    def _raise_failure(self) -> None:
        if self._failure is not None:
            raise self._failure

    def _queue(self, partition: int) -> PartitionQueue:
        if not 0 <= partition < len(self._queues):
            raise TopicMissing(self.topic, partition)
        return self._queues[partition]

    def _close(self, queue: PartitionQueue, now: float) -> None:
        assert self._partitioner is not None
        queue.close_open(now)
        self._partitioner.batch_full(queue.partition)
        self._wake.set()

    # Sending batches

    async def _become_idempotent(self) -> Identity:
        from ottla.protocol.messages.init_producer_id import InitProducerIdRequest

        async def attempt() -> Identity:
            connection = await self._cluster.any_broker()
            if not connection.versions.supports(ApiKey.INIT_PRODUCER_ID):
                return Identity()
            request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=60_000)
            response = await connection.request(request)
            if response.error_code:
                raise KafkaError(ErrorCode.of(response.error_code))
            return Identity(response.producer_id, response.producer_epoch)

        return await self._cluster.retrying(attempt)

    async def _send_forever(self) -> None:
        while self._failure is None:
            await self._wake.wait()
            self._wake.clear()
            try:
                await self._send_ready()
            except Exception as error:
                self._fail(-1, error)

    async def _send_ready(self) -> None:
        """Requests to every leader that has capacity, until none has both work and capacity."""
        while self._failure is None:
            now = self._runtime.clock.now()
            linger_s = 0.0 if self._flushing else self.settings.linger_ms / 1000
            loads: dict[int, list[Batch]] = {}
            for queue in self._queues:
                queue.close_if_due(now, linger_s)
                if queue.ready:
                    await self._load(queue, loads)
            if not loads:
                return
            for node_id, batches in loads.items():
                await self._send_to(node_id, batches)

    async def _load(self, queue: PartitionQueue, loads: dict[int, list[Batch]]) -> None:
        leader = (await self._cluster.partition(self.topic, queue.partition)).leader
        if self._in_flight_by_node.get(leader, 0) >= self.settings.in_flight_max:
            return
        load = loads.get(leader, [])
        if sum(batch.size for batch in load) >= self.settings.request_bytes_max:
            return
        per_partition_max = self.settings.in_flight_max if self._identity.known else 1
        batch = queue.take(self._identity, per_partition_max)
        if batch is not None:
            loads.setdefault(leader, load).append(batch)

    async def _send_to(self, node_id: int, batches: list[Batch]) -> None:
        try:
            connection = await self._cluster.broker(node_id)
            version = connection.version_of(ProduceRequest)
            request = self._request(batches)
            if self.settings.acks == 0:
                await self._send_unanswered(connection, request, version, batches)
                return
            reply = connection.post(
                request, version=version, timeout_ms=self._cluster.request_timeout_ms
            )
        except Exception as error:
            self._all_failed(batches, error)
            return
        self._in_flight_by_node[node_id] = self._in_flight_by_node.get(node_id, 0) + 1
        reply.add_done_callback(lambda done: self._answered(node_id, batches, done))

    def _request(self, batches: list[Batch]) -> ProduceRequest:
        return ProduceRequest(
            acks=self.settings.acks,
            timeout_ms=self._cluster.request_timeout_ms,
            topic_data=[
                TopicProduceData(
                    name=self.topic,
                    topic_id=self._cluster.topic_id(self.topic),
                    partition_data=[
                        PartitionProduceData(index=batch.partition, records=batch.data)
                        for batch in batches
                    ],
                )
            ],
        )

    async def _send_unanswered(
        self, connection: Connection, request: ProduceRequest, version: int, batches: list[Batch]
    ) -> None:
        connection.post_unanswered(request, version=version)
        await connection.drained()
        for batch in batches:
            self._arrived(batch, -1)

    # Answers

    def _answered(self, node_id: int, batches: list[Batch], done: asyncio.Future[Any]) -> None:
        self._in_flight_by_node[node_id] -= 1
        if done.cancelled():
            return
        error = done.exception()
        if error is not None:
            self._all_failed(batches, error)
        else:
            answers = {
                answer.index: answer
                for topic in done.result().responses
                for answer in topic.partition_responses
            }
            for batch in batches:
                self._settle(batch, answers.get(batch.partition))
        self._wake.set()

    def _settle(self, batch: Batch, answer: Any) -> None:
        if answer is None:
            self._batch_failed(batch, KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, "not answered"))
        elif answer.error_code == ErrorCode.NONE:
            self._arrived(batch, answer.base_offset)
        elif answer.error_code == ErrorCode.DUPLICATE_SEQUENCE_NUMBER:
            self._arrived(batch, -1)
        else:
            code = ErrorCode.of(answer.error_code)
            self._batch_failed(batch, KafkaError(code, _reason(answer, code)))

    def _arrived(self, batch: Batch, base_offset: int) -> None:
        queue = self._queues[batch.partition]
        queue.delivered()
        self._buffered_bytes -= batch.size
        self.delivered_count += batch.count
        if self._on_delivered is not None:
            waited_s = self._runtime.clock.now() - batch.closed_at
            self._on_delivered(
                Delivered(batch.partition, base_offset, batch.count, batch.size, waited_s)
            )
        if queue.is_recovering:
            self._resume_later()
        self._changed.set()

    def _all_failed(self, batches: list[Batch], error: BaseException) -> None:
        for batch in batches:
            self._batch_failed(batch, error)

    def _batch_failed(self, batch: Batch, error: BaseException) -> None:
        queue = self._queues[batch.partition]
        behind_another = queue.is_recovering
        queue.failed(batch)
        waited_ms = (self._runtime.clock.now() - batch.closed_at) * 1000
        hopeful = may_pass(error) or (
            # The broker saw a later batch before the failed one was resent: only a consequence.
            behind_another
            and isinstance(error, KafkaError)
            and error.code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        )
        if not hopeful or waited_ms > self.settings.delivery_timeout_ms:
            self._fail(batch.partition, error)
        else:
            self._resume_later()

    def _fail(self, partition: int, error: BaseException) -> None:
        if self._failure is None:
            cause = error if isinstance(error, Exception) else RuntimeError(str(error))
            self._failure = DeliveryFailed(self.topic, partition, cause)
        self._wake.set()
        self._changed.set()

    def _resume_later(self) -> None:
        if self._resumer is None or self._resumer.done():
            self._resumer = asyncio.create_task(self._resume(), name="producer-resume")

    async def _resume(self) -> None:
        """After a pause ask anew who leads, and send again what failed."""
        while any(queue.is_recovering for queue in self._queues) and self._failure is None:
            await asyncio.sleep(PAUSE_AFTER_FAILURE_S)
            try:
                await self._cluster.topic(self.topic)
            except Exception as error:
                if not may_pass(error):
                    self._fail(-1, error)
                    return
                self._expire()
                continue
            for queue in self._queues:
                queue.resume()
            self._wake.set()

    def _expire(self) -> None:
        """While no broker answers nothing is resent, so nothing could fail: look at the clock."""
        limit_s = self.settings.delivery_timeout_ms / 1000
        now = self._runtime.clock.now()
        for queue in self._queues:
            if (oldest := queue.oldest_failed_at) is not None and now - oldest > limit_s:
                self._fail(queue.partition, KafkaError(ErrorCode.REQUEST_TIMED_OUT))


def _reason(answer: Any, code: ErrorCode) -> str:
    texts = [answer.error_message or code.message]
    texts += [
        f"record {error.batch_index}: {error.batch_index_error_message}"
        for error in answer.record_errors
        if error.batch_index_error_message
    ]
    return "; ".join(texts)
