"""Processes records in parallel: in order where it matters, and committed only when finished.

    await consumer.process(handler, concurrency=16)

Records go into lanes (`lanes.py`): by key, by partition, or one each. A lane runs in order,
different lanes run at the same time. In every partition, only records before the first unfinished
one count as consumed (`done_offsets.py`), for all commits. So after a crash no record is lost, and
records that were finished after an unfinished one are delivered again.

It ends when `until` is set or `wakeup()` is called, or with an error of a handler, a rebalance
listener or the consumer: it waits for running handlers, commits what is finished, and leaves the
consumer at the first unfinished record. When its task is cancelled, the handlers are cancelled,
too.
"""

from __future__ import annotations

import asyncio
import inspect
import itertools
import logging
from collections.abc import Collection, Hashable, Mapping
from typing import TYPE_CHECKING

from ottla.client.consumer.groups.rebalance_listener import RebalanceListener
from ottla.client.consumer.parallel.done_offsets import DoneOffsets
from ottla.client.consumer.parallel.settings import Handler, ParallelSettings
from ottla.client.consumer.parallel.workers import Work, Workers
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
"""How long a failure, or new room for records, may go unnoticed."""
POLL_PAUSED_MS = 10
"""The same while partitions are paused here: they resume soon after there is room again."""


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
        self._workers = Workers(handler, settings, runtime)
        self._lane_numbers = itertools.count()
        self._progress: dict[TopicPartition, DoneOffsets] = {}
        self._paused: set[TopicPartition] = set()
        self._is_full = False
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
        if self._workers.failure is not None:
            raise self._workers.failure

    async def _feed_and_wind_down(self) -> None:
        try:
            await self._feed()
        except asyncio.CancelledError:
            self._workers.cancel()
            await self._wind_down(is_failing=True)
            raise
        except BaseException:
            await self._wind_down(is_failing=True)
            raise
        await self._wind_down(is_failing=self._workers.failure is not None)

    # Taking records

    async def _feed(self) -> None:
        until = self._settings.until
        while self._workers.failure is None and not (until is not None and until.is_set()):
            try:
                await self._poll()
            except Wakeup:
                return
            self._commit_if_due()

    async def _poll(self) -> None:
        self._balance()
        if self._is_full:
            if await self._workers.ended_within(POLL_MS / 1000):
                return
            timeout_ms = 0  # only to remain a member, and to take part in rebalances
        else:
            timeout_ms = POLL_PAUSED_MS if self._paused else POLL_MS
        room = max(1, self._settings.buffered_max - self._workers.buffered)
        found = await self._consumer.poll(timeout_ms, max_records=room)
        self._forget_idle()
        for partition, records in found.items():
            self._take(partition, records)
        self._workers.start()

    def _take(self, partition: TopicPartition, records: list[AnyRecord]) -> None:
        progress = self._progress.get(partition)
        if progress is None or records[0].offset <= progress.last:  # after a seek
            progress = self._progress[partition] = DoneOffsets()
        for record in records:
            progress.begin(record.offset, record.leader_epoch)
            lane = self._lane(partition, record)
            self._workers.add(lane, Work(record, partition, progress))

    def _lane(self, partition: TopicPartition, record: AnyRecord) -> Hashable:
        if self._settings.ordering == "partition":
            return partition
        if self._settings.ordering == "unordered" or record.key is None:
            return next(self._lane_numbers)
        return partition, _hashable(record.key)

    def _forget_idle(self) -> None:
        """Forget partitions in which everything is finished: the consumer's own position is more
        accurate there, as it has passed offsets without records for the application."""
        assigned = self._consumer.assignment()
        self.forget(self._progress.keys() - assigned)
        for partition, progress in list(self._progress.items()):
            if progress.all_done:
                del self._progress[partition]

    def _balance(self) -> None:
        """Pause everything if the buffer is full, and a partition that takes more than half of it
        alone; resume when it has dropped to half of that limit."""
        most = self._settings.buffered_max
        self._is_full = self._workers.buffered >= most or (
            self._is_full and self._workers.buffered > most // 2
        )
        assigned = self._consumer.assignment()
        share = most if len(assigned) == 1 else most // 2
        wanted = set()
        for partition in assigned:
            progress = self._progress.get(partition)
            count = 0 if progress is None else progress.count
            if self._is_full or count > (share // 2 if partition in self._paused else share):
                wanted.add(partition)
        pausing = wanted - self._paused - self._consumer.paused()
        if resuming := (self._paused - wanted) & assigned:
            self._consumer.resume(*resuming)
        if pausing:
            self._consumer.pause(*pausing)
        self._paused = (self._paused & wanted) | pausing

    # Finished records

    def done_offset(self, partition: TopicPartition) -> OffsetAndMetadata | None:
        """Return the offset before which everything is finished; None if all delivered records of
        the partition are finished."""
        progress = self._progress.get(partition)
        return None if progress is None else progress.committable

    def _commit_if_due(self) -> None:
        """Commit at intervals; with auto-commit the group does it, with the same offsets."""
        settings, now = self._consumer_settings, self._runtime.clock.now()
        if settings.group_id is None or settings.enable_auto_commit:
            return
        if now - self._committed_at >= settings.auto_commit_interval_ms / 1000:
            self._committed_at = now
            if offsets := self._subscriptions.consumed():
                self._consumer.commit_async(offsets)

    async def _commit(self, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        if offsets and self._consumer_settings.group_id is not None:
            await self._consumer.commit(offsets)

    async def give_up(self, partitions: Collection[TopicPartition], *, are_lost: bool) -> None:
        """Start nothing more of these, wait for running work, commit what is finished."""
        self._workers.drop(partitions)
        try:
            if not are_lost:
                await self._workers.drain(partitions)
                await self._commit(self._subscriptions.consumed(partitions))
        except (KafkaError, ClientError) as error:
            # The partitions go all the same. Their next owner repeats what could not be committed.
            log.warning("partitions are given up with work that is not committed: %s", error)
        if are_lost:
            self.forget(partitions)

    def forget(self, partitions: Collection[TopicPartition]) -> None:
        """Forget the progress of these partitions: they begin again, here or elsewhere.

        Call it only when they are gone: until then only finished records may be committed.
        """
        for partition in partitions:
            self._progress.pop(partition, None)
        self._paused.difference_update(partitions)

    async def _wind_down(self, *, is_failing: bool) -> None:
        self._workers.stop()
        await self._workers.drain()
        self._workers.cancel()
        assigned = self._consumer.assignment()
        self._consumer.resume(*(self._paused & assigned))
        for partition, progress in self._progress.items():
            if partition in assigned and progress.committable and not progress.all_done:
                self._consumer.seek(partition, progress.committable.offset)
        try:
            await self._commit(self._subscriptions.consumed())
        except (KafkaError, ClientError) as error:
            if not is_failing:
                raise
            log.warning("offsets of processed records could not be committed: %s", error)


class _GivingUp(RebalanceListener):
    """Ends the work on revoked partitions before it calls the application's own listener."""

    def __init__(self, processing: Processing, listener: RebalanceListener | None) -> None:
        self._processing = processing
        self._listener = listener or RebalanceListener()

    async def on_partitions_revoked(self, partitions: frozenset[TopicPartition]) -> None:
        await self._processing.give_up(partitions, are_lost=False)
        told = self._listener.on_partitions_revoked(partitions)
        if inspect.isawaitable(told):
            await told

    async def on_partitions_assigned(self, partitions: frozenset[TopicPartition]) -> None:
        self._processing.forget(partitions)
        told = self._listener.on_partitions_assigned(partitions)
        if inspect.isawaitable(told):
            await told

    async def on_partitions_lost(self, partitions: frozenset[TopicPartition]) -> None:
        await self._processing.give_up(partitions, are_lost=True)
        told = self._listener.on_partitions_lost(partitions)
        if inspect.isawaitable(told):
            await told


def _hashable(key: object) -> Hashable:
    """Make a key hashable, so that equal keys share a lane whatever the deserializer returns."""
    try:
        hash(key)
    except TypeError:
        return repr(key)
    return key
