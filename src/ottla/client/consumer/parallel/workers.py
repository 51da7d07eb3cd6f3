"""Workers that process records: a limited number at a time, each taking the next ready one."""

from __future__ import annotations

import asyncio
import inspect
import itertools
import logging
from collections.abc import Collection, Hashable
from typing import NoReturn

from ottla.client.consumer.parallel.done_offsets import DoneOffsets
from ottla.client.consumer.parallel.lanes import Lanes
from ottla.client.consumer.parallel.settings import Handler, OnFailure, ParallelSettings
from ottla.client.errors import HandlerCancelled
from ottla.client.values import AnyRecord, TopicPartition
from ottla.runtime.runtime import Runtime

log = logging.getLogger("ottla.client.parallel")


class Work:
    """A record to process, and the progress of its partition."""

    __slots__ = ("partition", "progress", "record")

    def __init__(self, record: AnyRecord, partition: TopicPartition, progress: DoneOffsets) -> None:
        self.record = record
        self.partition = partition
        self.progress = progress


class Workers:
    """Tasks that exist only as long as they have work; none of them waits for work."""

    def __init__(self, handler: Handler, settings: ParallelSettings, runtime: Runtime) -> None:
        self._handler = handler
        self._is_async = _is_async(handler)
        self._settings = settings
        self._runtime = runtime
        self._lanes: Lanes[Work] = Lanes()
        self._running: set[Work] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._something_ended = asyncio.Event()
        self._stopping = asyncio.Event()
        self.failure: Exception | None = None
        """The first error that no `on_failure` handled; nothing is started after it."""

    @property
    def buffered(self) -> int:
        """Number of records that wait or are being processed."""
        return self._lanes.waiting + len(self._running)

    def add(self, lane: Hashable, work: Work) -> None:
        """Add work; call `start` afterwards."""
        self._lanes.add(lane, work)

    def start(self) -> None:
        for _ in range(min(self._lanes.waiting, self._settings.concurrency - len(self._tasks))):
            task = asyncio.get_running_loop().create_task(self._work())
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    def drop(self, partitions: Collection[TopicPartition]) -> None:
        """Drop the waiting records of these partitions."""
        self._lanes.drop(lambda work: work.partition in partitions)

    def stop(self) -> None:
        """Drop all waiting records, and start nothing more."""
        self._stopping.set()
        self._lanes.drop(lambda work: True)

    def cancel(self) -> None:
        for task in self._tasks:
            task.cancel()

    async def ended_within(self, seconds: float) -> bool:
        """Return whether some work ended within this time, successfully or not."""
        self._something_ended.clear()
        return await _is_set_within(self._something_ended, seconds)

    async def drain(self, partitions: Collection[TopicPartition] | None = None) -> None:
        """Wait for running work, of these partitions or all, at most `drain_timeout_ms`."""
        clock = self._runtime.clock
        deadline = clock.now() + self._settings.drain_timeout_ms / 1000
        while any(partitions is None or one.partition in partitions for one in self._running):
            left = deadline - clock.now()
            if left <= 0 or not await self.ended_within(left):
                log.warning("a handler did not end within drain_timeout_ms; its record comes again")
                return

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
                    if await self._stops_within(self._settings.pause_ms(attempt)):
                        raise
                elif on_failure is None:
                    raise
                else:
                    await self._give_up(record, error, on_failure)
                    return

    async def _give_up(self, record: AnyRecord, error: Exception, on_failure: OnFailure) -> None:
        try:
            told = on_failure(record, error)
            if inspect.isawaitable(told):
                await told
        except asyncio.CancelledError as cancelled:
            _raise_as_failure(cancelled)

    async def _call(self, record: AnyRecord) -> None:
        try:
            await self._call_handler(record)
        except asyncio.CancelledError as error:
            _raise_as_failure(error)

    async def _call_handler(self, record: AnyRecord) -> None:
        if self._is_async:
            await self._handler(record)
            return
        result = await self._runtime.in_thread(self._handler, record)
        if inspect.isawaitable(result):
            await result

    def _fail(self, work: Work, error: Exception) -> None:
        error.add_note(f"while working on {work.partition} offset {work.record.offset}")
        if self.failure is None:
            self.failure = error
        else:
            log.warning("another handler failed as well", exc_info=error)
        self._stopping.set()

    async def _stops_within(self, pause_ms: float) -> bool:
        return await _is_set_within(self._stopping, pause_ms / 1000)


def _is_async(handler: Handler) -> bool:
    call = getattr(handler, "__call__", None)  # noqa: B004, an object with an async __call__
    return inspect.iscoroutinefunction(handler) or inspect.iscoroutinefunction(call)


def _raise_as_failure(error: asyncio.CancelledError) -> NoReturn:
    """Raise `error` if this task has been cancelled. Otherwise something that the handler waited
    for was cancelled, which is a failure of its record like any other."""
    task = asyncio.current_task()
    if task is not None and task.cancelling():
        raise error
    raise HandlerCancelled() from error


async def _is_set_within(event: asyncio.Event, seconds: float) -> bool:
    try:
        async with asyncio.timeout(seconds):
            await event.wait()
    except TimeoutError:
        return False
    return True
