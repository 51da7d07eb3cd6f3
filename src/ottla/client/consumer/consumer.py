"""Reads records: alone with `assign`, or as a member of a group with `subscribe`.

async with Consumer("payments", group_id="ledger") as consumer:
    async for record in consumer:
        print(record.partition, record.offset, record.value)
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Unpack

from ottla.client.admin.offsets import find_offsets
from ottla.client.arrow import load_pyarrow
from ottla.client.consumer import arguments
from ottla.client.consumer.core import Core
from ottla.client.consumer.delivery.columns import empty_batch
from ottla.client.consumer.delivery.delivery import Chunk
from ottla.client.consumer.delivery.record_decoder import RecordDecoder
from ottla.client.consumer.fetching.buffer import FetchedBatch
from ottla.client.consumer.groups.membership import Attention, Membership
from ottla.client.consumer.interceptors import Interceptors
from ottla.client.consumer.parallel.processing import Processing
from ottla.client.consumer.parallel.settings import Handler, ParallelOptions, ParallelSettings
from ottla.client.consumer.partition_state import EARLIEST, LATEST, UNKNOWN
from ottla.client.consumer.positions.reset_policy import ResetPolicy
from ottla.client.consumer.subscriptions import InHand, Subscriptions
from ottla.client.errors import IllegalState
from ottla.client.network.cluster import Cluster
from ottla.client.network.leaders import all_or_raise
from ottla.client.settings.base import settings_from
from ottla.client.settings.consumer import ConsumerOptions, ConsumerSettings
from ottla.client.settings.documentation import lists_settings
from ottla.client.values import (
    AnyRecord,
    GroupMetadata,
    OffsetAndMetadata,
    OffsetAndTimestamp,
    TopicPartition,
)
from ottla.runtime.ambient import new_runtime

if TYPE_CHECKING:
    from types import TracebackType

    import pyarrow as pa

    from ottla.client.consumer.groups.rebalance_listener import RebalanceListener
    from ottla.runtime.runtime import Runtime

CLOSE_TIMEOUT_MS = 30_000
POLL_TIMEOUT_MS = 1_000
WAIT_SLICE_MS = 1_000
FOREVER = float("inf")

CommitCallback = Callable[[Mapping[TopicPartition, OffsetAndMetadata], Exception | None], Any]


@lists_settings(ConsumerSettings)
class Consumer:
    """Use it as `async with Consumer(...)`, or call `start()` and `close()`.

    Only one task at a time may wait for records. For automatic commits, a record counts as consumed
    when the application asks for the next one: if the application fails in between, the record is
    delivered again.
    """

    def __init__(
        self,
        *topics: str,
        listener: RebalanceListener | None = None,
        runtime: Runtime | None = None,
        **options: Unpack[ConsumerOptions],
    ) -> None:
        self._settings = settings_from(ConsumerSettings, options)
        ResetPolicy.of(self._settings.auto_offset_reset)  # raises here rather than later
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
        self._attention = Attention(lambda: None, needed=True)
        """That of the membership after `start`; before, iteration takes the path that raises."""
        self._hand = self._subscriptions.in_hand
        if not all(isinstance(one, str) for one in topics):
            raise TypeError(f'topics are given one by one: Consumer("a", "b"), not {topics[0]!r}')
        arguments.checked_listener(listener)
        if topics:
            self.subscribe(topics, listener=listener)
        elif listener is not None:
            raise TypeError("a listener goes with topics: give both here, or both to subscribe()")

    @classmethod
    def over(cls, cluster: Cluster, **options: Unpack[ConsumerOptions]) -> Consumer:
        """Return a consumer that uses another owner's connected cluster and does not close it."""
        consumer = cls(**options)
        consumer._given_cluster = cluster
        return consumer

    # Start and close

    async def start(self) -> None:
        """Connect; `async with` does this. Raises `NoBrokerReachable` if no broker answers."""
        if self._core is not None or self._is_closed:
            raise IllegalState("a consumer is started once; make a new one")
        cluster = self._given_cluster or await self._connected()
        self._core = Core(cluster, self._settings, self._subscriptions, self._decoder)
        self._core.membership.on_commit = self._interceptors.on_commit
        self._attention = self._core.membership.attention
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
        """Commit consumed offsets (with enable_auto_commit), leave the group and disconnect.

        Takes at most `timeout_ms`, whatever the state of the cluster. Iteration and a pending poll
        end.
        """
        if self._closing is None:
            if self._core is not None:
                self._core.check_loop()
            self._hand.drop_chunk()
            self._subscriptions.settle()
        await self._close(timeout_ms)

    async def _close(self, timeout_ms: int) -> None:
        """Close once. Concurrent callers wait until it is done, except for a listener's call, which
        the closing itself waits for."""
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
        self._hand.drop_chunk()
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
        # After an exception, the records that the application holds are not consumed.
        await (self.close() if kind is None else self._close(CLOSE_TIMEOUT_MS))

    def _running(self) -> Core:
        if self._is_closed:
            raise IllegalState("the consumer is closed")
        if self._core is None:
            raise IllegalState("the consumer is not started: use `async with`, or await start()")
        return self._core

    def _group(self) -> Membership:
        """Return the membership, also during close: the listener may still commit."""
        if self._core is not None and not self._core.is_gone:
            return self._core.membership
        return self._running().membership

    def _group_here(self) -> Membership:
        """Return the membership for calls that wait, after checking the event loop."""
        group = self._group()
        if self._core is not None:
            self._core.check_loop()
        return group

    # Subscription and assignment

    def subscribe(
        self,
        topics: Iterable[str] | None = None,
        *,
        pattern: str | re.Pattern[str] | None = None,
        listener: RebalanceListener | None = None,
    ) -> None:
        """Read these topics, or all that match the pattern, together with the other members of the
        group; without a group_id, read all their partitions.

        Replaces the previous subscription. Partitions are assigned and revoked while the
        application waits for records, and the listener is called then.
        """
        is_matched_here = (
            self._settings.group_id is None or self._settings.group_protocol == "classic"
        )
        # In the new protocol the broker matches a plain string, by its own rules.
        if pattern is not None and (is_matched_here or not isinstance(pattern, str)):
            pattern = arguments.matchable(pattern)
        arguments.checked_listener(listener)
        self._subscriptions.subscribe(topics, pattern, listener)
        if self._core is not None:
            self._running().membership.subscription_changed()

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        """Read exactly these partitions, whatever the other members of the group read."""
        self._hand.drop_chunk()
        self._subscriptions.assign(partitions)
        if self._core is not None:
            self._running().membership.subscription_changed()

    async def unsubscribe(self) -> None:
        """Stop reading, and leave the group."""
        self._hand.drop_chunk()
        if self._core is not None:
            await self._group_here().leave()
        self._subscriptions.unsubscribe()

    def assignment(self) -> frozenset[TopicPartition]:
        return self._subscriptions.assigned

    def subscription(self) -> frozenset[str]:
        return self._subscriptions.topics

    def pause(self, *partitions: TopicPartition | Iterable[TopicPartition]) -> None:
        """Deliver no records of these partitions until `resume`. Fetched records are kept."""
        self._hand.drop_chunk()
        self._subscriptions.pause(arguments.flat(partitions))

    def resume(self, *partitions: TopicPartition | Iterable[TopicPartition]) -> None:
        self._subscriptions.resume(arguments.flat(partitions))
        self._reading_changed()

    def paused(self) -> frozenset[TopicPartition]:
        return self._subscriptions.paused

    def _reading_changed(self) -> None:
        self._hand.drop_chunk()
        if self._core is not None:
            self._core.reading_changed()

    # Records

    async def poll(
        self, timeout_ms: float = POLL_TIMEOUT_MS, max_records: int | None = None
    ) -> dict[TopicPartition, list[AnyRecord]]:
        """Return records as soon as there are some, at most `max_records` (by default
        max_poll_records); an empty dict after `timeout_ms`.

        If a partition cannot be read, its turn raises `PartitionUnreadable`, until a `seek`.
        """
        core = self._running()
        self._hand.drop_chunk()
        limit = arguments.checked_limit(max_records) or self._settings.max_poll_records
        deadline = core.cluster.runtime.clock.now() + arguments.timeout_s(timeout_ms)
        found = await core.wait_for(lambda: core.delivery.poll(limit), deadline)
        if found and self._interceptors:
            return self._interceptors.on_consume(found)
        return found or {}

    async def batches(self, max_records: int | None = None) -> AsyncIterator[list[AnyRecord]]:
        """Yield lists of records, each of one partition, until the consumer is closed."""
        core = self._running()
        limit = arguments.checked_limit(max_records) or self._settings.max_poll_records
        while not self._is_closed:
            self._hand.drop_chunk()
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
        """Like `poll`, but return Arrow columns: all available rows, up to about 16 MiB or
        `max_records`; no rows after `timeout_ms`. Deserializers and interceptors are not applied.

        The columns are those of Spark's Kafka source: key, value, topic, partition, offset,
        timestamp, timestampType, and headers if requested. Needs `ottla[arrow]`.
        """
        load_pyarrow()  # must fail before records count as delivered
        core = self._running()
        self._hand.drop_chunk()
        deadline = core.cluster.runtime.clock.now() + arguments.timeout_s(timeout_ms)
        arguments.checked_limit(max_records)
        take = core.columns.take
        found = await core.wait_for(lambda: take(max_records, headers=headers), deadline)
        return empty_batch(headers) if found is None else found

    async def arrow_batches(
        self, max_records: int | None = None, *, headers: bool = False
    ) -> AsyncIterator[pa.RecordBatch]:
        """Yield non-empty results of `fetch_arrow` until the consumer is closed."""
        while not self._is_closed:
            rows = await self.fetch_arrow(WAIT_SLICE_MS, max_records, headers=headers)
            if rows.num_rows:
                yield rows

    async def process(self, handler: Handler, **options: Unpack[ParallelOptions]) -> None:
        """Call `handler` with every record, several at the same time, those of one key in order.

        Only finished records are committed, whether or not enable_auto_commit is set. A coroutine
        function runs on the event loop, a plain function in a thread. Ends when the event `until`
        is set or `wakeup()` is called, and with a handler's error unless `on_failure` handles it.
        See `ParallelSettings` for the options.
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
        """Return whole batches as brokers store them, checked but not opened, to count or copy
        them.

        Returns as soon as there are some. No further batch is added after `max_bytes`.
        """
        core = self._running()
        self._hand.drop_chunk()
        deadline = core.cluster.runtime.clock.now() + arguments.timeout_s(timeout_ms)
        return await core.wait_for(lambda: core.delivery.take_batches(max_bytes), deadline) or []

    async def getone(self) -> AnyRecord:
        """Return the next record; waits without limit."""
        record = await next_or_none(self)
        if record is None:
            raise IllegalState("the consumer is closed")
        return record

    def __aiter__(self) -> Consumer:
        return self

    async def __anext__(self) -> AnyRecord:
        # This runs for every record: no await, no call, one attribute set. Everything else happens
        # at the end of a chunk, and when the group needs attention.
        if not self._attention.needed:
            hand = self._hand
            for record in hand.rest:
                hand.record = record
                return record
        next_record = await next_or_none(self)
        if next_record is None:
            raise StopAsyncIteration
        return next_record

    def _take_one(self) -> AnyRecord | None:
        """Return the next record of the current chunk, else of a new one."""
        delivery, hand = self._running().delivery, self._hand
        while True:
            chunk = hand.chunk
            if chunk is None or not chunk.is_valid:
                chunk = hand.chunk = delivery.next_chunk(self._settings.max_poll_records)
                if chunk is None:
                    return None
                hand.rest = iter(self._intercepted(chunk))
            for record in hand.rest:
                hand.state = chunk.state
                hand.record = record
                return record
            hand.chunk = None
            delivery.finish(chunk)

    def _intercepted(self, chunk: Chunk) -> list[AnyRecord]:
        if not self._interceptors:
            return chunk.records
        given = self._interceptors.on_consume({chunk.batch.partition: chunk.records})
        return [record for records in given.values() for record in records]

    def wakeup(self) -> None:
        """Make the call that waits for records, or the next one, raise `Wakeup`."""
        core = self._running()
        self._hand.drop_chunk()
        core.wakeup()

    # Positions

    async def position(self, partition: TopicPartition, timeout_ms: float | None = None) -> int:
        """Return the offset of the next record to deliver; waits until it is known."""
        core = self._running()
        core.check_loop()
        limit_ms = self._settings.default_api_timeout_ms if timeout_ms is None else timeout_ms
        state = self._subscriptions.state(arguments.partition(partition))
        return await core.positions.known(state, arguments.timeout_s(limit_ms))

    def lag(self) -> dict[TopicPartition, int]:
        """Return the number of records between each position and the last known end."""
        found: dict[TopicPartition, int] = {}
        for state in self._subscriptions.chosen(()):
            committed = self._settings.is_read_committed
            end = state.last_stable_offset if committed else state.high_watermark
            if end != UNKNOWN and state.has_position:
                found[state.partition] = max(0, end - state.position)
        return found

    # Seeks

    def seek(self, partition: TopicPartition, offset: int | OffsetAndMetadata) -> None:
        """Continue at this offset, and drop what was fetched. No request is sent before the next
        poll, so an offset that the log does not hold raises there."""
        one = arguments.partition(partition)
        at = arguments.offset(one, offset)
        self._subscriptions.seek(one, at.offset, at.leader_epoch)
        self._reading_changed()

    def seek_to_beginning(self, *partitions: TopicPartition | Iterable[TopicPartition]) -> None:
        """Seek to the first record; without arguments, in all assigned partitions."""
        self._seek_all(partitions, EARLIEST)

    def seek_to_end(self, *partitions: TopicPartition | Iterable[TopicPartition]) -> None:
        """Seek behind the last record; with read_committed, to the last stable offset."""
        self._seek_all(partitions, LATEST)

    def seek_to_time(self, times: Mapping[TopicPartition, int]) -> None:
        """Seek to the first record at or after a timestamp in ms; to the end if there is none."""
        for one, at in arguments.by_partition(times, "times").items():
            self._subscriptions.reset(one, arguments.time_ms(one, at))
        self._reading_changed()

    def _seek_all(
        self, partitions: Iterable[TopicPartition | Iterable[TopicPartition]], to: int
    ) -> None:
        for state in self._subscriptions.chosen(arguments.flat(partitions)):
            self._subscriptions.reset(state.partition, to)
        self._reading_changed()

    # Lookups

    async def offsets_for_times(
        self, times: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        """Return the first record at or after a timestamp in ms, of any partitions; None if all
        records are older."""
        asked = arguments.by_partition(times, "times")
        found = await self._find({one: arguments.time_ms(one, at) for one, at in asked.items()})
        return {one: None if at.offset == UNKNOWN else at for one, at in found.items()}

    async def beginning_offsets(
        self, partitions: Iterable[TopicPartition]
    ) -> dict[TopicPartition, int]:
        found = await self._find(dict.fromkeys(arguments.partitions(partitions), EARLIEST))
        return {one: at.offset for one, at in found.items()}

    async def end_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """Return the offset after the last record; with read_committed, the last stable offset."""
        found = await self._find(dict.fromkeys(arguments.partitions(partitions), LATEST))
        return {one: at.offset for one, at in found.items()}

    async def _find(
        self, at: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, OffsetAndTimestamp]:
        core = self._running()
        core.check_loop()
        return all_or_raise(await find_offsets(core.cluster, at, self._settings.isolation_level))

    async def partitions_for_topic(self, topic: str) -> frozenset[int]:
        """Return the partition numbers of a topic. Raises `TopicMissing` if it does not exist."""
        found = await self._running().cluster.topic(topic)
        return frozenset(partition.index for partition in found.partitions)

    async def topics(self) -> frozenset[str]:
        """Return all topics that this consumer may see; internal ones if they are not excluded."""
        cluster = self._running().cluster
        view = await cluster.retrying(lambda: cluster.refresh())
        hidden = self._settings.exclude_internal_topics
        return frozenset(
            name for name, topic in view.topics.items() if not (hidden and topic.internal)
        )

    # The group

    async def commit(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata | int] | None = None
    ) -> None:
        """Commit these offsets, each the offset of the next record to read; without any, commit all
        delivered records, including the one that the application holds."""
        await self._group_here().commit(self._to_commit(offsets))

    def commit_async(
        self,
        offsets: Mapping[TopicPartition, OffsetAndMetadata | int] | None = None,
        callback: CommitCallback | None = None,
    ) -> None:
        """Commit in the background; `callback(offsets, error)` runs in a later call."""
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
        """Return the group's committed offsets; None for partitions without one."""
        return await self._group_here().committed(arguments.partitions(partitions))

    def group_metadata(self) -> GroupMetadata:
        """Return this member's metadata, for `Producer.send_offsets_to_transaction`."""
        return self._group().group_metadata()

    def enforce_rebalance(self, reason: str | None = None) -> None:
        """Request a rebalance at the next poll."""
        self._running().membership.enforce_rebalance(reason)

    def metrics(self) -> dict[str, float]:
        """Return the client's metrics under Kafka's names."""
        return self._running().cluster.metrics.snapshot()


# For the blocking consumer, which takes records of a chunk in the application's own thread


async def next_or_none(consumer: Consumer) -> AnyRecord | None:
    """Wait for the next record; None when the consumer is closed."""
    if consumer._is_closed:
        return None
    return await consumer._running().wait_for(consumer._take_one, FOREVER)


def iteration_of(consumer: Consumer) -> tuple[InHand, Attention]:
    """Return the state that iteration reads for every record, once the consumer is started."""
    return consumer._hand, consumer._attention
