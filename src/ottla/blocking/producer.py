"""The blocking `Producer`.

with Producer(bootstrap_servers="localhost:9092") as producer:
    sent = producer.send("payments", key=b"alice", value=b"200")
    metadata = sent.result()

Serializers run in the thread that sends. Partitioners, interceptors and delivery callbacks run in
the thread of the event loop: they must be quick and must not block, but callbacks may send.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from time import time
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar, Unpack

from ottla.blocking import unclosed_producers
from ottla.blocking.loop_user import LoopUser, documented_as
from ottla.blocking.mailbox import Mailbox
from ottla.blocking.packing import Packer
from ottla.blocking.sent import Sent, SentRows
from ottla.client.errors import BufferExhausted, IllegalState, ProducerClosed
from ottla.client.producer.arguments import check_callback, check_partition, check_topic
from ottla.client.producer.producer import Offsets, engine_of, leave, leaving_ms
from ottla.client.producer.producer import Producer as AsyncProducer
from ottla.client.producer.transactions.prepared import PreparedTransaction
from ottla.client.settings.base import settings_from
from ottla.client.settings.documentation import lists_settings
from ottla.client.settings.producer import ProducerOptions, ProducerSettings
from ottla.client.values import GroupMetadata, RecordMetadata
from ottla.records.header import HEADER_SIZE

if TYPE_CHECKING:
    from ottla.blocking.loop_thread import LoopThread
    from ottla.client.producer.batching.batch import OnDelivery
    from ottla.client.producer.engine import Engine
    from ottla.client.producer.intake import Headers

T = TypeVar("T")

MAIL_MAX = 512
"""A thread with this many records on their way to the loop waits for the loop. Otherwise the two
would compete for the interpreter lock, a few milliseconds at a time."""
ROOM_SHARE = 4
"""A caller that waits for room waits for a quarter of the buffer: waiting for each record would
be slow."""


@lists_settings(ProducerSettings)
@documented_as(AsyncProducer)
class Producer:
    """Use it as `with Producer(...)`, or call `start()` and `close()`. Several threads may send.

    Leaving the block waits until every record has its outcome, and raises `DeliveryFailed` if the
    application has not seen a failure. If the block is left by an exception (also Ctrl-C), records
    are still delivered, within `delivery_timeout_ms` and 30 seconds at most; the exception gets a
    note about those that were not. An open transaction is aborted, and no more of its records are
    sent.
    """

    def __init__(self, **options: Unpack[ProducerOptions]) -> None:
        self._settings = settings_from(ProducerSettings, options)
        self._packer = Packer(self._settings)
        self._intercepts = bool(self._settings.interceptors)
        if not self._intercepts:
            options = {**options, "key_serializer": None, "value_serializer": None}
        self._loop = LoopUser("Producer")
        self._producer = AsyncProducer(**options)
        self._engine: Engine | None = None
        self._mailbox: Mailbox | None = None
        self._is_closed = False
        self._unclosed = unclosed_producers.Unclosed(self._loop, self._waiting, self._leave)

    # Start and close

    def start(self) -> None:
        if self._is_closed:
            raise IllegalState("a producer is started once; make a new one")
        self._loop.open(self._producer.start)
        self._engine = engine_of(self._producer)
        self._mailbox = Mailbox(self._loop.running(), self._producer, self._engine)
        unclosed_producers.remember(self._unclosed)

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
        unclosed_producers.forget(self._unclosed)
        self._loop.close(end)

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
        unclosed_producers.forget(self._unclosed)
        self._loop.close(lambda: self._leave(error, leaving_ms(self._settings)))

    def _waiting(self) -> int:
        """Return the number of records without an outcome; any thread may call it."""
        if self._engine is None or self._mailbox is None:
            return 0
        return len(self._mailbox) + self._engine.accumulator.waiting_records()

    async def _leave(self, error: BaseException, within_ms: float) -> None:
        loop, mailbox = asyncio.get_running_loop(), self._mailbox
        if mailbox is None or self._settings.transactional_id is not None:
            if mailbox is not None:
                mailbox.close()
            await leave(self._producer, error)
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
            await leave(self._producer, error, max(0.0, deadline - loop.time()) * 1000)

    def _running(self) -> LoopThread:
        if self._is_closed:
            raise ProducerClosed
        return self._loop.running()

    def _do(self, work: Callable[[], T]) -> T:
        self._running()
        return self._loop.do(work)

    def _ordered(self, work: Callable[[], Awaitable[T]]) -> T:
        """Run a call after all records that were given before it."""

        async def run() -> T:
            if self._mailbox is not None:
                await self._mailbox.taken()
            return await work()

        return self._running().call(run)

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
        """Queue a record, which is sent soon in a batch with others.

        Waits only for the first metadata of a topic and for room in the buffer, at most
        `max_block_ms`. `result()` of the returned object waits for the acknowledgement.
        `on_delivery(metadata, error)` is called with the outcome in the thread of the event loop;
        one of the two is None.

        Raises `TopicMissing`, `BufferExhausted`, `RecordTooLarge`, `NotBytes`, or what a
        serializer raises; the record is then not taken.
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
            engine.keeper.check_send()
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
        """Send in the loop: the topic or partition is unknown, or there are interceptors."""
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
            self._running().call(self._mailbox.taken)

    def _wait_for_room(self, size: int) -> None:
        """Wait until there is room for this record, and for more if that comes soon."""
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

    # Transactions

    def init_transactions(self, *, keep_prepared: bool = False) -> None:
        self._ordered(lambda: self._producer.init_transactions(keep_prepared=keep_prepared))

    def begin_transaction(self) -> None:
        self._ordered(self._producer.begin_transaction)

    def commit_transaction(self) -> None:
        self._ordered(self._producer.commit_transaction)

    def abort_transaction(self) -> None:
        self._ordered(self._producer.abort_transaction)

    @contextmanager
    def transaction(self) -> Iterator[None]:
        under_way = self._producer.transaction()
        self._ordered(under_way.__aenter__)
        try:
            yield
        except BaseException as error:
            failure = error
            self._ordered(
                lambda: under_way.__aexit__(type(failure), failure, failure.__traceback__)
            )
            raise
        self._ordered(lambda: under_way.__aexit__(None, None, None))

    def send_offsets_to_transaction(self, offsets: Offsets, group: GroupMetadata) -> None:
        self._ordered(lambda: self._producer.send_offsets_to_transaction(offsets, group))

    def prepare_transaction(self) -> PreparedTransaction:
        return self._ordered(self._producer.prepare_transaction)

    def complete_transaction(self, prepared: PreparedTransaction) -> None:
        self._ordered(lambda: self._producer.complete_transaction(prepared))

    # Information

    def partitions_for(self, topic: str) -> frozenset[int]:
        return self._running().call(lambda: self._producer.partitions_for(topic))

    def metrics(self) -> dict[str, float]:
        return self._do(self._producer.metrics)
