"""The cleaner: chooses the dirtiest log, compacts it, puts the result into the log.

`log.cleaner.threads` lanes work in parallel, each with a child process for the heavy part. The
event loop only chooses and swaps, and never waits for the disk.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from itertools import islice
from typing import TYPE_CHECKING

from ottla.broker.storage.cleaner.clean_offsets import CleanOffsets
from ottla.broker.storage.cleaner.metrics import CleanerMetrics
from ottla.broker.storage.errors import LogDirFailure
from ottla.broker.storage.log import Log
from ottla.config.broker import BrokerConfig
from ottla.logs import get_logger
from ottla.protocol.errors import KafkaError
from ottla.runtime.runtime import Runtime, Timer

if TYPE_CHECKING:
    from ottla.broker.storage.cleaner.choice import CleanableLog
    from ottla.broker.storage.cleaner.lane import Lane
    from ottla.broker.storage.cleaner.running import Run
    from ottla.broker.storage.log_manager import HighWatermarks, LogManager

logger = get_logger("ottla.cleaner")

PORTION_LOGS = 100
CHECKPOINT_SOON_S = 0.2


class LogCleaner:
    def __init__(self, runtime: Runtime, config: BrokerConfig, manager: LogManager) -> None:
        self._runtime = runtime
        self.config = config
        self._manager = manager
        self._offsets = CleanOffsets(runtime.disk, (log_dir.path for log_dir in manager.dirs))
        # Set by `start`: the replicas, which know them, are built with the log manager.
        self._high_watermarks: HighWatermarks = dict
        self._is_started = False
        self._lanes: dict[int, Timer | None] = {}
        """The timer of each waiting lane; None for a lane at work."""
        self._busy: dict[Log, Run | None] = {}
        self.is_stopped = False
        self._all_ended = asyncio.Event()
        self._to_write: dict[str, None] = {}
        self.uncleanable: dict[Log, str] = {}
        """Damaged logs, with the reason: they are not tried again before the next start."""
        self.metrics = CleanerMetrics()

    # Lifecycle

    async def load(self) -> None:
        """Read the clean offsets, before anything is appended to the logs just loaded."""
        paths = [log_dir.path for log_dir in self._manager.dirs.online()]
        found = await self._runtime.in_thread(self._offsets.read, paths)
        self._offsets.adopt(found, self._manager.logs())
        for log in self._manager.logs():
            known = self._offsets.get(log)
            if known is not None and known > log.end_offset:
                self._offsets.forget(log)

    def start(self, high_watermarks: HighWatermarks) -> None:
        self._high_watermarks = high_watermarks
        self._is_started = True
        self._begin_lanes()

    def configure(self, config: BrokerConfig) -> None:
        """Apply new settings from the next job on; surplus lanes end after their job."""
        self.config = config
        if self._is_started:
            self._begin_lanes()

    @property
    def lanes_wanted(self) -> int:
        enabled = self.config["log.cleaner.enable"] and not self.is_stopped
        return int(self.config["log.cleaner.threads"]) if enabled else 0

    def _begin_lanes(self) -> None:
        for lane in range(self.lanes_wanted):
            if lane not in self._lanes:
                self._lanes[lane] = None
                self._spawn(lane)

    def _spawn(self, lane: int) -> None:
        self._lanes[lane] = None
        self._runtime.spawn(self._work(lane), name=f"cleaner-{lane}")

    async def stop(self) -> None:
        """Abort all work, and wait until no log is in the middle of a swap."""
        self.is_stopped = True
        for lane, timer in list(self._lanes.items()):
            if timer is not None:
                timer.cancel()
                del self._lanes[lane]
        for log in list(self._busy):
            self.abort(log)
        if self._lanes:
            await self._all_ended.wait()

    # Notifications

    def is_cleaning(self, log: Log) -> bool:
        return log in self._busy

    def abort(self, log: Log) -> None:
        """Abort the compaction of a log that was truncated, deleted or taken offline."""
        run = self._busy.get(log)
        if run is not None:
            run.stop()

    def truncated(self, log: Log) -> None:
        self.abort(log)
        self._offsets.cut(log)
        self._write_soon(log.parent_directory)

    def deleted(self, log: Log) -> None:
        """Forget a deleted log: its name may be used again, for a log of which nothing is clean."""
        self.abort(log)
        self.uncleanable.pop(log, None)
        self._offsets.forget(log)
        self._write_soon(log.parent_directory)

    def _write_soon(self, directory: str) -> None:
        if not self._to_write and not self.is_stopped:
            self._runtime.call_later(CHECKPOINT_SOON_S, self._spawn_writing)
        self._to_write[directory] = None

    def _spawn_writing(self) -> None:
        self._runtime.spawn(self._write_marked(), name="cleaner-checkpoint")

    async def _write_marked(self) -> None:
        directories, self._to_write = self._to_write, {}
        for directory in directories:
            await self._write_offsets(directory)

    # A lane

    async def _work(self, number: int) -> None:
        """Clean log after log; wait `log.cleaner.backoff.ms` when none is due."""
        lane: Lane | None = None
        try:
            while number < self.lanes_wanted and (chosen := await self._choose()) is not None:
                lane = lane or self._lane()
                if not await self._clean(lane, chosen):
                    break
        finally:
            if lane is not None:
                lane.clear()
            self._lanes.pop(number, None)
            if not self._lanes:
                self._all_ended.set()
            if number < self.lanes_wanted:
                delay_s = self.config["log.cleaner.backoff.ms"] / 1000
                self._lanes[number] = self._runtime.call_later(delay_s, self._spawn, number)

    def _lane(self) -> Lane:
        """Create what does the work: only now, because importing the code of compaction would slow
        down the start of a broker that has nothing to compact."""
        from ottla.broker.storage.cleaner.lane import Lane

        return Lane(self._runtime, self._manager, self)

    async def _clean(self, lane: Lane, chosen: CleanableLog) -> bool:
        """Clean one log; False if that was broken off."""
        self._busy[chosen.log] = None
        try:
            if not await lane.clean(chosen):
                return False
        finally:
            del self._busy[chosen.log]
        self._retain(chosen.log)
        return True

    def began(self, log: Log, run: Run) -> None:
        """Note what to stop when the compaction of a log is aborted."""
        self._busy[log] = run

    async def cleaned(self, log: Log, end_offset: int) -> None:
        """Note that the log is clean up to an offset."""
        self._offsets.set(log, end_offset)
        await self._write_offsets(log.parent_directory)

    async def _choose(self) -> CleanableLog | None:
        now_ms = self._runtime.clock.wall_ms()
        marks = self._high_watermarks()
        found: list[CleanableLog] = []
        for portion in _portions(iter(self._manager.logs())):
            for log in portion:
                mark = marks.get((log.topic, log.partition))
                if mark is not None and self._is_candidate(log):
                    found += self._assess(log, mark, now_ms)
            await asyncio.sleep(0)
        self.metrics.last_choice_ms = now_ms
        self.metrics.greatest_dirty_ratio = max((c.dirty_ratio for c in found), default=0.0)
        self.metrics.greatest_delay_ms = max((c.delay_ms for c in found), default=0)
        due = [c for c in found if c.is_due and self._is_candidate(c.log)]
        return max(due, key=_dirty_ratio, default=None)

    def _is_candidate(self, log: Log) -> bool:
        return (
            log.config.compact
            and len(log.segments) > 1
            and log.failure is None
            and log not in self._busy
            and log not in self.uncleanable
            and self._manager.futures.get(log.topic, log.partition) is None  # it is being moved
        )

    def _assess(self, log: Log, high_watermark: int, now_ms: int) -> list[CleanableLog]:
        from ottla.broker.storage.cleaner.choice import assess

        try:
            cleanable = assess(log, self._offsets.get(log), high_watermark, now_ms)
            return [] if cleanable is None else [cleanable]
        except OSError as error:
            self._manager.fail_dir(log.parent_directory, error)
        except KafkaError as error:
            self.give_up(log, str(error))
        return []

    def give_up(self, log: Log, reason: str) -> None:
        """Leave a damaged log as it is from now on."""
        self.uncleanable[log] = reason
        logger.error("%s is not compacted any more: %s", log.directory, reason)

    def _retain(self, log: Log) -> None:
        """Apply retention, which skipped this log while it was being compacted."""
        mark = self._high_watermarks().get((log.topic, log.partition))
        try:
            if mark is not None:
                log.delete_old_segments(self._runtime.clock.wall_ms(), mark)
        except LogDirFailure as error:
            self._manager.fail_dir(error.directory, error.cause)
        except KafkaError as error:
            logger.error("Retention of %s: %s", log.directory, error)

    async def _write_offsets(self, directory: str) -> None:
        logs = [log for log in self._manager.logs() if log.parent_directory == directory]
        offsets = self._offsets.of(logs)
        try:
            await self._runtime.in_thread(self._offsets.write, directory, offsets)
        except OSError as error:
            self._manager.fail_dir(directory, error)


def _dirty_ratio(cleanable: CleanableLog) -> float:
    return cleanable.dirty_ratio


def _portions(logs: Iterator[Log]) -> Iterator[list[Log]]:
    while portion := list(islice(logs, PORTION_LOGS)):
        yield portion
