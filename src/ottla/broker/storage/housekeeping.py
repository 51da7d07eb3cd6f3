"""Periodic work on logs: retention, flushes, checkpoints, removals.

Each job runs, waits, and runs again; none overlaps itself, and each yields to the event loop
between batches of logs, so that thousands of partitions never delay a request.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from itertools import islice
from typing import TYPE_CHECKING

from ottla.broker.storage.errors import LogDirFailure
from ottla.broker.storage.log import Log
from ottla.config.broker import BrokerConfig
from ottla.logs import get_logger
from ottla.protocol.errors import KafkaError
from ottla.runtime.runtime import Runtime, Timer

if TYPE_CHECKING:
    from ottla.broker.storage.dirs.log_dir import LogDir
    from ottla.broker.storage.log_manager import HighWatermarks, LogManager

logger = get_logger("ottla.storage.housekeeping")

PORTION_LOGS = 100
REMOVAL_INTERVAL_MS = 1000
CHECKPOINT_SOON_MS = 200
FLUSH_CHECK_INTERVAL_MAX_MS = 10_000
FLUSH_CHECK_INTERVAL_MIN_MS = 10
INTERVAL_MAX_MS = 24 * 3600 * 1000
"""Kafka expresses "never" by the greatest int64, which no timer accepts: the job runs once a day
instead."""

Job = Callable[[], Awaitable[int]]
"""Does its work and returns the delay in milliseconds until the next run."""


class Housekeeping:
    def __init__(self, runtime: Runtime, config: BrokerConfig, manager: LogManager) -> None:
        self._runtime = runtime
        self._config = config
        self._manager = manager
        self._timers: dict[Job, Timer] = {}
        # Set by `start`: the replicas, which know them, are built with the log manager.
        self._high_watermarks: HighWatermarks = dict
        self._doomed: list[tuple[int, str]] = []
        self._cut_logs: dict[Log, None] = {}
        self._settling: dict[Log, None] = {}
        """Logs whose truncation is being made durable."""
        self._stopped = False
        self._unsettled: list[Log] = []

    def start(self, high_watermarks: HighWatermarks) -> None:
        self._high_watermarks = high_watermarks
        delay_ms = self._config["log.initial.task.delay.ms"]
        self._after(delay_ms, self._retain)
        self._after(delay_ms, self._checkpoint)
        self._after(delay_ms, self._expire_producers)
        self._after(self._config["replica.high.watermark.checkpoint.interval.ms"], self._save_marks)
        self._after(REMOVAL_INTERVAL_MS, self._remove)
        self._after(0, self._flush)
        self._after(0, self._settle)

    def configure(self, config: BrokerConfig) -> None:
        """Apply new intervals from each job's next run on."""
        self._config = config

    def stop(self) -> None:
        self._stopped = True
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()

    # Scheduling

    def _after(self, delay_ms: int, job: Job) -> None:
        earlier = self._timers.pop(job, None)
        if earlier is not None:
            earlier.cancel()
        if not self._stopped:
            delay_s = min(delay_ms, INTERVAL_MAX_MS) / 1000
            self._timers[job] = self._runtime.call_later(delay_s, self._spawn, job)

    def _spawn(self, job: Job) -> None:
        self._runtime.spawn(self._run(job), name=f"storage{job.__name__}")

    async def _run(self, job: Job) -> None:
        again_ms = INTERVAL_MAX_MS
        try:
            again_ms = await job()
        except Exception:
            again_ms = REMOVAL_INTERVAL_MS
            raise
        finally:
            self._after(again_ms, job)

    def _failed(self, error: LogDirFailure) -> None:
        self._manager.fail_dir(error.directory, error.cause)

    # Jobs

    async def _retain(self) -> int:
        now_ms = self._runtime.clock.wall_ms()
        marks = self._high_watermarks()
        for portion in _portions(iter(self._manager.logs())):
            for log in portion:
                if self._manager.cleaner.is_cleaning(log):
                    continue  # the cleaner applies retention afterwards
                mark = marks.get((log.topic, log.partition), log.log_start_offset)
                try:
                    log.delete_old_segments(now_ms, mark)
                except LogDirFailure as error:
                    self._failed(error)
                except KafkaError as error:
                    logger.error("Retention of %s: %s", log.directory, error)
            await asyncio.sleep(0)
        return int(self._config["log.retention.check.interval.ms"])

    async def _flush(self) -> int:
        """Flush the logs for which `flush.ms` demands it, as often as the shortest of these
        intervals."""
        now_ms = self._runtime.clock.wall_ms()
        scheduler_ms: int = self._config["log.flush.scheduler.interval.ms"]
        interval_ms = min(scheduler_ms, FLUSH_CHECK_INTERVAL_MAX_MS)
        due = []
        for log in self._manager.logs():
            interval_ms = min(interval_ms, log.config.flush_ms)
            if log.flush_due(now_ms):
                due.append(log)
        for log in due:
            await self._flush_log(log)
        return max(interval_ms, FLUSH_CHECK_INTERVAL_MIN_MS)

    async def _flush_log(self, log: Log, upto: int | None = None) -> None:
        try:
            await self._runtime.in_thread(log.flush, upto)
        except LogDirFailure as error:
            self._failed(error)

    def settle_later(self, logs: list[Log]) -> None:
        """Sync logs that were recovered after a crash, later, so that the start need not wait for
        it."""
        self._unsettled += logs

    async def _settle(self) -> int:
        while self._unsettled and not self._stopped:
            log = self._unsettled.pop()
            try:
                await self._runtime.in_thread(log.settle)
            except LogDirFailure as error:
                self._failed(error)
        return INTERVAL_MAX_MS

    def flush_rolled(self, log: Log) -> None:
        """Flush a rolled segment, or recovery may have to read two."""
        upto = log.segments.active.base_offset
        self._runtime.spawn(self._flush_log(log, upto), name="storage-flush-rolled")

    async def _checkpoint(self) -> int:
        for log_dir in self._manager.dirs.online():
            await self.checkpoint_dir(log_dir)
        return int(
            min(
                self._config["log.flush.offset.checkpoint.interval.ms"],
                self._config["log.flush.start.offset.checkpoint.interval.ms"],
            )
        )

    async def checkpoint_dir(self, log_dir: LogDir) -> None:
        logs = self._manager.kept_in(log_dir)
        try:
            await self._runtime.in_thread(log_dir.write_log_offsets, logs)
        except OSError as error:
            self._manager.fail_dir(log_dir.path, error)

    def checkpoint_soon(self, log: Log) -> None:
        """Write checkpoints soon after a log was truncated or deleted: checkpoint and disk must
        follow."""
        if not self._cut_logs:
            self._after(CHECKPOINT_SOON_MS, self._settle_cuts)
        self._cut_logs[log] = None

    async def _settle_cuts(self) -> int:
        cut, self._cut_logs = self._cut_logs, {}
        self._settling = cut
        for log in cut:
            if log.failure is None:
                try:
                    await self._runtime.in_thread(log.sync_cuts)
                except OSError as error:
                    self._manager.fail_dir(log.parent_directory, error)
        self._settling = {}
        paths = {log.parent_directory for log in cut}
        for log_dir in self._manager.dirs.online():
            if log_dir.path in paths and log_dir.loaded:
                await self.checkpoint_dir(log_dir)
        # Logs that were cut meanwhile have set a timer, which the one of this job replaces.
        return CHECKPOINT_SOON_MS if self._cut_logs else INTERVAL_MAX_MS

    async def _save_marks(self) -> int:
        for log_dir in self._manager.dirs.online():
            marks = self.high_watermarks_in(log_dir)
            # Power loss could undo a truncation that is not durable yet. With the high watermark of
            # what was written since, the truncated records would count as committed.
            for log in (*self._cut_logs, *self._settling):
                marks.pop((log.topic, log.partition), None)
            try:
                await self._runtime.in_thread(log_dir.high_watermarks.write, marks)
            except OSError as error:
                self._manager.fail_dir(log_dir.path, error)
        return int(self._config["replica.high.watermark.checkpoint.interval.ms"])

    def high_watermarks_in(self, log_dir: LogDir) -> dict[tuple[str, int], int]:
        marks = self._high_watermarks()
        here = ((log.topic, log.partition) for log in self._manager.logs_in(log_dir))
        return {key: marks[key] for key in here if key in marks}

    async def _expire_producers(self) -> int:
        now_ms = self._runtime.clock.wall_ms()
        idle_max_ms = self._config["producer.id.expiration.ms"]
        for portion in _portions(iter(self._manager.logs())):
            for log in portion:
                log.producers.expire(now_ms, idle_max_ms)
            await asyncio.sleep(0)
        return int(self._config["producer.id.expiration.check.interval.ms"])

    # Removals

    def remove_later(self, path: str, delay_ms: int) -> None:
        self._doomed.append((self._runtime.clock.wall_ms() + delay_ms, path))

    async def _remove(self) -> int:
        now_ms = self._runtime.clock.wall_ms()
        for log in self._manager.logs():
            if log.deleted_files:
                try:
                    await self._runtime.in_thread(log.deleted_files.remove_due, now_ms)
                except OSError as error:
                    self._manager.fail_dir(log.parent_directory, error)
        due = [path for due_ms, path in self._doomed if due_ms <= now_ms]
        self._doomed = [doomed for doomed in self._doomed if doomed[0] > now_ms]
        for path in due:
            await self._runtime.in_thread(self._remove_folder, path)
        return REMOVAL_INTERVAL_MS

    def _remove_folder(self, path: str) -> None:
        """Remove a folder. On an error nothing else happens: the next start tries again."""
        try:
            self._runtime.disk.remove_tree(path)
        except FileNotFoundError:
            pass
        except OSError as error:
            logger.error("Cannot remove %s: %s", path, error)


def _portions(logs: Iterator[Log]) -> Iterator[list[Log]]:
    while portion := list(islice(logs, PORTION_LOGS)):
        yield portion
