"""Sends records.

async with Producer(bootstrap_servers="localhost:9092") as producer:
    sent = await producer.send("payments", key=b"alice", value=b"200")
    metadata = await sent
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Unpack

from ottla.client.errors import IllegalState, ProducerClosed, TransactionStateError
from ottla.client.network.backoff import retrying
from ottla.client.network.cluster import Cluster
from ottla.client.producer.columns.arrow_input import ColumnNames
from ottla.client.producer.columns.intake import RowIntake
from ottla.client.producer.engine import Engine
from ottla.client.producer.interceptors import Interceptors
from ottla.client.producer.sending.losses import Losses
from ottla.client.settings.base import settings_from
from ottla.client.settings.documentation import lists_settings
from ottla.client.settings.producer import ProducerOptions, ProducerSettings
from ottla.client.values import (
    GroupMetadata,
    OffsetAndMetadata,
    RecordMetadata,
    TopicPartition,
)
from ottla.runtime.ambient import new_runtime

if TYPE_CHECKING:
    from types import TracebackType

    from ottla.client.producer.batching.batch import OnDelivery
    from ottla.client.producer.columns.sent_rows import SentRows
    from ottla.client.producer.intake import Headers
    from ottla.client.producer.sent import Sent
    from ottla.client.producer.transactions.manager import TransactionManager
    from ottla.client.producer.transactions.prepared import PreparedTransaction
    from ottla.runtime.runtime import Runtime

Offsets = Mapping[TopicPartition, OffsetAndMetadata | int]

LEAVING_MAX_MS = 30_000
"""The longest wait for outcomes if the block is left by an exception."""


@lists_settings(ProducerSettings)
class Producer:
    """Use it as `async with Producer(...)`, or call `start()` and `close()`.

    Leaving the block waits until every record has its outcome, and raises `DeliveryFailed` if the
    application has not seen a failure. If the block is left by an exception, records are still
    delivered, within `delivery_timeout_ms` and 30 seconds at most; the exception gets a note about
    those that were not. An open transaction is aborted, and no more of its records are sent.

    Records of one partition arrive in the order in which they were given, each once: the default
    settings make the producer idempotent. With `acks` of 0 or 1 and several requests in flight, a
    retried batch may overtake another, as in Kafka's own client.
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
        """Return a producer that uses another owner's connected cluster and does not close it."""
        producer = cls(runtime=cluster.runtime, **options)
        producer._given_cluster = cluster
        return producer

    # Start and close

    async def start(self) -> None:
        """Connect. Raises if no broker can be reached within `max_block_ms` or
        `default_api_timeout_ms`, whichever is shorter; tries at least once."""
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
        """Send what is left, wait for every outcome, and disconnect.

        After `timeout_ms`, records without an outcome fail with `ProducerClosed`. Raises the first
        failure that the application has not seen. An open transaction is aborted. If another
        `close` is running, waits for it.
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
        await (self.close() if error is None else leave(self, error))

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
        """Queue a record, which is sent soon in a batch with others.

        Waits only for the first metadata of a topic and for room in the buffer, at most
        `max_block_ms`. Await the result for the acknowledgement. `on_delivery(metadata, error)` is
        called with the outcome; one of the two is None.

        Raises `TopicMissing`, `BufferExhausted`, `RecordTooLarge`, `NotBytes`, or what a
        serializer raises; the record is then not taken.
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
        """Send one record, and wait until it is acknowledged."""
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
        """Send every row of Arrow data, without creating an object for each.

        `data` is a pyarrow RecordBatch or Table, a data frame that speaks Arrow, a dict of arrays,
        or a RecordBatchReader, which is read while it is sent. The other arguments name its
        columns: keys and values (binary or text; null is no key, and a tombstone), headers (a list
        of structs of key and value, or a map), partitions (or a number: all rows go to that
        partition), and timestamps. The column `key` is optional. Serializers and interceptors are
        not applied.

        Waits for room in the buffer, at most `max_block_ms` each time. The returned `SentRows` has
        the acknowledgements. Raises like `send`, and `BadColumn`. Needs `ottla[arrow]`.
        """
        named = partition if isinstance(partition, str) else None
        number = None if isinstance(partition, str) else partition
        names = ColumnNames(key, value, headers, named, timestamp)
        return await RowIntake(self._running(), topic, names, number).send(data)

    async def flush(self) -> None:
        """Send everything, and wait until each record given so far has its outcome.

        Raises the first failure that the application has not seen, as `DeliveryFailed`.
        """
        engine = self._running()
        engine.intake.check_loop()
        await engine.flush()
        engine.failures.raise_unseen()

    # Transactions. Each call may take `max_block_ms`, then raises `TransactionTimedOut`: call it
    # again. After `TransactionFailed` the transaction can only be aborted; then the producer can go
    # on. After `TransactionFatal` and `ProducerFenced` the producer can only be closed.

    def _transactions(self) -> TransactionManager:
        engine = self._running()
        engine.intake.check_loop()
        manager = engine.transactions
        if manager is None:
            raise TransactionStateError("this producer has no transactions: set transactional_id")
        return manager

    async def init_transactions(self, *, keep_prepared: bool = False) -> None:
        """Become the only producer of this transactional id. Call it once, before all else.

        An earlier producer with this id is fenced, and its open transaction aborted. With
        `keep_prepared` (and `transaction_two_phase_commit_enable`) that transaction is kept, for
        `complete_transaction`.
        """
        await self._transactions().init(keep_prepared=keep_prepared)

    async def begin_transaction(self) -> None:
        await self._transactions().begin()

    async def commit_transaction(self) -> None:
        """Send what is left, and make the whole transaction visible at once.

        Raises `TransactionFailed` if a record of it was lost: then none of it becomes visible.
        """
        await self._transactions().commit()

    async def abort_transaction(self) -> None:
        """Drop unsent records. Consumers with read_committed never see those that were sent."""
        await self._transactions().abort()
        # An application that aborts knows that records of the transaction have failed.
        self._running().failures.forget()

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[None]:
        """`async with producer.transaction():` commits at the end of the block. If the block or the
        commit fails it aborts, unless that is no longer possible."""
        async with self._transactions().transaction(self.abort_transaction):
            yield

    async def send_offsets_to_transaction(self, offsets: Offsets, group: GroupMetadata) -> None:
        """Commit offsets of a consumer group (of the next records to read) with the transaction.

        `group` is `consumer.group_metadata()`, by which the coordinator refuses the offsets if
        another member owns the partitions by now.
        """
        if not isinstance(group, GroupMetadata):
            raise TypeError(f"the group is {group!r}; give consumer.group_metadata()")
        checked = {
            TopicPartition(*partition): _offset(partition, given)
            for partition, given in offsets.items()
        }
        await self._transactions().send_offsets(checked, group)

    async def prepare_transaction(self) -> PreparedTransaction:
        """Send what is left, and keep the transaction open for another process to end.

        `Admin.commit_prepared` or `abort_prepared` ends it from any process. Closing this producer
        leaves it open. This producer can also end it, but sends no more records in it.
        """
        return await self._transactions().prepare()

    async def complete_transaction(self, prepared: PreparedTransaction) -> None:
        """Call it after `init_transactions(keep_prepared=True)`: commits the transaction that was
        found if it is `prepared`, else aborts it. If none was found, it has ended: does nothing."""
        await self._transactions().complete(prepared)

    # Information

    async def partitions_for(self, topic: str) -> frozenset[int]:
        """Return the partition numbers of a topic; waits up to `max_block_ms` for the topic."""
        engine = self._running()
        engine.intake.check_loop()
        return await engine.partitions_for(topic)

    def metrics(self) -> dict[str, float]:
        """Return the client's metrics under Kafka's names."""
        return (self._engine or self._running()).metrics.snapshot()


def _offset(partition: TopicPartition, given: OffsetAndMetadata | int) -> OffsetAndMetadata:
    found = OffsetAndMetadata(given) if isinstance(given, int) else given
    if found.offset < 0:
        raise ValueError(f"the offset of {partition} is {found.offset}; it must not be negative")
    return found


# For the blocking producer and for benchmarks


def engine_of(producer: Producer) -> Engine:
    """Return the parts of a running producer."""
    return producer._running()


async def leave(producer: Producer, error: BaseException, within_ms: float | None = None) -> None:
    """Close because of an error, and add a note to it about what was not delivered."""
    engine = producer._engine
    if engine is None or engine.transactions is not None:
        await producer._close(None, deliver=False)
        return
    losses = Losses(engine)
    try:
        await producer._close(leaving_ms(producer._settings) if within_ms is None else within_ms)
    finally:
        losses.tell(error)


def leaving_ms(settings: ProducerSettings) -> float:
    """Return the longest wait for outcomes if the block is left by an exception."""
    return min(settings.delivery_timeout_ms, LEAVING_MAX_MS)
