"""Copies of partitions on their way into another data folder of this broker (KIP-113).

A copy lies in `topic-N.<unique>-future` in the folder it moves to, and is nobody's log until it has
everything. Then the folder of the log is renamed to `-delete` and that of the copy to `topic-N`.
Before that the controller has been told, so that after a crash the metadata says which of the two
counts:

    log there                    the copying goes on (or begins anew where the two have parted)
    no log, metadata names copy  the crash came between the two renames: the copy is the log now
    no log, metadata names other the log is on a disk that does not work now: the copy waits
    nobody knows the partition   the copy goes
"""

from __future__ import annotations

import logging
import os.path
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.runtime.runtime import Runtime
from ottla.storage.errors import LogDirFailure
from ottla.storage.log import Log
from ottla.storage.names import NAME_LENGTH_MAX, future_dir_name

if TYPE_CHECKING:
    from ottla.storage.log_dir import LogDir
    from ottla.storage.log_manager import LogManager

logger = logging.getLogger("ottla.storage.dirs")

PREFERRED_MAX: Final = 10_000
"""So many partitions that are not here yet may have a folder waiting for them."""

DirectoryOf = Callable[[Log], bytes | None]
"""Which data folder the metadata names for the replica that a log is of; None if it knows none."""


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

    # Wishes

    def prefer(self, topic: str, partition: int, log_dir: LogDir) -> None:
        """Make the partition's log there, when there is one to be made."""
        self._preferred[topic, partition] = log_dir
        while len(self._preferred) > PREFERRED_MAX:
            del self._preferred[next(iter(self._preferred))]

    def take_preferred(self, topic: str, partition: int) -> LogDir | None:
        log_dir = self._preferred.pop((topic, partition), None)
        return log_dir if log_dir is not None and log_dir.online else None

    # A copy's life

    def create(self, current: Log, log_dir: LogDir) -> Log:
        """An empty copy of `current`, which takes the place of another one if there is any: that
        is for its owner to drop."""
        unique = f"{self._runtime.random.getrandbits(128):032x}"
        name = future_dir_name(current.topic, current.partition, unique)
        if len(name) > NAME_LENGTH_MAX:
            raise KafkaError(
                ErrorCode.INVALID_TOPIC_EXCEPTION,
                f"the name {current.topic!r} is too long for a folder of a copy ({len(name)} "
                f"characters, {NAME_LENGTH_MAX} are possible): its partitions cannot be moved",
            )
        if not all(other.online for other in self._manager.dirs):
            # There may be a copy on the disk that does not work, and it would come back.
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
        """The copy is not wanted any more."""
        self._forget(log)
        if log.failure is not None:
            return
        try:
            path = log.delete(f"{self._runtime.random.getrandbits(128):032x}")
        except LogDirFailure as error:
            self._manager.fail_dir(error.directory, error.cause)
            return
        self._remove_later(log, path)

    def swap(self, current: Log, future: Log) -> None:
        """The copy has everything, and the controller knows: it is the log from now on."""
        path = future.replace(current, f"{self._runtime.random.getrandbits(128):032x}")
        self._forget(future)
        logger.info("%s takes the place of %s", future.directory, path)
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
        """The disk failed."""
        for log in self.in_dir(log_dir):
            self._forget(log)
            log.fail(cause)

    # Keeping up with the log

    def note_cut(self, current: Log) -> None:
        """`current` has lost its end: the copy must not keep what follows."""
        key = (current.topic, current.partition)
        if key in self._logs and self._logs[key] is not current:
            self._cuts[key] = min(current.end_offset, self._cuts.get(key, current.end_offset))

    def take_cut(self, future: Log) -> int | None:
        """Where the log was cut since the last time, at the least; None if it was not."""
        return self._cuts.pop((future.topic, future.partition), None)

    # At the start

    def settle(self, found: list[Log], directory_of: DirectoryOf) -> list[Log]:
        """Which of the copies on the disks go on, and which of them are logs now: these."""
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
        log.promote()
        logger.warning("%s was about to become the log: it is now %s", before, log.directory)
