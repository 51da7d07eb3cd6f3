"""`Producer` without `await`.

with Producer(bootstrap_servers="localhost:9092") as producer:
    sent = producer.send("payments", key=b"alice", value=b"200")
    metadata = sent.result()

Serializers run in the thread that sends. Partitioners, interceptors and delivery callbacks run in
the thread of the event loop: they must be quick and wait for nothing, but callbacks may send.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from time import time
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar, Unpack

from ottla.blocking import forgotten
from ottla.blocking.client import documented_as
from ottla.blocking.mailbox import Mailbox
from ottla.blocking.parcels import Packer
from ottla.blocking.sent import Sent, SentRows
from ottla.blocking.transaction_calls import TransactionCalls
from ottla.client.errors import BufferExhausted, IllegalState, ProducerClosed
from ottla.client.producer.arguments import check_callback, check_partition, check_topic
from ottla.client.producer.producer import Producer as AsyncProducer
from ottla.client.settings.base import settings_from
from ottla.client.settings.producer import ProducerOptions, ProducerSettings
from ottla.client.values import RecordMetadata
from ottla.records.header import HEADER_SIZE

if TYPE_CHECKING:
    from ottla.blocking.loop_thread import LoopThread
    from ottla.client.producer.batch import OnDelivery
    from ottla.client.producer.engine import Engine
    from ottla.client.producer.intake import Headers

T = TypeVar("T")

MAIL_MAX = 512
"""A thread with so many records on their way to the loop lets the loop work: else the two would
take the interpreter from each other, a few milliseconds at a time."""
ROOM_SHARE = 4
"""Who waits for room waits for a quarter of the buffer: record by record would be slow."""


@documented_as(AsyncProducer)
class Producer(TransactionCalls):
    """Use it as `with Producer(...)`, or call `start()` and `close()`. Several threads may send.

    Leaving the block waits until every record has its outcome, and raises `DeliveryFailed` if one
    failed that nobody has looked at. If the block is left by an exception (Ctrl-C, too), what was
    given is delivered all the same, within `delivery_timeout_ms` and 30 seconds at most; the
    exception gets a note about what was not. Of an open transaction nothing more is sent, and it is
    aborted.
    """

    def __init__(self, **options: Unpack[ProducerOptions]) -> None:
        self._settings = settings_from(ProducerSettings, options)
        self._packer = Packer(self._settings)
        self._intercepts = bool(self._settings.interceptors)
        if not self._intercepts:
            options = {**options, "key_serializer": None, "value_serializer": None}
        self._producer = AsyncProducer(**options)
        self._engine: Engine | None = None
        self._mailbox: Mailbox | None = None
        self._is_closed = False

    # Life

    def start(self) -> None:
        if self._is_closed:
            raise IllegalState("a producer is started once; make a new one")
        self._open(self._producer.start)
        thread = self._running()
        self._engine = self._producer._running()
        self._mailbox = Mailbox(thread, self._producer)
        forgotten.remember(self)

    def close(self, timeout_ms: float | None = None) -> None:
        async def end() -> None:
            mailbox = self._mailbox
            if mailbox is not None:
                try:
                    async with asyncio.timeout(None if timeout_ms is None else timeout_ms / 1000):
                        await mailbox.taken()
                except TimeoutError:
                    mailbox.close()
            await self._producer.close(timeout_ms)
            if mailbox is not None:
                mailbox.close()
                mailbox.raise_unseen()

        self._is_closed = True
        forgotten.forget(self)
        self._shut(end)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if error is None:
            self.close()
            return
        self._is_closed = True
        forgotten.forget(self)
        self._shut(lambda: self._leave(error, self._producer._leaving_ms))

    def _waiting(self) -> int:
        """How many records have no outcome yet; any thread may ask."""
        if self._engine is None or self._mailbox is None:
            return 0
        return len(self._mailbox) + self._engine.accumulator.waiting_records()

    async def _leave(self, error: BaseException, within_ms: float) -> None:
        loop, mailbox = asyncio.get_running_loop(), self._mailbox
        if mailbox is None or self._settings.transactional_id is not None:
            if mailbox is not None:
                mailbox.close()
            await self._producer._leave(error)
            return
        deadline = loop.time() + within_ms / 1000
        try:
            async with asyncio.timeout_at(deadline):
                await mailbox.taken()
        except TimeoutError:
            pass
        except asyncio.CancelledError:  # Ctrl-C again
            deadline = loop.time()
            raise
        finally:
            mailbox.close_for(error)
            await self._producer._leave(error, max(0.0, deadline - loop.time()) * 1000)

    def _running(self) -> LoopThread:
        if self._is_closed:
            raise ProducerClosed
        return super()._running()

    def _ordered(self, work: Callable[[], Awaitable[T]]) -> T:
        async def run() -> T:
            if self._mailbox is not None:
                await self._mailbox.taken()
            return await work()

        return self._call(run)

    # Records

    def send(
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
        `max_block_ms`. `result()` of what it returns waits for the acknowledgement.
        `on_delivery(metadata, error)` is called with the outcome, one of the two being None, in the
        thread of the event loop.

        Raises `TopicMissing`, `BufferExhausted`, `RecordTooLarge`, `NotBytes`, or what a
        serializer raises; then the record was not taken.
        """
        engine, mailbox = self._engine, self._mailbox
        if engine is None or mailbox is None or self._is_closed:
            self._running()
            raise ProducerClosed
        if self._intercepts:
            rest = (headers, partition, timestamp_ms, on_delivery)
            return self._send_waiting(topic, value, key, *rest)
        value, key, pairs, size = self._packer.pack(topic, value, key, headers)
        if timestamp_ms is None:
            timestamp_ms = int(time() * 1000)
        elif timestamp_ms < 0:
            raise ValueError(f"timestamp_ms is {timestamp_ms}; it must not be negative")
        if partition is not None:
            check_partition(partition)
        if on_delivery is not None:
            check_callback(on_delivery)
        route = engine.routes.usable.get(topic)
        if route is None:
            check_topic(topic)
        rest = (pairs, partition, timestamp_ms, on_delivery)
        if route is None or (partition is not None and not 0 <= partition < route.count):
            return self._send_waiting(topic, value, key, *rest)
        if engine.transactions is not None:
            engine.transactions.check_send()
        memory = engine.accumulator.memory
        if mailbox.waiting_bytes + size + HEADER_SIZE > memory.free or memory.waiting:
            self._wait_for_room(size)
        sent = mailbox.put(size, (topic, value, key, *rest))
        if len(mailbox) >= MAIL_MAX:
            self._let_the_loop_work()
        return sent

    def _send_waiting(
        self,
        topic: str,
        value: Any,
        key: Any,
        headers: Headers | None,
        partition: int | None,
        timestamp_ms: int | None,
        on_delivery: OnDelivery | None,
    ) -> Sent:
        """The topic is not known yet, or does not have the partition, or somebody intercepts."""
        thread = self._running()
        if thread.is_current:
            assert self._mailbox is not None
            return self._mailbox.put(
                0, (topic, value, key, headers, partition, timestamp_ms, on_delivery)
            )
        sent = self._ordered(
            lambda: self._producer.send(
                topic,
                value,
                key,
                headers=headers,
                partition=partition,
                timestamp_ms=timestamp_ms,
                on_delivery=on_delivery,
            )
        )
        return Sent(thread, sent)

    def _let_the_loop_work(self) -> None:
        if not self._running().is_current:
            assert self._mailbox is not None
            self._call(self._mailbox.taken)

    def _wait_for_room(self, size: int) -> None:
        """Return when there is room for this record, and for others if that comes soon."""
        engine = self._engine
        assert engine is not None
        memory = engine.accumulator.memory
        within_ms = self._settings.max_block_ms
        if self._running().is_current:
            raise BufferExhausted(size, memory.limit, 0)
        wanted = max(size + HEADER_SIZE, memory.limit // ROOM_SHARE)

        async def wait() -> None:
            engine.accumulator.send_all_now()
            if memory.free >= wanted and not memory.waiting:
                return
            try:
                await memory.reserve(wanted, within_ms)
                memory.release(wanted)
            except BufferExhausted:
                if memory.free < size + HEADER_SIZE:
                    raise BufferExhausted(size, memory.limit, within_ms) from None

        self._ordered(wait)

    def send_and_wait(
        self,
        topic: str,
        value: Any = None,
        key: Any = None,
        *,
        headers: Headers | None = None,
        partition: int | None = None,
        timestamp_ms: int | None = None,
    ) -> RecordMetadata:
        return self.send(
            topic, value, key, headers=headers, partition=partition, timestamp_ms=timestamp_ms
        ).result()

    def send_arrow(
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
        sent = self._ordered(
            lambda: self._producer.send_arrow(
                topic,
                data,
                key=key,
                value=value,
                headers=headers,
                partition=partition,
                timestamp=timestamp,
            )
        )
        return SentRows(self._running(), sent)

    def flush(self) -> None:
        async def run() -> None:
            await self._producer.flush()
            assert self._mailbox is not None
            self._mailbox.raise_unseen()

        self._ordered(run)

    # Looking

    def partitions_for(self, topic: str) -> frozenset[int]:
        return self._call(lambda: self._producer.partitions_for(topic))

    def metrics(self) -> dict[str, float]:
        return self._do(self._producer.metrics)
