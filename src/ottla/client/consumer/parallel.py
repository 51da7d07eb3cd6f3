"""Working on records in parallel: in order where it matters, and committed only when done.

    await consumer.process(handler, concurrency=16)

Records go into lanes (`lanes.py`), by key, by partition, or one each; a lane is worked on in order,
different lanes at the same time. Of every partition only what lies before the first record that is
not done counts as consumed (`done_offsets.py`), for commits of every kind. So after a crash nothing
is lost, and what was done behind such a record comes again.

It ends when `wakeup()` is called, or with the error of a handler, a rebalance listener or the
consumer: what runs is waited for, what is done is committed, and the consumer stands at the first
record that is not done. When its task is cancelled, handlers are too.
"""

from __future__ import annotations

import asyncio
import inspect
import itertools
import logging
from collections.abc import Collection, Hashable, Mapping
from typing import TYPE_CHECKING

from ottla.client.consumer.done_offsets import DoneOffsets
from ottla.client.consumer.lanes import Lanes
from ottla.client.consumer.parallel_settings import Handler, ParallelSettings
from ottla.client.consumer.rebalance_listener import RebalanceListener
from ottla.client.errors import ClientError, Wakeup
from ottla.client.values import AnyRecord, OffsetAndMetadata, TopicPartition
from ottla.protocol.errors import KafkaError

if TYPE_CHECKING:
    from ottla.client.consumer.consumer import Consumer
    from ottla.client.consumer.subscriptions import Subscriptions
    from ottla.client.settings.consumer import ConsumerSettings
    from ottla.runtime.runtime import Runtime

log = logging.getLogger("ottla.client.parallel")

POLL_MS = 100
"""How long a failure, or room for more, may wait to be seen."""
POLL_PAUSED_MS = 10
"""While partitions are paused here: they shall go on soon after there is room again."""


class Work:
    """A record on its way through, and whoever wants to know when it is done."""

    __slots__ = ("partition", "progress", "record")

    def __init__(self, record: AnyRecord, partition: TopicPartition, progress: DoneOffsets) -> None:
        self.record = record
        self.partition = partition
        self.progress = progress


class Processing:
    """One run of `consumer.process`."""

    def __init__(
        self,
        consumer: Consumer,
        consumer_settings: ConsumerSettings,
        subscriptions: Subscriptions,
        runtime: Runtime,
        handler: Handler,
        settings: ParallelSettings,
    ) -> None:
        self._consumer = consumer
        self._consumer_settings = consumer_settings
        self._subscriptions = subscriptions
        self._runtime = runtime
        self._settings = settings
        self._handler = handler
        self._is_async = _is_async(handler)
        self._lanes: Lanes[Work] = Lanes()
        self._lane_numbers = itertools.count()
        self._progress: dict[TopicPartition, DoneOffsets] = {}
        self._running: set[Work] = set()
        self._workers: set[asyncio.Task[None]] = set()
        self._paused: set[TopicPartition] = set()
        self._is_full = False
        self._something_ended = asyncio.Event()
        self._stopping = asyncio.Event()
        self._failure: Exception | None = None
        self._committed_at = self._runtime.clock.now()

    async def run(self) -> None:
        listener = self._subscriptions.listener
        self._subscriptions.listener = _GivingUp(self, listener)
        self._subscriptions.done_by = self.done_offset
        try:
            await self._feed_and_wind_down()
        finally:
            self._subscriptions.done_by = None
            self._subscriptions.listener = listener
        if self._failure is not None:
            raise self._failure

    async def _feed_and_wind_down(self) -> None:
        try:
            await self._feed()
        except asyncio.CancelledError:
            for worker in self._workers:
                worker.cancel()
            await self._wind_down(is_failing=True)
            raise
        except BaseException:
            await self._wind_down(is_failing=True)
            raise
        await self._wind_down(is_failing=self._failure is not None)

    # Taking records

    async def _feed(self) -> None:
        while self._failure is None:
            try:
                await self._poll()
            except Wakeup:
                return
            self._commit_if_due()

    async def _poll(self) -> None:
        self._balance()
        if self._is_full:
            if await self._ended_within(POLL_MS / 1000):
                return
            timeout_ms = 0  # only to stay a member, and to hear of rebalances
        else:
            timeout_ms = POLL_PAUSED_MS if self._paused else POLL_MS
        room = max(1, self._settings.buffered_max - self._buffered)
        found = await self._consumer.poll(timeout_ms, max_records=room)
        self._forget_idle()
        for partition, records in found.items():
            self._take(partition, records)
        self._start_workers()

    @property
    def _buffered(self) -> int:
        return self._lanes.waiting + len(self._running)

    def _take(self, partition: TopicPartition, records: list[AnyRecord]) -> None:
        progress = self._progress.setdefault(partition, DoneOffsets())
        for record in records:
            progress.begin(record.offset, record.leader_epoch)
            lane = self._lane(partition, record)
            self._lanes.add(lane, Work(record, partition, progress))

    def _lane(self, partition: TopicPartition, record: AnyRecord) -> Hashable:
        if self._settings.ordering == "partition":
            return partition
        if self._settings.ordering == "unordered" or record.key is None:
            return next(self._lane_numbers)
        return partition, _hashable(record.key)

    def _forget_idle(self) -> None:
        """Where everything is done, the consumer's own position says it better: it has passed what
        is no record for the application."""
        for partition, progress in list(self._progress.items()):
            if progress.all_done:
                del self._progress[partition]

    def _balance(self) -> None:
        """Pause everything while there is no room, and a partition that takes half of it alone; go
        on when half of that is free."""
        most = self._settings.buffered_max
        self._is_full = self._buffered >= most or (self._is_full and self._buffered > most // 2)
        assigned = self._consumer.assignment()
        share = most if len(assigned) == 1 else most // 2
        wanted = set()
        for partition in assigned:
            progress = self._progress.get(partition)
            count = 0 if progress is None else progress.count
            if self._is_full or count > (share // 2 if partition in self._paused else share):
                wanted.add(partition)
        pausing = wanted - self._paused - self._consumer.paused()
        self._consumer.resume(*((self._paused - wanted) & assigned))
        self._consumer.pause(*pausing)
        self._paused = (self._paused & wanted) | pausing

    # Working on them

    def _start_workers(self) -> None:
        for _ in range(min(self._lanes.waiting, self._settings.concurrency - len(self._workers))):
            worker = asyncio.get_running_loop().create_task(self._work())
            self._workers.add(worker)
            worker.add_done_callback(self._workers.discard)

    async def _work(self) -> None:
        while self._lanes.has_ready and not self._stopping.is_set():
            lane, work = self._lanes.next()
            self._running.add(work)
            try:
                await self._handle(work.record)
            except Exception as error:
                self._fail(work, error)
                return
            finally:
                self._running.discard(work)
                self._something_ended.set()
            work.progress.finish(work.record.offset)
            self._lanes.done(lane)

    async def _handle(self, record: AnyRecord) -> None:
        on_failure = self._settings.on_failure
        for attempt in itertools.count():
            try:
                await self._call(record)
                return
            except Exception as error:
                if attempt < self._settings.retries:
                    if await self._stops_within(self._settings.pause_ms(attempt) / 1000):
                        raise
                elif on_failure is None:
                    raise
                else:
                    told = on_failure(record, error)
                    if inspect.isawaitable(told):
                        await told
                    return

    async def _call(self, record: AnyRecord) -> None:
        if self._is_async:
            await self._handler(record)
            return
        result = await self._runtime.in_thread(self._handler, record)
        if inspect.isawaitable(result):
            await result

    def _fail(self, work: Work, error: Exception) -> None:
        error.add_note(f"while working on {work.partition} offset {work.record.offset}")
        if self._failure is None:
            self._failure = error
        else:
            log.warning("another handler failed as well", exc_info=error)
        self._stopping.set()

    async def _ended_within(self, seconds: float) -> bool:
        self._something_ended.clear()
        return await _is_set_within(self._something_ended, seconds)

    async def _stops_within(self, seconds: float) -> bool:
        return await _is_set_within(self._stopping, seconds)

    # What is done

    def done_offset(self, partition: TopicPartition) -> OffsetAndMetadata | None:
        """Everything before it is done; None: whatever was handed out of this partition is."""
        progress = self._progress.get(partition)
        return None if progress is None else progress.committable

    def _done_offsets(
        self, partitions: Collection[TopicPartition] | None = None
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        found: dict[TopicPartition, OffsetAndMetadata] = {}
        for partition, progress in self._progress.items():
            if (partitions is None or partition in partitions) and progress.committable is not None:
                found[partition] = progress.committable
        return found

    def _commit_if_due(self) -> None:
        """With auto-commit the group does it; it asks for the same offsets."""
        settings, now = self._consumer_settings, self._runtime.clock.now()
        if settings.group_id is None or settings.enable_auto_commit:
            return
        if now - self._committed_at >= settings.auto_commit_interval_ms / 1000:
            self._committed_at = now
            if offsets := self._done_offsets():
                self._consumer.commit_async(offsets)

    async def _commit(self, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        if offsets and self._consumer_settings.group_id is not None:
            await self._consumer.commit(offsets)

    async def give_up(self, partitions: Collection[TopicPartition], *, are_lost: bool) -> None:
        """Begin with nothing more of these, wait for what runs, commit what is done."""
        self._lanes.drop(lambda work: work.partition in partitions)
        try:
            if not are_lost:
                await self._drain(partitions)
                await self._commit(self._done_offsets(partitions))
        except (KafkaError, ClientError) as error:
            # They go all the same; whoever gets them does again what could not be committed.
            log.warning("partitions are given up with work that is not committed: %s", error)
        finally:
            for partition in partitions:
                self._progress.pop(partition, None)
            self._paused.difference_update(partitions)

    async def _drain(self, partitions: Collection[TopicPartition] | None = None) -> None:
        """Wait for what runs, of these partitions or of all; not for ever."""
        clock = self._runtime.clock
        deadline = clock.now() + self._settings.drain_timeout_ms / 1000
        while any(partitions is None or one.partition in partitions for one in self._running):
            left = deadline - clock.now()
            if left <= 0 or not await self._ended_within(left):
                log.warning("a handler did not end within drain_timeout_ms; its record comes again")
                return

    async def _wind_down(self, *, is_failing: bool) -> None:
        self._stopping.set()
        self._lanes.drop(lambda work: True)
        await self._drain()
        for worker in self._workers:
            worker.cancel()
        assigned = self._consumer.assignment()
        self._consumer.resume(*(self._paused & assigned))
        for partition, progress in self._progress.items():
            if partition in assigned and progress.committable and not progress.all_done:
                self._consumer.seek(partition, progress.committable.offset)
        try:
            await self._commit(self._done_offsets(assigned))
        except (KafkaError, ClientError) as error:
            if not is_failing:
                raise
            log.warning("what was done could not be committed: %s", error)


class _GivingUp(RebalanceListener):
    """Before the application's own listener hears of it, the work on these partitions ends."""

    def __init__(self, processing: Processing, listener: RebalanceListener | None) -> None:
        self._processing = processing
        self._listener = listener or RebalanceListener()

    async def on_partitions_revoked(self, partitions: frozenset[TopicPartition]) -> None:
        await self._processing.give_up(partitions, are_lost=False)
        told = self._listener.on_partitions_revoked(partitions)
        if inspect.isawaitable(told):
            await told

    async def on_partitions_assigned(self, partitions: frozenset[TopicPartition]) -> None:
        told = self._listener.on_partitions_assigned(partitions)
        if inspect.isawaitable(told):
            await told

    async def on_partitions_lost(self, partitions: frozenset[TopicPartition]) -> None:
        await self._processing.give_up(partitions, are_lost=True)
        told = self._listener.on_partitions_lost(partitions)
        if inspect.isawaitable(told):
            await told


def _is_async(handler: Handler) -> bool:
    call = getattr(handler, "__call__", None)  # noqa: B004, an object with an async __call__
    return inspect.iscoroutinefunction(handler) or inspect.iscoroutinefunction(call)


def _hashable(key: object) -> Hashable:
    """What a deserializer made of a key may not be hashable, and must still have one lane."""
    try:
        hash(key)
    except TypeError:
        return repr(key)
    return key


async def _is_set_within(event: asyncio.Event, seconds: float) -> bool:
    try:
        async with asyncio.timeout(seconds):
            await event.wait()
    except TimeoutError:
        return False
    return True
