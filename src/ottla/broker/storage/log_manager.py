"""All logs in all log dirs of this broker.

The order of calls: `open` (locks and identities, before the metadata log is read), `load` (all
partitions, once the topics' configs are known), `start_background_work`, `close`.
"""

from __future__ import annotations

import asyncio
import errno
import os.path
from collections import deque
from collections.abc import Callable, Iterable

from ottla.broker.storage.cleaner.cleaner import LogCleaner
from ottla.broker.storage.dirs import log_folders
from ottla.broker.storage.dirs.checkpoints import PartitionOffsets
from ottla.broker.storage.dirs.future_logs import DirectoryOf, FutureLogs
from ottla.broker.storage.dirs.log_dir import LogDir
from ottla.broker.storage.dirs.log_dirs import LogDirs, NewCluster
from ottla.broker.storage.dirs.log_loading import LoadedDir, load_dir
from ottla.broker.storage.errors import LogDirFailure, LogFailed, StorageError
from ottla.broker.storage.housekeeping import Housekeeping
from ottla.broker.storage.log import Log
from ottla.broker.storage.names import partition_dir_name
from ottla.config.broker import BrokerConfig
from ottla.config.topic import TopicConfig
from ottla.logs import get_logger
from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.uuids import random_uuid
from ottla.runtime.runtime import Runtime

logger = get_logger("ottla.storage.dirs")

DirFailed = Callable[[str, BaseException], None]
HighWatermarks = Callable[[], dict[tuple[str, int], int]]
"""Returns the high watermark of each (topic, partition) that has one."""


class LogManager:
    """Knows the log of every partition, and owns what keeps them: log dirs, future logs,
    housekeeping and the cleaner."""

    def __init__(
        self,
        runtime: Runtime,
        config: BrokerConfig,
        *,
        on_dir_failed: DirFailed | None = None,
        on_new_cluster: NewCluster | None = None,
    ) -> None:
        self._runtime = runtime
        self._config = config
        self._on_dir_failed = on_dir_failed
        self._logs: dict[tuple[str, int], Log] = {}
        self._unusable: dict[tuple[str, int], str] = {}
        """Partitions whose folder exists but cannot be read, with the reason."""
        self.high_watermarks_at_start: dict[tuple[str, int], int] = {}
        self.dirs = LogDirs(runtime.disk, config, on_new_cluster)
        self.housekeeping = Housekeeping(runtime, config, self)
        self.futures = FutureLogs(runtime, self)
        self.cleaner = LogCleaner(runtime, config, self)

    # Opening

    async def open(self) -> None:
        """Lock all log dirs and read, or decide, which cluster they belong to.

        A log dir that cannot be used is offline, and the broker starts without it. Raises
        `StorageError` or `LogDirInUse` if it cannot start.
        """
        fresh_ids = [random_uuid(self._runtime.random) for _ in range(len(self.dirs) + 1)]
        await self._runtime.in_thread(self.dirs.open, fresh_ids)

    async def load(
        self,
        topic_config: Callable[[str], TopicConfig],
        directory_of: DirectoryOf = lambda log: None,
    ) -> None:
        """Load all partitions. A log dir whose disk fails meanwhile goes offline with all its
        partitions.

        `directory_of` decides about copies between two log dirs that a crash has interrupted.
        """
        begun = self._runtime.clock.now()
        dirs = self.dirs.online()
        for log_dir in self.dirs:
            if not log_dir.serves_partitions:
                log_dir.loaded = log_dir.online  # it holds the metadata log, which was opened
        loaded = await asyncio.gather(
            *(load_dir(self._runtime, self._config, log_dir, topic_config) for log_dir in dirs)
        )
        for log_dir, result in zip(dirs, loaded, strict=True):
            self._take_loaded(log_dir, result, directory_of)
        self._take_futures([log for result in loaded for log in result.futures], directory_of)
        for log_dir, result in zip(dirs, loaded, strict=True):
            if result.failure is not None:
                self.fail_dir(log_dir.path, result.failure)
            elif not log_dir.was_clean:
                # A recovery point above the end of a log would, after another crash, wrongly cover
                # data that is appended only now.
                await self.housekeeping.checkpoint_dir(log_dir)
        await self.cleaner.load()
        logger.info(
            "Loaded %d logs in %.0f ms", len(self._logs), (self._runtime.clock.now() - begun) * 1e3
        )

    def _take_futures(self, found: list[Log], directory_of: DirectoryOf) -> None:
        try:
            for log in self.futures.settle(found, directory_of):
                self._logs[log.topic, log.partition] = self._adopt(log)
        except LogDirFailure as error:
            self.fail_dir(error.directory, error.cause)

    def _take_loaded(self, log_dir: LogDir, result: LoadedDir, directory_of: DirectoryOf) -> None:
        if not log_dir.was_clean:
            self.housekeeping.settle_later(result.logs + result.futures)
        for log in result.logs:
            partition = (log.topic, log.partition)
            other = self._logs.get(partition)
            if other is not None:
                log = self._the_one_in_use(other, log, directory_of)
            self._logs[partition] = self._adopt(log)
        self._unusable |= result.unusable
        self.high_watermarks_at_start |= result.high_watermarks
        for path in result.doomed:
            self.housekeeping.remove_later(path, self._config["log.segment.delete.delay.ms"])
        log_dir.loaded = result.failure is None

    def _the_one_in_use(self, first: Log, second: Log, directory_of: DirectoryOf) -> Log:
        """Choose between two logs of one partition. A disk that failed while a partition was
        created on it leaves an empty log, and the partition was then created elsewhere. Or the
        partition was moved, and power was lost before the first disk recorded that: the metadata
        names the right directory."""
        for log, other in ((first, second), (second, first)):
            log_dir = self.dir_of(other)
            if log_dir is not None and directory_of(other) == log_dir.id:
                self._set_aside(log, f"was moved to {other.directory}")
                return other
        for log, other in ((first, second), (second, first)):
            if log.end_offset == 0:
                self._set_aside(log, f"is empty, and {other.directory} is in use")
                return other
        raise StorageError(
            f"{second.directory} and {first.directory} are the same partition: "
            "remove the one on the disk that failed before"
        )

    def _adopt(self, log: Log) -> Log:
        log.on_roll = self.housekeeping.flush_rolled
        log.on_truncate = self._truncated
        return log

    def _truncated(self, log: Log) -> None:
        self.futures.note_cut(log)
        self.housekeeping.checkpoint_soon(log)
        self.cleaner.truncated(log)

    # Queries

    def get(self, topic: str, partition: int) -> Log | None:
        return self._logs.get((topic, partition))

    def logs(self) -> list[Log]:
        return list(self._logs.values())

    @property
    def log_count(self) -> int:
        return len(self._logs)

    def logs_in(self, log_dir: LogDir) -> list[Log]:
        return [log for log in self._logs.values() if log.parent_directory == log_dir.path]

    def kept_in(self, log_dir: LogDir) -> list[Log]:
        """Return the logs in a log dir, and the copies that are being moved there."""
        return self.logs_in(log_dir) + self.futures.in_dir(log_dir)

    def dir_of(self, log: Log) -> LogDir | None:
        return self.dirs.find(log.parent_directory)

    # Changing

    def create(
        self, topic: str, partition: int, topic_id: bytes | None, config: TopicConfig
    ) -> Log:
        """Create the log of a new partition, in the log dir with the fewest partitions."""
        key = (topic, partition)
        if key in self._unusable:
            raise LogFailed(partition_dir_name(topic, partition), self._unusable[key])
        existing = self._logs.get(key)
        if existing is not None:
            return existing
        failure: LogDirFailure | None = None
        for log_dir in self._choices(key):
            path = os.path.join(log_dir.path, partition_dir_name(topic, partition))
            disk, clock = self._runtime.disk, self._runtime.clock
            try:
                # Files there were not loaded at start, so nothing is known about them.
                log = Log.open(
                    disk, path, topic, partition, config, clock, clean=False, topic_id=topic_id
                )
            except LogDirFailure as error:
                failure = error
                self.fail_dir(log_dir.path, error.cause)
                continue
            self._logs[key] = self._adopt(log)
            return log
        raise failure or KafkaError(
            ErrorCode.KAFKA_STORAGE_ERROR, "no data folder is left to create a partition in"
        )

    def _choices(self, key: tuple[str, int]) -> list[LogDir]:
        preferred = self.futures.take_preferred(*key)
        others = self._by_fewest_partitions()
        return others if preferred is None else [preferred, *others]

    def _by_fewest_partitions(self) -> list[LogDir]:
        online = self.dirs.online()
        if len(online) == 1:
            return online
        counts = dict.fromkeys((log_dir.path for log_dir in online), 0)
        for log in self._logs.values():
            if log.parent_directory in counts:
                counts[log.parent_directory] += 1
        usable = [log_dir for log_dir in online if not self.dirs.is_cordoned(log_dir)]
        return sorted(usable or online, key=lambda log_dir: counts[log_dir.path])

    def swap(self, current: Log, future: Log) -> None:
        """Replace the log by a complete copy."""
        self.futures.swap(current, future)
        self._logs[future.topic, future.partition] = self._adopt(future)
        self.cleaner.deleted(current)  # the copy may predate some compaction

    def delete(self, topic: str, partition: int) -> None:
        """Stop using the log at once; its files are removed after `file.delete.delay.ms`."""
        self._unusable.pop((topic, partition), None)
        log = self._logs.pop((topic, partition), None)
        if log is None:
            return
        self.cleaner.deleted(log)
        try:
            path = log_folders.delete(log, f"{self._runtime.random.getrandbits(128):032x}")
        except LogDirFailure as error:
            self.fail_dir(error.directory, error.cause)
            return
        logger.info("Deleted %s-%d: its files wait in %s", topic, partition, path)
        self.housekeeping.remove_later(path, log.config.file_delete_delay_ms)
        self.housekeeping.checkpoint_soon(log)

    def set_aside_strays(self, belongs: Callable[[Log], bool]) -> list[str]:
        """Stop using logs that the metadata does not know; return where their files are now.

        A crash between the deletion of a topic and that of its folders leaves such logs behind, and
        a new topic of the same name must not find them. Nothing is removed: that is left to
        operators.
        """
        paths = []
        for log in [log for log in self._logs.values() if not belongs(log)]:
            del self._logs[(log.topic, log.partition)]
            self.cleaner.deleted(log)
            if (path := self._set_aside(log, "is unknown")) is not None:
                self.housekeeping.checkpoint_soon(log)
                paths.append(path)
        return paths

    def _set_aside(self, log: Log, why: str) -> str | None:
        """Rename the log's folder but keep it; return its new path, None if the disk failed."""
        before = log.directory
        try:
            path = log_folders.set_aside(log, f"{self._runtime.random.getrandbits(128):032x}")
        except LogDirFailure as error:
            self.fail_dir(error.directory, error.cause)
            return None
        logger.warning("%s %s: now in %s", before, why, path)
        return path

    def fail_dir(self, path: str, cause: BaseException) -> None:
        """Take a log dir offline, because its disk failed. Further calls do nothing."""
        log_dir = self.dirs.find(path)
        if log_dir is None or not log_dir.online:
            return
        if isinstance(cause, OSError) and cause.errno in (errno.EMFILE, errno.ENFILE):
            logger.error(
                "Out of file handles at %s: %s. Raise the limit (ulimit -n), or have fewer "
                "partitions or connections (max.connections)",
                log_dir.path,
                cause,
            )
            return  # the disk works: the operation may succeed when file handles are free again
        logger.error("Data folder %s goes offline: %s", log_dir.path, cause)
        lost = self.logs_in(log_dir)
        self.futures.lost(log_dir, cause)
        log_dir.release()
        for log in lost:
            del self._logs[(log.topic, log.partition)]
            log.fail(cause)
            self.cleaner.abort(log)
        if self._on_dir_failed is not None:
            self._on_dir_failed(log_dir.path, cause)

    def file_failed(self, path: str, cause: OSError) -> None:
        """Handle the failure of a segment file while it was being sent."""
        self.fail_dir(os.path.dirname(os.path.dirname(path)), cause)

    def configure(self, config: BrokerConfig) -> None:
        """Apply broker settings that changed at run time."""
        self._config = config
        self.dirs.configure(config)
        self.housekeeping.configure(config)
        self.cleaner.configure(config)

    def start_background_work(self, high_watermarks: HighWatermarks) -> None:
        """Start retention, compaction, flushes, checkpoints and delayed removals."""
        self.housekeeping.start(high_watermarks)
        self.cleaner.start(high_watermarks)

    # Closing

    async def close(self, broker_epoch: int = -1) -> None:
        """Flush and close everything, and mark the log dirs that were closed completely."""
        self.housekeeping.stop()
        await self.cleaner.stop()
        await asyncio.gather(
            *(self._close_dir(log_dir, broker_epoch) for log_dir in self.dirs if log_dir.online)
        )
        self._logs.clear()
        self.dirs.release()

    async def _close_dir(self, log_dir: LogDir, broker_epoch: int) -> None:
        logs = self.kept_in(log_dir)
        marks = self.housekeeping.high_watermarks_in(log_dir)
        waiting = deque(logs)
        threads = min(self._config["num.recovery.threads.per.data.dir"], len(waiting))
        closed = await asyncio.gather(
            *(self._runtime.in_thread(_close_logs, waiting) for _ in range(threads))
        )
        if not all(closed):
            return
        await self._runtime.in_thread(self._finish_dir, log_dir, logs, marks, broker_epoch)

    def _finish_dir(
        self, log_dir: LogDir, logs: Iterable[Log], marks: PartitionOffsets, broker_epoch: int
    ) -> None:
        try:
            if log_dir.loaded and log_dir.serves_partitions:
                log_dir.write_log_offsets(logs)
                if marks:
                    log_dir.high_watermarks.write(marks)
            if log_dir.loaded or log_dir.was_clean:
                # A start that failed before it registered leaves the marker as it found it.
                log_dir.mark_clean(log_dir.last_epoch if broker_epoch < 0 else broker_epoch)
        except OSError as error:
            logger.error("Data folder %s could not be closed cleanly: %s", log_dir.path, error)


def _close_logs(waiting: deque[Log]) -> bool:
    """Close logs until none are left; True if all went well."""
    clean = True
    while waiting:
        try:
            log = waiting.popleft()
        except IndexError:
            break  # Another thread took the last one.
        try:
            log.close(clean=True)
        except KafkaError as error:
            logger.error("Closing %s: %s", log.directory, error)
            clean = False
    return clean
