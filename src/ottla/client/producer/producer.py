"""Sending records.

async with Producer(bootstrap_servers="localhost:9092") as producer:
    sent = await producer.send("payments", key=b"alice", value=b"200")
    metadata = await sent
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Unpack

from ottla.client.errors import IllegalState, ProducerClosed
from ottla.client.network.backoff import retrying
from ottla.client.network.cluster import Cluster
from ottla.client.producer.arrow_input import ColumnNames
from ottla.client.producer.columns import RowIntake
from ottla.client.producer.engine import Engine
from ottla.client.producer.interceptors import Interceptors
from ottla.client.producer.losses import Losses
from ottla.client.producer.transaction_methods import TransactionMethods
from ottla.client.settings.base import settings_from
from ottla.client.settings.producer import ProducerOptions, ProducerSettings
from ottla.client.values import RecordMetadata
from ottla.runtime.ambient import new_runtime

if TYPE_CHECKING:
    from types import TracebackType

    from ottla.client.producer.batch import OnDelivery, ProducerBatch
    from ottla.client.producer.intake import Headers
    from ottla.client.producer.sent import Sent
    from ottla.client.producer.sent_rows import SentRows
    from ottla.runtime.runtime import Runtime

LEAVING_MAX_MS = 30_000
"""How long leaving the block by an exception waits for outcomes, at most."""


class Producer(TransactionMethods):
    """Use it as `async with Producer(...)`, or call `start()` and `close()`.

    Leaving the block waits until every record has its outcome, and raises `DeliveryFailed` if one
    failed that nobody has looked at. If the block is left by an exception, what was given is
    delivered all the same, within `delivery_timeout_ms` and 30 seconds at most; the exception gets
    a note about what was not. Of an open transaction nothing more is sent, and it is aborted.

    Records of one partition arrive in the order in which they were given, each once: the default
    settings make the producer idempotent. With `acks` of 0 or 1 and several requests in flight a
    resent batch may overtake another, as in Kafka's own client.
    """

    def __init__(
        self, *, runtime: Runtime | None = None, **options: Unpack[ProducerOptions]
    ) -> None:
        self._settings = settings_from(ProducerSettings, options)
        self._interceptors = Interceptors(self._settings.interceptors)
        self._runtime = runtime
        self._own_runtime: Runtime | None = None
        self._given_cluster: Cluster | None = None
        self._engine: Engine | None = None
        self._is_closed = False
        self._closing: asyncio.Event | None = None
        """Set when the first `close` is over."""

    @classmethod
    def over(cls, cluster: Cluster, **options: Unpack[ProducerOptions]) -> Producer:
        """A producer on a cluster that somebody else has connected to, and closes."""
        producer = cls(runtime=cluster.runtime, **options)
        producer._given_cluster = cluster
        return producer

    # Life

    async def start(self) -> None:
        """Connect. Raises if no broker can be reached within `max_block_ms`; it is tried once at
        least."""
        if self._engine is not None or self._is_closed:
            raise IllegalState("a producer is started once; make a new one")
        cluster = self._given_cluster
        if cluster is None:
            cluster = Cluster.of(self._settings, self._runtime or self._make_runtime())
            try:
                await retrying(
                    cluster.runtime,
                    cluster.any_broker,
                    within_ms=self._connect_within_ms(),
                    pauses=cluster.pauses(),
                )
            except BaseException:
                cluster.close()
                await self._close_runtime()
                raise
        self._engine = Engine(cluster, self._settings, self._interceptors)

    def _connect_within_ms(self) -> int:
        return min(self._settings.max_block_ms, self._settings.default_api_timeout_ms)

    async def close(self, timeout_ms: float | None = None) -> None:
        """Send what is left, wait for every outcome, and hang up.

        After `timeout_ms` what has no outcome yet fails with `ProducerClosed`. Raises the first
        failure that nobody has looked at. An open transaction is aborted. While another `close`
        is under way, this one waits for it.
        """
        await self._close(timeout_ms)
        if self._engine is not None:
            self._engine.failures.raise_unseen()

    async def _close(self, timeout_ms: float | None, *, deliver: bool = True) -> None:
        if self._engine is not None:
            self._engine.intake.check_loop()
        if self._is_closed:
            await self._closed_by_another(timeout_ms)
            return
        self._is_closed = True
        self._closing = asyncio.Event()
        try:
            if self._engine is not None:
                await self._engine.close(timeout_ms, deliver=deliver)
        finally:
            try:
                self._interceptors.close()
                if self._engine is not None and self._given_cluster is None:
                    self._engine.cluster.close()
                await self._close_runtime()
            finally:
                self._closing.set()

    async def _closed_by_another(self, timeout_ms: float | None) -> None:
        if self._closing is None:
            return
        try:
            async with asyncio.timeout(None if timeout_ms is None else timeout_ms / 1000):
                await self._closing.wait()
        except TimeoutError:
            assert self._engine is not None
            self._engine.give_up()
            await self._closing.wait()

    async def _leave(self, error: BaseException, within_ms: float | None = None) -> None:
        """Close because of an error, which is told what was not delivered."""
        engine = self._engine
        if engine is None or engine.transactions is not None:
            await self._close(None, deliver=False)
            return
        losses = Losses(engine)
        try:
            await self._close(self._leaving_ms if within_ms is None else within_ms)
        finally:
            losses.tell(error)

    @property
    def _leaving_ms(self) -> float:
        return min(self._settings.delivery_timeout_ms, LEAVING_MAX_MS)

    def _make_runtime(self) -> Runtime:
        self._own_runtime = new_runtime()
        return self._own_runtime

    async def _close_runtime(self) -> None:
        if self._own_runtime is not None:
            await self._own_runtime.close()

    async def __aenter__(self) -> Producer:
        await self.start()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await (self.close() if error is None else self._leave(error))

    def _running(self) -> Engine:
        if self._is_closed:
            raise ProducerClosed
        if self._engine is None:
            raise IllegalState("the producer is not started: use `async with`, or await start()")
        return self._engine

    # Records

    async def send(
        self,
        topic: str,
        value: Any = None,
        key: Any = None,
        *,
        headers: Headers | None = None,
        partition: int | None = None,
        timestamp_ms: int | None = None,
        on_delivery: OnDelivery | None = None,
    ) -> Sent:
        """Give a record to be sent; it leaves with others, soon.

        Waits only for the first metadata of a topic and for room in the buffer, at most
        `max_block_ms`. Await what it returns for the acknowledgement. `on_delivery(metadata,
        error)` is called with the outcome, one of the two being None.

        Raises `TopicMissing`, `BufferExhausted`, `RecordTooLarge`, `NotBytes`, or what a
        serializer raises; then the record was not taken.
        """
        engine = self._engine
        if engine is None:
            engine = self._running()
        intake = engine.intake
        sent = intake.try_send(topic, value, key, headers, partition, timestamp_ms, on_delivery)
        if sent is None:
            return await intake.send(
                topic, value, key, headers, partition, timestamp_ms, on_delivery
            )
        if intake.should_yield:
            intake.should_yield = False
            intake.check_loop()
            await asyncio.sleep(0)
        return sent

    def _try_send(
        self,
        topic: str,
        value: Any = None,
        key: Any = None,
        headers: Headers | None = None,
        partition: int | None = None,
        timestamp_ms: int | None = None,
        on_delivery: OnDelivery | None = None,
    ) -> Sent | None:
        """What `send` does where it need not wait; None, and nothing done, where it must."""
        return self._running().intake.try_send(
            topic, value, key, headers, partition, timestamp_ms, on_delivery
        )

    async def send_and_wait(
        self,
        topic: str,
        value: Any = None,
        key: Any = None,
        *,
        headers: Headers | None = None,
        partition: int | None = None,
        timestamp_ms: int | None = None,
    ) -> RecordMetadata:
        """Send one record and wait until it was acknowledged."""
        sent = await self.send(
            topic,
            value,
            key,
            headers=headers,
            partition=partition,
            timestamp_ms=timestamp_ms,
        )
        return await sent

    async def send_arrow(
        self,
        topic: str,
        data: Any,
        *,
        key: str | None = "key",
        value: str = "value",
        headers: str | None = None,
        partition: str | int | None = None,
        timestamp: str | None = None,
    ) -> SentRows:
        """Give every row of Arrow data to be sent, without an object for each.

        `data` is a pyarrow RecordBatch or Table, a data frame that speaks Arrow, a dict of arrays,
        or a RecordBatchReader, which is read as it is sent. The names are those of its columns:
        keys and values (binary or text; null is no key, and a tombstone), headers (a list of
        structs of key and value, or a map), partitions (a number: all to this one), and times.
        A column `key` need not be there. Serializers and interceptors see none of the rows.

        Waits for room in the buffer, at most `max_block_ms` each time. Await what it returns for
        the acknowledgements. Raises like `send`, and `BadColumn`. Needs `ottla[arrow]`.
        """
        named = partition if isinstance(partition, str) else None
        number = None if isinstance(partition, str) else partition
        names = ColumnNames(key, value, headers, named, timestamp)
        return await RowIntake(self._running(), topic, names, number).send(data)

    async def _send_batch(self, batch: ProducerBatch) -> None:
        """Give a batch that was built elsewhere: for tools that measure. `batch.memory` says what
        it takes of the buffer."""
        await self._running().send_batch(batch)

    async def flush(self) -> None:
        """Send all there is, and return when each record given so far has its outcome.

        Raises the first failure that nobody has looked at, as `DeliveryFailed`.
        """
        engine = self._running()
        engine.intake.check_loop()
        await engine.flush()
        engine.failures.raise_unseen()

    # Looking

    async def partitions_for(self, topic: str) -> frozenset[int]:
        """The numbers of its partitions; waits up to `max_block_ms` for the topic."""
        engine = self._running()
        engine.intake.check_loop()
        return await engine.partitions_for(topic)

    def metrics(self) -> dict[str, float]:
        """Numbers about this producer, by Kafka's names."""
        return (self._engine or self._running()).metrics.snapshot()
