"""Compacts the logs that the cleaner chooses for one of its lanes, one after the other."""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING, NoReturn

from ottla.broker.storage.cleaner.compaction import remove_cleaned
from ottla.broker.storage.cleaner.job import CleanedGroup, Failed, Finished, Memory, RunLimits
from ottla.broker.storage.cleaner.planning import cleaned_segment, plan_job
from ottla.broker.storage.cleaner.running import RunStopped, Workplace
from ottla.broker.storage.errors import LogDirFailure, LogFailed
from ottla.broker.storage.replacement import ReplacementRefused
from ottla.logs import get_logger

if TYPE_CHECKING:
    from ottla.broker.storage.cleaner.choice import CleanableLog
    from ottla.broker.storage.cleaner.cleaner import LogCleaner
    from ottla.broker.storage.log import Log
    from ottla.broker.storage.log_manager import LogManager
    from ottla.broker.storage.segments.segment import Segment
    from ottla.runtime.runtime import Runtime

logger = get_logger("ottla.cleaner")

_DISK_FULL = (errno.ENOSPC, errno.EDQUOT)
_MB = 1_000_000


class BrokenOff(Exception):
    """This run has failed; the log may be tried again."""


class Lane:
    def __init__(self, runtime: Runtime, manager: LogManager, cleaner: LogCleaner) -> None:
        self._runtime = runtime
        self._manager = manager
        self._cleaner = cleaner
        self._place = Workplace(runtime)

    def clear(self) -> None:
        """End the child process, if there is one: there is nothing to do for now."""
        self._place.clear()

    async def clean(self, chosen: CleanableLog) -> bool:
        """Clean a log; False if that was broken off."""
        log = chosen.log
        try:
            await self._clean(chosen)
        except (BrokenOff, RunStopped, ReplacementRefused, LogFailed) as reason:
            self._cleaner.metrics.broken_off += 1
            on_purpose = self._cleaner.is_stopped or log.failure is not None
            tell = logger.info if on_purpose else logger.warning
            tell("Broke off the compaction of %s: %s", log.directory, reason)
            await self._clear_up(chosen)
            return False
        except LogDirFailure as error:
            self._manager.fail_dir(error.directory, error.cause)
            return False
        except OSError as error:
            if log.failure is None:
                self._manager.fail_dir(log.parent_directory, error)
            return False
        return True

    async def _clean(self, chosen: CleanableLog) -> None:
        log, begun_s = chosen.log, self._runtime.clock.now()
        generation = log.generation
        segments = {segment.base_offset: segment for segment in log.segments}
        limits = RunLimits(
            self._cleaner.config["log.cleaner.io.max.bytes.per.second"]
            / max(self._cleaner.lanes_wanted, 1)
        )
        # Flush first: an older record of a key must not be removed because of a younger one, or of
        # a marker, that could still be lost in a power failure.
        await self._runtime.in_thread(log.flush)
        job = plan_job(chosen, self._memory(), self._runtime.clock.wall_ms())
        run = await self._place.begin(job, limits)
        self._cleaner.began(log, run)
        while True:
            if self._cleaner.is_stopped or log.failure is not None or log.generation != generation:
                raise BrokenOff(log.failure or "it was truncated, or the broker stops")
            match await run.following():
                case CleanedGroup() as group:
                    await self._swap(log, group, segments, generation)
                case Finished() as finished:
                    break
                case Failed() as failed:
                    self._failed(log, failed)
        await self._cleaner.cleaned(log, finished.end_offset)
        seconds = self._runtime.clock.now() - begun_s
        self._cleaner.metrics.add(finished.stats, self._runtime.clock.wall_ms(), seconds)
        _log_compaction(chosen, finished, seconds)

    def _failed(self, log: Log, failed: Failed) -> NoReturn:
        if log.failure is not None or failed.error_number in _DISK_FULL:
            raise BrokenOff(failed.reason)
        if failed.error_number is not None:
            raise OSError(failed.error_number, failed.reason)
        self._cleaner.give_up(log, failed.reason)
        raise BrokenOff(failed.reason)

    async def _clear_up(self, chosen: CleanableLog) -> None:
        """Remove incomplete files, which would otherwise stay until the next attempt or start."""
        await self._place.break_off()
        if chosen.log.failure is None and not self._cleaner.is_stopped:
            await self._runtime.in_thread(self._remove_cleaned, chosen)

    def _remove_cleaned(self, chosen: CleanableLog) -> None:
        for segment in chosen.log.segments:
            if segment.base_offset < chosen.uncleanable_offset:
                remove_cleaned(self._runtime.disk, chosen.log.directory, segment.base_offset)

    def _memory(self) -> Memory:
        config, lanes = self._cleaner.config, max(self._cleaner.lanes_wanted, 1)
        return Memory(
            config["log.cleaner.dedupe.buffer.size"] // lanes,
            config["log.cleaner.io.buffer.load.factor"],
            max(config["log.cleaner.io.buffer.size"] // lanes // 2, 1),
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
