"""Copies of partitions that are being moved to another log dir of this broker (KIP-113).

A copy is in the folder `topic-N.<unique>-future` of the target log dir, and is not used as a log
until it is complete. Then the folder of the log is renamed to `-delete` and that of the copy to
`topic-N`. The controller is told before that, so that after a crash the metadata says which of the
two counts:

    log exists                     the copying continues (or restarts if the two diverge)
    no log, metadata names copy    the crash came between the two renames: the copy becomes the log
    no log, metadata names other   the log is on a disk that is offline: the copy waits
    partition unknown to metadata  the copy is deleted
"""

from __future__ import annotations

import os.path
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from ottla.broker.storage.dirs import log_folders
from ottla.broker.storage.errors import LogDirFailure
from ottla.broker.storage.log import Log
from ottla.broker.storage.names import NAME_LENGTH_MAX, future_dir_name
from ottla.logs import get_logger
from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.runtime.runtime import Runtime

if TYPE_CHECKING:
    from ottla.broker.storage.dirs.log_dir import LogDir
    from ottla.broker.storage.log_manager import LogManager

logger = get_logger("ottla.storage.dirs")

PREFERRED_MAX: Final = 10_000
"""The most partitions without a log that may have a preferred log dir."""

DirectoryOf = Callable[[Log], bytes | None]
"""Returns the log dir that the metadata names for the replica of a log; None if it knows none."""


class FutureLogs:
    def __init__(self, runtime: Runtime, manager: LogManager) -> None:
        self._runtime = runtime
        self._manager = manager
        self._logs: dict[tuple[str, int], Log] = {}
        self._cuts: dict[tuple[str, int], int] = {}
        self._preferred: dict[tuple[str, int], LogDir] = {}

    def get(self, topic: str, partition: int) -> Log | None:
        return self._logs.get((topic, partition))

    def all(self) -> list[Log]:
        return list(self._logs.values())

    def in_dir(self, log_dir: LogDir) -> list[Log]:
        return [log for log in self._logs.values() if log.parent_directory == log_dir.path]

    # Preferred log dirs

    def prefer(self, topic: str, partition: int, log_dir: LogDir) -> None:
        """Create the partition's log in this log dir, when it is created."""
        self._preferred[topic, partition] = log_dir
        while len(self._preferred) > PREFERRED_MAX:
            del self._preferred[next(iter(self._preferred))]

    def take_preferred(self, topic: str, partition: int) -> LogDir | None:
        log_dir = self._preferred.pop((topic, partition), None)
        return log_dir if log_dir is not None and log_dir.online else None

    # Lifecycle of a copy

    def create(self, current: Log, log_dir: LogDir) -> Log:
        """Create an empty copy of `current`. It replaces an earlier copy, which its owner must
        drop."""
        unique = f"{self._runtime.random.getrandbits(128):032x}"
        name = future_dir_name(current.topic, current.partition, unique)
        if len(name) > NAME_LENGTH_MAX:
            raise KafkaError(
                ErrorCode.INVALID_TOPIC_EXCEPTION,
                f"the name {current.topic!r} is too long for a folder of a copy ({len(name)} "
                f"characters, {NAME_LENGTH_MAX} are possible): its partitions cannot be moved",
            )
        if not all(other.online for other in self._manager.dirs):
            # The offline disk may hold an older copy, which would come back.
            raise KafkaError(
                ErrorCode.KAFKA_STORAGE_ERROR,
                "nothing is moved between data folders while one of them is offline",
            )
        log = Log.open(
            self._runtime.disk,
            os.path.join(log_dir.path, name),
            current.topic,
            current.partition,
            current.config,
            self._runtime.clock,
            clean=False,
            topic_id=current.topic_id,
        )
        self._logs[log.topic, log.partition] = log
        self._cuts.pop((log.topic, log.partition), None)
        return log

    def drop(self, log: Log) -> None:
        """Delete a copy that is no longer wanted."""
        self._forget(log)
        if log.failure is not None:
            return
        try:
            path = log_folders.delete(log, f"{self._runtime.random.getrandbits(128):032x}")
        except LogDirFailure as error:
            self._manager.fail_dir(error.directory, error.cause)
            return
        self._remove_later(log, path)

    def swap(self, current: Log, future: Log) -> None:
        """Make the copy the log: it is complete, and the controller knows."""
        path = log_folders.replace(current, future, f"{self._runtime.random.getrandbits(128):032x}")
        self._forget(future)
        logger.info("The copy %s is now the log; the old log is in %s", future.directory, path)
        self._remove_later(current, path)
        self._manager.housekeeping.checkpoint_soon(future)

    def _remove_later(self, log: Log, path: str) -> None:
        self._manager.housekeeping.remove_later(path, log.config.file_delete_delay_ms)
        self._manager.housekeeping.checkpoint_soon(log)

    def _forget(self, log: Log) -> None:
        key = (log.topic, log.partition)
        if self._logs.get(key) is log:
            del self._logs[key]
            self._cuts.pop(key, None)

    def lost(self, log_dir: LogDir, cause: BaseException) -> None:
        """Fail the copies on a disk that failed."""
        for log in self.in_dir(log_dir):
            self._forget(log)
            log.fail(cause)

    # Keeping up with the log

    def note_cut(self, current: Log) -> None:
        """Note that `current` was truncated: the copy must not keep the records after that."""
        key = (current.topic, current.partition)
        if key in self._logs and self._logs[key] is not current:
            self._cuts[key] = min(current.end_offset, self._cuts.get(key, current.end_offset))

    def take_cut(self, future: Log) -> int | None:
        """Return the lowest offset to which the log was truncated since the last call; None if it
        was not."""
        return self._cuts.pop((future.topic, future.partition), None)

    # At the start

    def settle(self, found: list[Log], directory_of: DirectoryOf) -> list[Log]:
        """Decide about the copies found at the start; return those that have become logs."""
        promoted = []
        for log in sorted(found, key=lambda log: not self._is_named(log, directory_of)):
            current = self._manager.get(log.topic, log.partition)
            if directory_of(log) is None or (log.topic, log.partition) in self._logs:
                self.drop(log)
            elif current is None and self._is_named(log, directory_of):
                self._promote(log)
                promoted.append(log)
            elif current is not None and current.parent_directory == log.parent_directory:
                self.drop(log)
            else:
                self._logs[log.topic, log.partition] = log
        return promoted

    def _is_named(self, log: Log, directory_of: DirectoryOf) -> bool:
        log_dir = self._manager.dir_of(log)
        return log_dir is not None and directory_of(log) == log_dir.id

    def _promote(self, log: Log) -> None:
        before = log.directory
        log_folders.promote(log)
        logger.warning(
            "Finished the interrupted move to another data folder: %s is now %s",
            before,
            log.directory,
        )
