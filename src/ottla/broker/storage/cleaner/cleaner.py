"""The cleaner: chooses the dirtiest log, compacts it, puts the result into the log.

`log.cleaner.threads` lanes work in parallel, each with a child process for the heavy part. The
event loop only chooses and swaps, and never waits for the disk.
"""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Iterator
from itertools import islice
from typing import TYPE_CHECKING, NoReturn

from ottla.broker.storage.cleaner.choice import CleanableLog, assess
from ottla.broker.storage.cleaner.clean_offsets import CleanOffsets
from ottla.broker.storage.cleaner.compaction import remove_cleaned
from ottla.broker.storage.cleaner.job import CleanedGroup, Failed, Finished, Memory, RunLimits
from ottla.broker.storage.cleaner.metrics import CleanerMetrics
from ottla.broker.storage.cleaner.planning import cleaned_segment, plan_job
from ottla.broker.storage.cleaner.running import Run, RunStopped, Workplace
from ottla.broker.storage.errors import LogDirFailure, LogFailed
from ottla.broker.storage.log import Log
from ottla.broker.storage.replacement import ReplacementRefused
from ottla.broker.storage.segments.segment import Segment
from ottla.config.broker import BrokerConfig
from ottla.logs import get_logger
from ottla.protocol.errors import KafkaError
from ottla.runtime.runtime import Runtime, Timer

if TYPE_CHECKING:
    from ottla.broker.storage.log_manager import HighWatermarks, LogManager

logger = get_logger("ottla.cleaner")

PORTION_LOGS = 100
CHECKPOINT_SOON_S = 0.2
_DISK_FULL = (errno.ENOSPC, errno.EDQUOT)
_MB = 1_000_000


class BrokenOff(Exception):
    """This run has failed; the log may be tried again."""


class LogCleaner:
    def __init__(self, runtime: Runtime, config: BrokerConfig, manager: LogManager) -> None:
        self._runtime = runtime
        self._config = config
        self._manager = manager
        self._offsets = CleanOffsets(runtime.disk, (log_dir.path for log_dir in manager.dirs))
        # Set by `start`: the replicas, which know them, are built with the log manager.
        self._high_watermarks: HighWatermarks = dict
        self._is_started = False
        self._lanes: dict[int, Timer | None] = {}
        """The timer of each waiting lane; None for a lane at work."""
        self._busy: dict[Log, Run | None] = {}
        self._stopped = False
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
        self._config = config
        if self._is_started:
            self._begin_lanes()

    @property
    def _lanes_wanted(self) -> int:
        enabled = self._config["log.cleaner.enable"] and not self._stopped
        return int(self._config["log.cleaner.threads"]) if enabled else 0

    def _begin_lanes(self) -> None:
        for lane in range(self._lanes_wanted):
            if lane not in self._lanes:
                self._lanes[lane] = None
                self._spawn(lane)

    def _spawn(self, lane: int) -> None:
        self._lanes[lane] = None
        self._runtime.spawn(self._work(lane), name=f"cleaner-{lane}")

    async def stop(self) -> None:
        """Abort all work, and wait until no log is in the middle of a swap."""
        self._stopped = True
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
        if not self._to_write and not self._stopped:
            self._runtime.call_later(CHECKPOINT_SOON_S, self._spawn_writing)
        self._to_write[directory] = None

    def _spawn_writing(self) -> None:
        self._runtime.spawn(self._write_marked(), name="cleaner-checkpoint")

    async def _write_marked(self) -> None:
        directories, self._to_write = self._to_write, {}
        for directory in directories:
            await self._write_offsets(directory)

    # A lane

    async def _work(self, lane: int) -> None:
        """Clean log after log; wait `log.cleaner.backoff.ms` when none is due."""
        place = Workplace(self._runtime)
        try:
            while lane < self._lanes_wanted and await self._clean_dirtiest(place):
                pass
        finally:
            place.clear()
            self._lanes.pop(lane, None)
            if not self._lanes:
                self._all_ended.set()
            if lane < self._lanes_wanted:
                delay_s = self._config["log.cleaner.backoff.ms"] / 1000
                self._lanes[lane] = self._runtime.call_later(delay_s, self._spawn, lane)

    async def _clean_dirtiest(self, place: Workplace) -> bool:
        """Clean the dirtiest log; True if there was one and it was cleaned."""
        chosen = await self._choose()
        if chosen is None:
            return False
        log = chosen.log
        self._busy[log] = None
        try:
            await self._clean(place, chosen)
        except (BrokenOff, RunStopped, ReplacementRefused, LogFailed) as reason:
            self.metrics.broken_off += 1
            on_purpose = self._stopped or log.failure is not None
            tell = logger.info if on_purpose else logger.warning
            tell("Broke off the compaction of %s: %s", log.directory, reason)
            await self._clear_up(place, chosen)
            return False
        except LogDirFailure as error:
            self._manager.fail_dir(error.directory, error.cause)
            return False
        except OSError as error:
            if log.failure is None:
                self._manager.fail_dir(log.parent_directory, error)
            return False
        finally:
            del self._busy[log]
        self._retain(log)
        return True

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
        try:
            cleanable = assess(log, self._offsets.get(log), high_watermark, now_ms)
            return [] if cleanable is None else [cleanable]
        except OSError as error:
            self._manager.fail_dir(log.parent_directory, error)
        except KafkaError as error:
            self._give_up(log, str(error))
        return []

    def _give_up(self, log: Log, reason: str) -> None:
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

    # One log

    async def _clean(self, place: Workplace, chosen: CleanableLog) -> None:
        log, begun_s = chosen.log, self._runtime.clock.now()
        generation = log.generation
        segments = {segment.base_offset: segment for segment in log.segments}
        limits = RunLimits(
            self._config["log.cleaner.io.max.bytes.per.second"] / max(self._lanes_wanted, 1)
        )
        # Flush first: an older record of a key must not be removed because of a younger one, or of
        # a marker, that could still be lost in a power failure.
        await self._runtime.in_thread(log.flush)
        job = plan_job(chosen, self._memory(), self._runtime.clock.wall_ms())
        run = await place.begin(job, limits)
        self._busy[log] = run
        while True:
            if self._stopped or log.failure is not None or log.generation != generation:
                raise BrokenOff(log.failure or "it was truncated, or the broker stops")
            match await run.following():
                case CleanedGroup() as group:
                    await self._swap(log, group, segments, generation)
                case Finished() as finished:
                    break
                case Failed() as failed:
                    self._failed(log, failed)
        self._offsets.set(log, finished.end_offset)
        await self._write_offsets(log.parent_directory)
        seconds = self._runtime.clock.now() - begun_s
        self.metrics.add(finished.stats, self._runtime.clock.wall_ms(), seconds)
        _log_compaction(chosen, finished, seconds)

    def _failed(self, log: Log, failed: Failed) -> NoReturn:
        if log.failure is not None or failed.error_number in _DISK_FULL:
            raise BrokenOff(failed.reason)
        if failed.error_number is not None:
            raise OSError(failed.error_number, failed.reason)
        self._give_up(log, failed.reason)
        raise BrokenOff(failed.reason)

    async def _clear_up(self, place: Workplace, chosen: CleanableLog) -> None:
        """Remove incomplete files, which would otherwise stay until the next attempt or start."""
        await place.break_off()
        if chosen.log.failure is None and not self._stopped:
            await self._runtime.in_thread(self._remove_cleaned, chosen)

    def _remove_cleaned(self, chosen: CleanableLog) -> None:
        for segment in chosen.log.segments:
            if segment.base_offset < chosen.uncleanable_offset:
                remove_cleaned(self._runtime.disk, chosen.log.directory, segment.base_offset)

    def _memory(self) -> Memory:
        lanes = max(self._lanes_wanted, 1)
        return Memory(
            self._config["log.cleaner.dedupe.buffer.size"] // lanes,
            self._config["log.cleaner.io.buffer.load.factor"],
            max(self._config["log.cleaner.io.buffer.size"] // lanes // 2, 1),
        )

    async def _swap(
        self, log: Log, group: CleanedGroup, segments: dict[int, Segment], generation: int
    ) -> None:
        disk, now_ms = self._runtime.disk, self._runtime.clock.wall_ms()
        cleaned = cleaned_segment(disk, log, group, now_ms)
        replaced = [segments[base_offset] for base_offset in group.replaced]
        try:
            replacement = log.replace_segments(cleaned, replaced, generation)
        except ReplacementRefused:
            await self._runtime.in_thread(cleaned.files.remove)
            raise
        await self._runtime.in_thread(replacement.prepare)
        replacement.install()
        await self._runtime.in_thread(replacement.retire)
        replacement.finish()

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


def _log_compaction(chosen: CleanableLog, finished: Finished, seconds: float) -> None:
    stats = finished.stats
    logger.info(
        "Compacted %s, dirty from offset %d to %d: %.1f MB to %.1f MB, %d records to %d, in %.1f s "
        "(%.1f MB/s); the map of keys was %.1f %% full",
        chosen.log.directory,
        chosen.first_dirty_offset,
        finished.end_offset,
        stats.bytes_read / _MB,
        stats.bytes_written / _MB,
        stats.records_read,
        stats.records_written,
        seconds,
        stats.bytes_read / _MB / max(seconds, 0.001),
        100 * stats.map_utilization,
    )
    if stats.records_without_key:
        logger.warning(
            "%s held %d records without a key, which compaction cannot keep",
            chosen.log.directory,
            stats.records_without_key,
        )
