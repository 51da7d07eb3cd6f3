"""`Consumer` without `await`.

with Consumer("payments", group_id="ledger") as consumer:
    for record in consumer:
        print(record.partition, record.offset, record.value)

Rebalance listeners and the callbacks of commits run in the thread that waits for records, inside
that call. Deserializers and interceptors run in the thread of the event loop, and must not wait.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar, Unpack

from ottla.blocking.call import Call
from ottla.blocking.client import documented_as
from ottla.blocking.consumer_offsets import ConsumerOffsets
from ottla.blocking.listener import CallerListener
from ottla.client.consumer.arguments import checked_listener
from ottla.client.consumer.consumer import (
    CLOSE_TIMEOUT_MS,
    POLL_TIMEOUT_MS,
    CommitCallback,
)
from ottla.client.consumer.consumer import Consumer as AsyncConsumer
from ottla.client.consumer.fetch_buffer import FetchedBatch
from ottla.client.consumer.parallel_settings import Handler, ParallelOptions
from ottla.client.errors import IllegalState
from ottla.client.settings.consumer import ConsumerOptions
from ottla.client.values import AnyRecord, GroupMetadata, OffsetAndMetadata, TopicPartition

if TYPE_CHECKING:
    import pyarrow as pa

    from ottla.blocking.loop_thread import LoopThread
    from ottla.client.consumer.rebalance_listener import RebalanceListener

T = TypeVar("T")


@documented_as(AsyncConsumer)
class Consumer(ConsumerOffsets):
    """Use it as `with Consumer(...)`, or call `start()` and `close()`.

    One thread at a time waits for records; `wakeup()` may be called from any. A record that was
    handed out counts as consumed, for automatic commits, when the application comes back for the
    next: if it fails in between, the record comes again.
    """

    def __init__(
        self,
        *topics: str,
        listener: RebalanceListener | None = None,
        **options: Unpack[ConsumerOptions],
    ) -> None:
        self._waiting: Call[Any] | None = None
        self._is_closed = False
        self._consumer = AsyncConsumer(*topics, listener=self._in_caller(listener), **options)

    # Life

    def start(self) -> None:
        if self._is_closed:
            raise IllegalState("a consumer is started once; make a new one")
        self._open(self._consumer.start)

    def close(self, timeout_ms: int = CLOSE_TIMEOUT_MS) -> None:
        self._end(lambda: self._consumer.close(timeout_ms))

    def _end(self, close: Callable[[], Awaitable[None]]) -> None:
        self._is_closed = True
        self._shut(close, self._closing_call)

    def _closing_call(self, thread: LoopThread) -> Call[Any]:
        """Listeners run in the thread that closes."""
        self._waiting = Call(thread.loop)
        return self._waiting

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._end(lambda: self._consumer.__aexit__(kind, error, trace))

    # Threads

    def _wait(self, work: Callable[[], Awaitable[T]]) -> T:
        """A call inside which listeners and callbacks run, in this thread."""
        thread = self._running()
        if self._waiting is not None:
            raise IllegalState(
                "another thread is waiting for records of this consumer, or this is one of its "
                "callbacks; give each thread its own consumer"
            )
        call: Call[T] = Call(thread.loop)
        self._waiting = call
        try:
            return thread.call(work, call)
        finally:
            if self._waiting is call:
                self._waiting = None

    def _in_caller(self, listener: RebalanceListener | None) -> RebalanceListener | None:
        told = checked_listener(listener)
        return None if told is None else CallerListener(told, lambda: self._waiting)

    # What to read

    def subscribe(
        self,
        topics: Iterable[str] | None = None,
        *,
        pattern: str | re.Pattern[str] | None = None,
        listener: RebalanceListener | None = None,
    ) -> None:
        told = self._in_caller(listener)
        self._do(lambda: self._consumer.subscribe(topics, pattern=pattern, listener=told))

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        self._do(lambda: self._consumer.assign(partitions))

    def unsubscribe(self) -> None:
        self._wait(self._consumer.unsubscribe)

    def assignment(self) -> frozenset[TopicPartition]:
        return self._do(self._consumer.assignment)

    def subscription(self) -> frozenset[str]:
        return self._do(self._consumer.subscription)

    def pause(self, *partitions: TopicPartition | Iterable[TopicPartition]) -> None:
        self._do(lambda: self._consumer.pause(*partitions))

    def resume(self, *partitions: TopicPartition | Iterable[TopicPartition]) -> None:
        self._do(lambda: self._consumer.resume(*partitions))

    def paused(self) -> frozenset[TopicPartition]:
        return self._do(self._consumer.paused)

    # Records

    def poll(
        self, timeout_ms: float = POLL_TIMEOUT_MS, max_records: int | None = None
    ) -> dict[TopicPartition, list[AnyRecord]]:
        return self._wait(lambda: self._consumer.poll(timeout_ms, max_records))

    def batches(self, max_records: int | None = None) -> Iterator[list[AnyRecord]]:
        return self._each(self._consumer.batches(max_records))

    def fetch_arrow(
        self,
        timeout_ms: float = POLL_TIMEOUT_MS,
        max_records: int | None = None,
        *,
        headers: bool = False,
    ) -> pa.RecordBatch:
        return self._wait(
            lambda: self._consumer.fetch_arrow(timeout_ms, max_records, headers=headers)
        )

    def arrow_batches(
        self, max_records: int | None = None, *, headers: bool = False
    ) -> Iterator[pa.RecordBatch]:
        return self._each(self._consumer.arrow_batches(max_records, headers=headers))

    def process(self, handler: Handler, **options: Unpack[ParallelOptions]) -> None:
        self._wait(lambda: self._consumer.process(handler, **options))

    def fetch_batches(
        self, timeout_ms: float = POLL_TIMEOUT_MS, max_bytes: int = 1 << 20
    ) -> list[FetchedBatch]:
        return self._wait(lambda: self._consumer.fetch_batches(timeout_ms, max_bytes))

    def getone(self) -> AnyRecord:
        return self._wait(self._consumer.getone)

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> AnyRecord:
        # For every record: the hand of the asynchronous consumer, which its loop leaves alone
        # until this thread comes back with nothing in it. No other thread is asked meanwhile.
        consumer, thread = self._consumer, self._thread
        if not (thread is None or thread.is_forked or consumer._membership.needs_attention):
            for record in consumer._hand:
                consumer._in_hand.record = record
                return record
        if self._is_closed:
            raise StopIteration
        next_record = self._wait(consumer._next_or_none)
        if next_record is None:
            raise StopIteration
        return next_record

    def _each(self, source: AsyncIterator[T]) -> Iterator[T]:
        async def advance() -> T | None:
            return await anext(source, None)

        while not self._is_closed and (found := self._wait(advance)) is not None:
            yield found

    def wakeup(self) -> None:
        self._running().post(self._consumer.wakeup)

    # The group

    def commit(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata | int] | None = None
    ) -> None:
        self._call(lambda: self._consumer.commit(offsets))

    def commit_async(
        self,
        offsets: Mapping[TopicPartition, OffsetAndMetadata | int] | None = None,
        callback: CommitCallback | None = None,
    ) -> None:
        told = None if callback is None else self._commit_callback(callback)
        self._do(lambda: self._consumer.commit_async(offsets, told))

    def _commit_callback(self, callback: CommitCallback) -> CommitCallback:
        def told(
            offsets: Mapping[TopicPartition, OffsetAndMetadata], error: Exception | None
        ) -> None:
            call = self._waiting
            if call is None:
                callback(offsets, error)
            else:
                call.tell_caller(callback, offsets, error)

        return told

    def committed(
        self, partitions: Iterable[TopicPartition]
    ) -> dict[TopicPartition, OffsetAndMetadata | None]:
        return self._call(lambda: self._consumer.committed(partitions))

    def group_metadata(self) -> GroupMetadata:
        return self._do(self._consumer.group_metadata)

    def enforce_rebalance(self, reason: str | None = None) -> None:
        self._do(lambda: self._consumer.enforce_rebalance(reason))

    def metrics(self) -> dict[str, float]:
        return self._do(self._consumer.metrics)
