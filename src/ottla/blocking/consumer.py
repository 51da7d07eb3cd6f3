"""The blocking `Consumer`.

with Consumer("payments", group_id="ledger") as consumer:
    for record in consumer:
        print(record.partition, record.offset, record.value)

Rebalance listeners and commit callbacks run in the thread that waits for records, inside that call.
Deserializers and interceptors run in the thread of the event loop, and must not block.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar, Unpack

from ottla.blocking.call import Call
from ottla.blocking.listener import CallerListener
from ottla.blocking.loop_user import LoopUser, documented_as
from ottla.client.consumer.arguments import checked_listener
from ottla.client.consumer.consumer import (
    CLOSE_TIMEOUT_MS,
    POLL_TIMEOUT_MS,
    CommitCallback,
    iteration_of,
    next_or_none,
)
from ottla.client.consumer.consumer import Consumer as AsyncConsumer
from ottla.client.consumer.fetching.buffer import FetchedBatch
from ottla.client.consumer.parallel.settings import Handler, ParallelOptions
from ottla.client.errors import IllegalState
from ottla.client.settings.consumer import ConsumerOptions, ConsumerSettings
from ottla.client.settings.documentation import lists_settings
from ottla.client.values import (
    AnyRecord,
    GroupMetadata,
    OffsetAndMetadata,
    OffsetAndTimestamp,
    TopicPartition,
)

if TYPE_CHECKING:
    import pyarrow as pa

    from ottla.blocking.loop_thread import LoopThread
    from ottla.client.consumer.groups.membership import Attention
    from ottla.client.consumer.groups.rebalance_listener import RebalanceListener
    from ottla.client.consumer.subscriptions import InHand

T = TypeVar("T")


@lists_settings(ConsumerSettings)
@documented_as(AsyncConsumer)
class Consumer:
    """Use it as `with Consumer(...)`, or call `start()` and `close()`.

    Only one thread at a time may wait for records; any thread may call `wakeup()`. For automatic
    commits, a record counts as consumed when the application asks for the next one: if the
    application fails in between, the record is delivered again.
    """

    def __init__(
        self,
        *topics: str,
        listener: RebalanceListener | None = None,
        **options: Unpack[ConsumerOptions],
    ) -> None:
        self._loop = LoopUser("Consumer")
        self._waiting: Call[Any] | None = None
        self._is_closed = False
        # Set by `start`; iteration reads them for every record.
        self._hand: InHand
        self._attention: Attention
        self._consumer = AsyncConsumer(*topics, listener=self._in_caller(listener), **options)

    # Start and close

    def start(self) -> None:
        if self._is_closed:
            raise IllegalState("a consumer is started once; make a new one")
        self._loop.open(self._begin)

    async def _begin(self) -> None:
        await self._consumer.start()
        self._hand, self._attention = iteration_of(self._consumer)

    def close(self, timeout_ms: int = CLOSE_TIMEOUT_MS) -> None:
        self._end(lambda: self._consumer.close(timeout_ms))

    def _end(self, close: Callable[[], Awaitable[None]]) -> None:
        self._is_closed = True
        self._loop.close(close, self._closing_call)

    def _closing_call(self, thread: LoopThread) -> Call[Any]:
        """Return a call that runs listeners in the thread that closes."""
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
        """Run a call in which listeners and callbacks run, in this thread."""
        thread = self._loop.running()
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

    def _do(self, work: Callable[[], T]) -> T:
        """Run a quick function. Subscriptions may be set before there is a loop."""
        return work() if self._loop.thread is None else self._loop.do(work)

    def _in_caller(self, listener: RebalanceListener | None) -> RebalanceListener | None:
        told = checked_listener(listener)
        return None if told is None else CallerListener(told, lambda: self._waiting)

    # Subscription and assignment

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
        # This runs for every record: it takes records from the chunk of the asynchronous consumer,
        # which the loop does not touch until this thread asks for more. No thread switch is needed.
        thread = self._loop.thread
        if not (thread is None or thread.is_forked or self._attention.needed):
            hand = self._hand
            for record in hand.rest:
                hand.record = record
                return record
        return self._next_waiting()

    def _next_waiting(self) -> AnyRecord:
        if self._is_closed:
            raise StopIteration
        next_record = self._wait(lambda: next_or_none(self._consumer))
        if next_record is None:
            raise StopIteration
        return next_record

    def _each(self, source: AsyncIterator[T]) -> Iterator[T]:
        async def advance() -> T | None:
            return await anext(source, None)

        while not self._is_closed and (found := self._wait(advance)) is not None:
            yield found

    def wakeup(self) -> None:
        self._loop.running().post(self._consumer.wakeup)

    # Offsets

    def position(self, partition: TopicPartition, timeout_ms: float | None = None) -> int:
        return self._loop.call(lambda: self._consumer.position(partition, timeout_ms))

    def lag(self) -> dict[TopicPartition, int]:
        return self._do(self._consumer.lag)

    def seek(self, partition: TopicPartition, offset: int | OffsetAndMetadata) -> None:
        self._do(lambda: self._consumer.seek(partition, offset))

    def seek_to_beginning(self, *partitions: TopicPartition | Iterable[TopicPartition]) -> None:
        self._do(lambda: self._consumer.seek_to_beginning(*partitions))

    def seek_to_end(self, *partitions: TopicPartition | Iterable[TopicPartition]) -> None:
        self._do(lambda: self._consumer.seek_to_end(*partitions))

    def seek_to_time(self, times: Mapping[TopicPartition, int]) -> None:
        self._do(lambda: self._consumer.seek_to_time(times))

    def offsets_for_times(
        self, times: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        return self._loop.call(lambda: self._consumer.offsets_for_times(times))

    def beginning_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        return self._loop.call(lambda: self._consumer.beginning_offsets(partitions))

    def end_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        return self._loop.call(lambda: self._consumer.end_offsets(partitions))

    def partitions_for_topic(self, topic: str) -> frozenset[int]:
        return self._loop.call(lambda: self._consumer.partitions_for_topic(topic))

    def topics(self) -> frozenset[str]:
        return self._loop.call(self._consumer.topics)

    # The group

    def commit(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata | int] | None = None
    ) -> None:
        self._loop.call(lambda: self._consumer.commit(offsets))

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
        return self._loop.call(lambda: self._consumer.committed(partitions))

    def group_metadata(self) -> GroupMetadata:
        return self._do(self._consumer.group_metadata)

    def enforce_rebalance(self, reason: str | None = None) -> None:
        self._do(lambda: self._consumer.enforce_rebalance(reason))

    def metrics(self) -> dict[str, float]:
        return self._do(self._consumer.metrics)
