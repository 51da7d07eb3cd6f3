"""Every log in every data folder of this broker.

The order of a life: `open` (locks and identities, before the metadata log is read), `load` (all
partitions, once the topics' settings are known), `start_background_work`, `close`.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import os.path
from collections import deque
from collections.abc import Callable, Iterable

from ottla.config.broker import BrokerConfig
from ottla.config.topic import TopicConfig
from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.uuids import (
    LOST_DIRECTORY,
    MIGRATING_DIRECTORY,
    UNASSIGNED_DIRECTORY,
    random_uuid,
    to_text,
)
from ottla.runtime.runtime import Runtime
from ottla.storage.checkpoints import PartitionOffsets
from ottla.storage.cleaner.cleaner import LogCleaner
from ottla.storage.errors import LogDirFailure, LogFailed
from ottla.storage.future_logs import DirectoryOf, FutureLogs
from ottla.storage.housekeeping import Housekeeping
from ottla.storage.log import Log
from ottla.storage.log_dir import LogDir
from ottla.storage.log_loading import LoadedDir, load_dir
from ottla.storage.meta_properties import MetaProperties
from ottla.storage.names import partition_dir_name

logger = logging.getLogger("ottla.storage.dirs")

_RESERVED_DIRECTORIES = frozenset({LOST_DIRECTORY, MIGRATING_DIRECTORY, UNASSIGNED_DIRECTORY})

DirFailed = Callable[[str, BaseException], None]
NewCluster = Callable[[str, bytes], None]
"""Folder of the metadata log, its id. Called before anything in the folder tells of a cluster."""
HighWatermarks = Callable[[], dict[tuple[str, int], int]]


class StorageError(RuntimeError):
    """The broker cannot start on these data folders; the message says what to do."""


class LogManager:
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
        self._on_new_cluster = on_new_cluster
        self._logs: dict[tuple[str, int], Log] = {}
        self._unusable: dict[tuple[str, int], str] = {}
        """Partitions whose folder is there but cannot be read, with the reason."""
        self.high_watermarks_at_start: dict[tuple[str, int], int] = {}
        self.cluster_id = ""
        self.dirs = _log_dirs(runtime, config)
        self.housekeeping = Housekeeping(runtime, config, self)
        self.futures = FutureLogs(runtime, self)
        self.cleaner = LogCleaner(runtime, config, self)

    # Opening

    async def open(self) -> None:
        """Lock all data folders and learn, or decide, which cluster they belong to.

        A folder that cannot be used is offline, and the rest goes on without it. Raises
        `StorageError` or `LogDirInUse` where there is nothing to go on with.
        """
        fresh_ids = [random_uuid(self._runtime.random) for _ in range(len(self.dirs) + 1)]
        await self._runtime.in_thread(self._open_dirs, fresh_ids)

    def _open_dirs(self, fresh_ids: list[bytes]) -> None:
        found: dict[LogDir, MetaProperties | None] = {}
        try:
            for log_dir in self.dirs:
                try:
                    found[log_dir] = log_dir.open()
                except OSError as error:
                    log_dir.release()
                    logger.error("Data folder %s is offline: %s", log_dir.path, error)
            self._identify(found, fresh_ids)
        except BaseException:
            self._release_dirs()
            raise

    def _identify(self, found: dict[LogDir, MetaProperties | None], fresh_ids: list[bytes]) -> None:
        self._check_usable(found)
        known = [properties for properties in found.values() if properties is not None]
        cluster_ids = {properties.cluster_id for properties in known}
        if len(cluster_ids) > 1:
            raise StorageError(
                f"data folders of different clusters: {', '.join(sorted(cluster_ids))}. "
                "Give this broker folders of one cluster only (log.dirs)"
            )
        node_id = self._config.node_id
        for log_dir, properties in found.items():
            if properties is not None and properties.node_id != node_id:
                raise StorageError(
                    f"data folder {log_dir.path} belongs to node {properties.node_id}, "
                    f"and this is node.id={node_id}"
                )
        if not cluster_ids and not self._config.is_alone:
            raise StorageError(
                f"data folder {self.dirs[0].path} is not formatted, so it cannot be told to which "
                "cluster this node belongs: run `ottla storage format` with the cluster id of the "
                "other nodes"
            )
        is_new = not cluster_ids
        self.cluster_id = to_text(fresh_ids.pop()) if is_new else cluster_ids.pop()
        home = _clean(self._config.metadata_log_dir)
        for log_dir, properties in sorted(found.items(), key=lambda item: item[0].path != home):
            if properties is not None and properties.directory_id is not None:
                log_dir.id = properties.directory_id
                continue
            log_dir.id = fresh_ids.pop()
            if is_new and log_dir.path == home and self._on_new_cluster is not None:
                self._on_new_cluster(log_dir.path, log_dir.id)
            log_dir.identify(MetaProperties(self.cluster_id, node_id, log_dir.id))
        if len({log_dir.id for log_dir in found}) < len(found):
            raise StorageError("two data folders have the same directory.id: one is a copy")

    def _check_usable(self, found: dict[LogDir, MetaProperties | None]) -> None:
        if not any(log_dir.serves_partitions for log_dir in found):
            paths = ", ".join(log_dir.path for log_dir in self.dirs)
            raise StorageError(f"none of the data folders can be used: {paths}")
        if not any(log_dir.path == _clean(self._config.metadata_log_dir) for log_dir in found):
            raise StorageError(
                f"{self._config.metadata_log_dir}, the folder of the metadata log, cannot be used"
            )

    async def load(
        self,
        topic_config: Callable[[str], TopicConfig],
        directory_of: DirectoryOf = lambda log: None,
    ) -> None:
        """Load all partitions. A disk that fails while at it goes offline with all it holds.

        `directory_of` decides about copies between two folders that a crash has interrupted.
        """
        begun = self._runtime.clock.now()
        dirs = [log_dir for log_dir in self.dirs if log_dir.online and log_dir.serves_partitions]
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
                # A recovery point above the end of a log would, after another crash, vouch for
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
        """Of two logs of one partition: a disk that failed while the partition was being made on it
        leaves an empty one behind, and the partition was then made elsewhere. Or it was moved, and
        power was lost before the disk it came from had noted that: the metadata knows."""
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

    # Looking

    def get(self, topic: str, partition: int) -> Log | None:
        return self._logs.get((topic, partition))

    def logs(self) -> list[Log]:
        return list(self._logs.values())

    def logs_in(self, log_dir: LogDir) -> list[Log]:
        return [log for log in self._logs.values() if log.parent_directory == log_dir.path]

    def kept_in(self, log_dir: LogDir) -> list[Log]:
        """Logs, and copies that are on their way there."""
        return self.logs_in(log_dir) + self.futures.in_dir(log_dir)

    def dir_of(self, log: Log) -> LogDir | None:
        return self._find_dir(log.parent_directory)

    def _find_dir(self, path: str) -> LogDir | None:
        path = _clean(path)
        return next((log_dir for log_dir in self.dirs if log_dir.path == path), None)

    def was_clean(self, path: str) -> bool:
        """Was this folder closed properly the last time?"""
        log_dir = self._find_dir(path)
        return log_dir is not None and log_dir.was_clean

    @property
    def has_online_dirs(self) -> bool:
        return any(log_dir.online and log_dir.serves_partitions for log_dir in self.dirs)

    def online_dirs(self) -> list[LogDir]:
        return [log_dir for log_dir in self.dirs if log_dir.online and log_dir.serves_partitions]

    def directory_ids(self) -> list[bytes]:
        """The folders that take partitions now, for the registration with the controller."""
        return [log_dir.id for log_dir in self.online_dirs()]

    def directory_id(self, path: str) -> bytes:
        """Of a data folder of this node."""
        log_dir = self._find_dir(path)
        assert log_dir is not None, f"{path} is not a data folder of this node"
        return log_dir.id

    def is_offline(self, directory_id: bytes) -> bool:
        """Does a replica in this folder have to wait until the folder is back?

        While all folders work, an unknown id only means that a folder was replaced.
        """
        if directory_id in _RESERVED_DIRECTORIES or directory_id in self.directory_ids():
            return False
        return any(not log_dir.online for log_dir in self.dirs)

    # Changing

    def create(
        self, topic: str, partition: int, topic_id: bytes | None, config: TopicConfig
    ) -> Log:
        """The log of a partition that is new here, in the folder with the fewest partitions."""
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
                # Whatever lies there was not loaded at start, so nothing is known about it.
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
        online = self.online_dirs()
        if len(online) == 1:
            return online
        cordoned = self._cordoned
        counts = dict.fromkeys((log_dir.path for log_dir in online), 0)
        for log in self._logs.values():
            if log.parent_directory in counts:
                counts[log.parent_directory] += 1
        usable = [log_dir for log_dir in online if log_dir.path not in cordoned]
        return sorted(usable or online, key=lambda log_dir: counts[log_dir.path])

    @property
    def _cordoned(self) -> set[str]:
        return {_clean(path) for path in self._config["cordoned.log.dirs"] or ()}

    def target_dir(self, path: str) -> LogDir:
        """The data folder that a partition is to be moved to, if it may be."""
        log_dir = self._find_dir(path)
        if log_dir is None or not log_dir.serves_partitions:
            raise KafkaError(
                ErrorCode.LOG_DIR_NOT_FOUND, f"{path} is not a data folder of this broker"
            )
        if not log_dir.online:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"data folder {path} is offline")
        if log_dir.path in self._cordoned:
            raise KafkaError(
                ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                f"data folder {path} is cordoned (cordoned.log.dirs)",
            )
        return log_dir

    def swap(self, current: Log, future: Log) -> None:
        """Put a copy that has everything in the place of the log."""
        self.futures.swap(current, future)
        self._logs[future.topic, future.partition] = self._adopt(future)
        self.cleaner.deleted(current)  # The copy is of what was there before some compaction.

    def delete(self, topic: str, partition: int) -> None:
        """Take the log out of use at once; its files go after `file.delete.delay.ms`."""
        self._unusable.pop((topic, partition), None)
        log = self._logs.pop((topic, partition), None)
        if log is None:
            return
        self.cleaner.deleted(log)
        try:
            path = log.delete(f"{self._runtime.random.getrandbits(128):032x}")
        except LogDirFailure as error:
            self.fail_dir(error.directory, error.cause)
            return
        logger.info("Deleted %s-%d: its files wait in %s", topic, partition, path)
        self.housekeeping.remove_later(path, log.config.file_delete_delay_ms)
        self.housekeeping.checkpoint_soon(log)

    def set_aside_strays(self, belongs: Callable[[Log], bool]) -> list[str]:
        """Take logs out of use that the metadata does not know; where their files are now.

        A crash between the deletion of a topic and that of its folders leaves such logs behind; a
        new topic of the same name must not find them. Nothing is removed: that is for people.
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
        """Out of the way and kept; where it is now, None if the disk refused."""
        before = log.directory
        try:
            path = log.set_aside(f"{self._runtime.random.getrandbits(128):032x}")
        except LogDirFailure as error:
            self.fail_dir(error.directory, error.cause)
            return None
        logger.warning("%s %s: now in %s", before, why, path)
        return path

    def fail_dir(self, path: str, cause: BaseException) -> None:
        """Take a data folder offline: its disk failed. Once is enough."""
        log_dir = self._find_dir(path)
        if log_dir is None or not log_dir.online:
            return
        if isinstance(cause, OSError) and cause.errno in (errno.EMFILE, errno.ENFILE):
            logger.error(
                "Out of file handles at %s: %s. Raise the limit (ulimit -n), or have fewer "
                "partitions or connections (max.connections)",
                log_dir.path,
                cause,
            )
            return  # The disk is well: what failed may succeed when handles are free again.
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

    def configure(self, config: BrokerConfig) -> None:
        """Broker settings changed at run time."""
        self._config = config
        self.housekeeping.configure(config)
        self.cleaner.configure(config)

    def start_background_work(self, high_watermarks: HighWatermarks) -> None:
        """Retention, compaction, flushes, checkpoints and delayed removals, from now on."""
        self.housekeeping.start(high_watermarks)
        self.cleaner.start(high_watermarks)

    # Closing

    async def close(self, broker_epoch: int = -1) -> None:
        """Flush and close everything, and mark the folders that were closed completely."""
        self.housekeeping.stop()
        await self.cleaner.stop()
        await asyncio.gather(
            *(self._close_dir(log_dir, broker_epoch) for log_dir in self.dirs if log_dir.online)
        )
        self._logs.clear()
        self._release_dirs()

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
            if log_dir.loaded:
                log_dir.write_log_offsets(logs)
                if marks:
                    log_dir.high_watermarks.write(marks)
            if log_dir.loaded or log_dir.was_clean or not log_dir.serves_partitions:
                log_dir.mark_clean(broker_epoch)
        except OSError as error:
            logger.error("Data folder %s could not be closed cleanly: %s", log_dir.path, error)

    def _release_dirs(self) -> None:
        for log_dir in self.dirs:
            log_dir.release()


def _close_logs(waiting: deque[Log]) -> bool:
    """Close logs until there are none; did all go well?"""
    clean = True
    while waiting:
        try:
            log = waiting.popleft()
        except IndexError:
            break  # The other thread took the last one.
        try:
            log.close(clean=True)
        except KafkaError as error:
            logger.error("Closing %s: %s", log.directory, error)
            clean = False
    return clean


def _clean(path: str) -> str:
    return path.rstrip("/") or "/"


def _log_dirs(runtime: Runtime, config: BrokerConfig) -> list[LogDir]:
    paths = dict.fromkeys(_clean(path) for path in config.log_dirs)
    dirs = [LogDir(runtime.disk, path) for path in paths]
    metadata_path = _clean(config.metadata_log_dir)
    if metadata_path not in paths:
        dirs.append(LogDir(runtime.disk, metadata_path, serves_partitions=False))
    return dirs
