"""Reading records: alone with `assign`, or as one of a group with `subscribe`.

async with Consumer("payments", group_id="ledger") as consumer:
    async for record in consumer:
        print(record.partition, record.offset, record.value)
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Unpack

from ottla.client.arrow import load_pyarrow
from ottla.client.consumer import arguments
from ottla.client.consumer.columns import empty_batch
from ottla.client.consumer.core import Core
from ottla.client.consumer.delivery import Chunk
from ottla.client.consumer.fetch_buffer import FetchedBatch
from ottla.client.consumer.interceptors import Interceptors
from ottla.client.consumer.offset_calls import OffsetCalls
from ottla.client.consumer.parallel import Processing
from ottla.client.consumer.parallel_settings import Handler, ParallelOptions, ParallelSettings
from ottla.client.consumer.record_decoder import RecordDecoder
from ottla.client.consumer.reset_policy import ResetPolicy
from ottla.client.consumer.subscriptions import Subscriptions
from ottla.client.errors import IllegalState
from ottla.client.network.cluster import Cluster
from ottla.client.settings.base import settings_from
from ottla.client.settings.consumer import ConsumerOptions, ConsumerSettings
from ottla.client.values import AnyRecord, GroupMetadata, OffsetAndMetadata, TopicPartition
from ottla.runtime.ambient import new_runtime

if TYPE_CHECKING:
    from types import TracebackType

    import pyarrow as pa

    from ottla.client.consumer.membership import Membership
    from ottla.client.consumer.rebalance_listener import RebalanceListener
    from ottla.runtime.runtime import Runtime

CLOSE_TIMEOUT_MS = 30_000
POLL_TIMEOUT_MS = 1_000
WAIT_SLICE_MS = 1_000
FOREVER = float("inf")

CommitCallback = Callable[[Mapping[TopicPartition, OffsetAndMetadata], Exception | None], Any]


class _NotStarted:
    """Stands where the membership will: the way to records leads through its refusal."""

    needs_attention = True


class Consumer(OffsetCalls):
    """Use it as `async with Consumer(...)`, or call `start()` and `close()`.

    One task at a time waits for records. A record that was handed out counts as consumed, for
    automatic commits, when the application comes back for the next: if it fails in between, the
    record comes again.
    """

    def __init__(
        self,
        *topics: str,
        listener: RebalanceListener | None = None,
        runtime: Runtime | None = None,
        **options: Unpack[ConsumerOptions],
    ) -> None:
        self._settings = settings_from(ConsumerSettings, options)
        ResetPolicy.of(self._settings.auto_offset_reset)  # a wrong one shows here, not later
        self._decoder = RecordDecoder(self._settings)
        self._interceptors = Interceptors(self._settings.interceptors)
        self._subscriptions = Subscriptions()
        self._runtime = runtime
        self._own_runtime: Runtime | None = None
        self._given_cluster: Cluster | None = None
        self._core: Core | None = None
        self._is_closed = False
        self._closing: asyncio.Future[None] | None = None
        self._closing_task: asyncio.Task[Any] | None = None
        self._membership: Any = _NotStarted()
        self._in_hand = self._subscriptions.in_hand
        self._chunk: Chunk | None = None
        self._hand: Iterator[AnyRecord] = iter(())
        if not all(isinstance(one, str) for one in topics):
            raise TypeError(f'topics are given one by one: Consumer("a", "b"), not {topics[0]!r}')
        arguments.checked_listener(listener)
        if topics:
            self.subscribe(topics, listener=listener)
        elif listener is not None:
            raise TypeError("a listener goes with topics: give both here, or both to subscribe()")

    @classmethod
    def over(cls, cluster: Cluster, **options: Unpack[ConsumerOptions]) -> Consumer:
        """A consumer of a cluster that somebody else has connected to, and closes."""
        consumer = cls(**options)
        consumer._given_cluster = cluster
        return consumer

    # Life

    async def start(self) -> None:
        """Connect; `async with` does it. Raises `NoBrokerReachable` if nobody answers."""
        if self._core is not None or self._is_closed:
            raise IllegalState("a consumer is started once; make a new one")
        cluster = self._given_cluster or await self._connected()
        self._core = Core(cluster, self._settings, self._subscriptions, self._decoder)
        self._core.membership.on_commit = self._interceptors.on_commit
        self._membership = self._core.membership
        cluster.metrics.gauge("records-lag-max", lambda: max(self.lag().values(), default=0))
        self._core.assignment_changed()
        self._core.membership.subscription_changed()

    async def _connected(self) -> Cluster:
        cluster = Cluster.of(self._settings, self._runtime or self._make_runtime())
        try:
            await cluster.retrying(cluster.any_broker)
        except BaseException:
            cluster.close()
            await self._close_runtime()
            raise
        return cluster

    def _make_runtime(self) -> Runtime:
        self._own_runtime = new_runtime()
        return self._own_runtime

    async def close(self, timeout_ms: int = CLOSE_TIMEOUT_MS) -> None:
        """Commit what is consumed (with enable_auto_commit), leave the group, hang up.

        Within `timeout_ms`, however the cluster is. Iteration ends; so does a poll under way.
        """
        if self._closing is None:
            if self._core is not None:
                self._core.check_loop()
            self._drop_hand()
            self._subscriptions.settle()
        await self._close(timeout_ms)

    async def _close(self, timeout_ms: int) -> None:
        """Once. Whoever closes meanwhile waits until it is done, but for a listener: the closing
        waits for that."""
        task = asyncio.current_task()
        if self._closing is None:
            if self._core is not None:
                self._core.check_loop()
            self._closing, self._closing_task = asyncio.get_running_loop().create_future(), task
            try:
                await self._shut_down(timeout_ms)
            finally:
                self._closing.set_result(None)
        elif not self._closing.done() and task is not self._closing_task:
            await asyncio.shield(self._closing)

    async def _shut_down(self, timeout_ms: int) -> None:
        self._is_closed = True
        self._drop_hand()
        core = self._core
        try:
            if core is not None:
                await core.close(timeout_ms)
        finally:
            self._interceptors.close()
            if core is not None and self._given_cluster is None:
                core.cluster.close()
            await self._close_runtime()

    async def _close_runtime(self) -> None:
        if self._own_runtime is not None:
            await self._own_runtime.close()

    async def __aenter__(self) -> Consumer:
        await self.start()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        # After an exception, what the application had in its hands is not consumed.
        await (self.close() if kind is None else self._close(CLOSE_TIMEOUT_MS))

    def _running(self) -> Core:
        if self._is_closed:
            raise IllegalState("the consumer is closed")
        if self._core is None:
            raise IllegalState("the consumer is not started: use `async with`, or await start()")
        return self._core

    def _group(self) -> Membership:
        """Also while closing: the listener may still commit."""
        if self._core is not None and not self._core.is_gone:
            return self._core.membership
        return self._running().membership

    def _group_here(self) -> Membership:
        """For calls that wait."""
        group = self._group()
        if self._core is not None:
            self._core.check_loop()
        return group

    # What to read

    def subscribe(
        self,
        topics: Iterable[str] | None = None,
        *,
        pattern: str | re.Pattern[str] | None = None,
        listener: RebalanceListener | None = None,
    ) -> None:
        """Read these topics, or all that match the pattern, together with the others of the group;
        without a group_id alone, all partitions.

        Takes the place of what was subscribed to before. Partitions come and go while the
        application waits for records; the listener is told then.
        """
        is_matched_here = (
            self._settings.group_id is None or self._settings.group_protocol == "classic"
        )
        # In the new protocol the broker matches a plain text, by rules of its own.
        if pattern is not None and (is_matched_here or not isinstance(pattern, str)):
            pattern = arguments.matchable(pattern)
        arguments.checked_listener(listener)
        self._subscriptions.subscribe(topics, pattern, listener)
        if self._core is not None:
            self._running().membership.subscription_changed()

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        """Read exactly these partitions, whatever others of the group do."""
        self._drop_hand()
        self._subscriptions.assign(partitions)
        if self._core is not None:
            self._running().membership.subscription_changed()

    async def unsubscribe(self) -> None:
        """Read nothing any more, and leave the group."""
        self._drop_hand()
        if self._core is not None:
            await self._group_here().leave()
        self._subscriptions.unsubscribe()

    def assignment(self) -> frozenset[TopicPartition]:
        return self._subscriptions.assigned

    def subscription(self) -> frozenset[str]:
        return self._subscriptions.topics

    def pause(self, *partitions: TopicPartition | Iterable[TopicPartition]) -> None:
        """Hand out nothing of these until `resume`. What has been fetched of them is kept."""
        self._drop_hand()
        self._subscriptions.pause(arguments.flat(partitions))

    def resume(self, *partitions: TopicPartition | Iterable[TopicPartition]) -> None:
        self._subscriptions.resume(arguments.flat(partitions))
        self._reading_changed()

    def paused(self) -> frozenset[TopicPartition]:
        return self._subscriptions.paused

    def _reading_changed(self) -> None:
        self._drop_hand()
        if self._core is not None:
            self._core.reading_changed()

    # Records

    async def poll(
        self, timeout_ms: float = POLL_TIMEOUT_MS, max_records: int | None = None
    ) -> dict[TopicPartition, list[AnyRecord]]:
        """Records as soon as there are some, at most `max_records` (max_poll_records if not given);
        nothing when `timeout_ms` have passed.

        A partition that cannot be read raises `PartitionUnreadable` in its turn, until a `seek`.
        """
        core = self._running()
        self._drop_hand()
        limit = arguments.checked_limit(max_records) or self._settings.max_poll_records
        deadline = core.cluster.runtime.clock.now() + arguments.timeout_s(timeout_ms)
        found = await core.wait_for(lambda: core.delivery.poll(limit), deadline)
        if found and self._interceptors:
            return self._interceptors.on_consume(found)
        return found or {}

    async def batches(self, max_records: int | None = None) -> AsyncIterator[list[AnyRecord]]:
        """Lists of records of one partition each, as they come, until the consumer is closed."""
        core = self._running()
        limit = arguments.checked_limit(max_records) or self._settings.max_poll_records
        while not self._is_closed:
            self._drop_hand()
            chunk = await core.wait_for(lambda: core.delivery.next_chunk(limit), FOREVER)
            if chunk is None:
                return
            core.delivery.hand_out(chunk)
            records = self._intercepted(chunk)
            if records:
                yield records

    async def fetch_arrow(
        self,
        timeout_ms: float = POLL_TIMEOUT_MS,
        max_records: int | None = None,
        *,
        headers: bool = False,
    ) -> pa.RecordBatch:
        """Like `poll`, as Arrow columns: all that is there, up to about 16 MiB or `max_records`;
        no rows when `timeout_ms` have passed. Deserializers and interceptors see none of them.

        The columns are those of Spark's Kafka source: key, value, topic, partition, offset,
        timestamp, timestampType, and headers if asked for. Needs `ottla[arrow]`.
        """
        load_pyarrow()  # before anything counts as handed out
        core = self._running()
        self._drop_hand()
        deadline = core.cluster.runtime.clock.now() + arguments.timeout_s(timeout_ms)
        arguments.checked_limit(max_records)
        take = core.columns.take
        found = await core.wait_for(lambda: take(max_records, headers=headers), deadline)
        return empty_batch(headers) if found is None else found

    async def arrow_batches(
        self, max_records: int | None = None, *, headers: bool = False
    ) -> AsyncIterator[pa.RecordBatch]:
        """What `fetch_arrow` gives, as it comes, until the consumer is closed."""
        while not self._is_closed:
            rows = await self.fetch_arrow(WAIT_SLICE_MS, max_records, headers=headers)
            if rows.num_rows:
                yield rows

    async def process(self, handler: Handler, **options: Unpack[ParallelOptions]) -> None:
        """Call `handler` with every record, several at the same time, those of one key in order.

        Only records that are done are committed, with enable_auto_commit or without. A coroutine
        function runs on the event loop, a plain function in a thread. Ends when the event `until`
        is set or `wakeup()` is called, and with the error of a handler unless `on_failure` takes
        it; see `ParallelSettings` for the options.
        """
        runtime = self._running().cluster.runtime
        if not callable(handler):
            raise TypeError(f"process() takes a function of one record, not {handler!r}")
        settings = settings_from(ParallelSettings, options)
        await Processing(
            self, self._settings, self._subscriptions, runtime, handler, settings
        ).run()

    async def fetch_batches(
        self, timeout_ms: float = POLL_TIMEOUT_MS, max_bytes: int = 1 << 20
    ) -> list[FetchedBatch]:
        """Whole batches as brokers hold them, checked but not opened: to count or to copy them.

        As soon as there are some; after `max_bytes` no further one is begun.
        """
        core = self._running()
        self._drop_hand()
        deadline = core.cluster.runtime.clock.now() + arguments.timeout_s(timeout_ms)
        return await core.wait_for(lambda: core.delivery.take_batches(max_bytes), deadline) or []

    async def getone(self) -> AnyRecord:
        """The next record; waits for it as long as it takes."""
        record = await self._next_or_none()
        if record is None:
            raise IllegalState("the consumer is closed")
        return record

    def __aiter__(self) -> Consumer:
        return self

    async def __anext__(self) -> AnyRecord:
        # For every record: no await, no call, one attribute set. What else there is to do is done
        # at the end of a chunk, and when the group wants something.
        if not self._membership.needs_attention:
            for record in self._hand:
                self._in_hand.record = record
                return record
        next_record = await self._next_or_none()
        if next_record is None:
            raise StopAsyncIteration
        return next_record

    async def _next_or_none(self) -> AnyRecord | None:
        if self._is_closed:
            return None
        return await self._running().wait_for(self._take_one, FOREVER)

    def _take_one(self) -> AnyRecord | None:
        """The next record of the chunk in hand, else of a new one."""
        delivery = self._running().delivery
        while True:
            chunk = self._chunk
            if chunk is None or not chunk.is_valid:
                chunk = self._chunk = delivery.next_chunk(self._settings.max_poll_records)
                if chunk is None:
                    return None
                self._hand = iter(self._intercepted(chunk))
            for record in self._hand:
                self._in_hand.state = chunk.state
                self._in_hand.record = record
                return record
            self._chunk = None
            delivery.finish(chunk)

    def _intercepted(self, chunk: Chunk) -> list[AnyRecord]:
        if not self._interceptors:
            return chunk.records
        given = self._interceptors.on_consume({chunk.batch.partition: chunk.records})
        return [record for records in given.values() for record in records]

    def _drop_hand(self) -> None:
        """Iteration goes on from the positions."""
        self._chunk = None
        self._hand = iter(())

    def wakeup(self) -> None:
        """Let the call that waits for records, or the next one, raise `Wakeup`."""
        core = self._running()
        self._drop_hand()
        core.wakeup()

    # The group

    async def commit(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata | int] | None = None
    ) -> None:
        """Commit these offsets, each of the next record to read; without any, all records that were
        handed out, the one in your hands included."""
        await self._group_here().commit(self._to_commit(offsets))

    def commit_async(
        self,
        offsets: Mapping[TopicPartition, OffsetAndMetadata | int] | None = None,
        callback: CommitCallback | None = None,
    ) -> None:
        """The same in the background; `callback(offsets, error)` runs in a later call."""
        if callback is not None and not callable(callback):
            raise TypeError(f"callback={callback!r} is not a function of offsets and an error")
        self._group().commit_soon(self._to_commit(offsets), callback)

    def _to_commit(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata | int] | None
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        if offsets is None:
            return self._subscriptions.positions()
        asked = arguments.by_partition(offsets, "offsets")
        return {one: arguments.offset(one, at) for one, at in asked.items()}

    async def committed(
        self, partitions: Iterable[TopicPartition]
    ) -> dict[TopicPartition, OffsetAndMetadata | None]:
        """What the group has committed; None where it has nothing."""
        return await self._group_here().committed(arguments.partitions(partitions))

    def group_metadata(self) -> GroupMetadata:
        """For `Producer.send_offsets_to_transaction`."""
        return self._group().group_metadata()

    def enforce_rebalance(self, reason: str | None = None) -> None:
        """Let the group assign its partitions anew, at the next poll."""
        self._running().membership.enforce_rebalance(reason)

    def metrics(self) -> dict[str, float]:
        """Numbers under Kafka's names."""
        return self._running().cluster.metrics.snapshot()
