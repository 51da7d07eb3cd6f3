"""The log dirs of this broker: their locks and identities, and which of them are online."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import overload

from ottla.broker.storage.dirs.log_dir import LogDir
from ottla.broker.storage.dirs.meta_properties import MetaProperties
from ottla.broker.storage.errors import StorageError
from ottla.config.broker import BrokerConfig
from ottla.logs import get_logger
from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.uuids import (
    LOST_DIRECTORY,
    MIGRATING_DIRECTORY,
    UNASSIGNED_DIRECTORY,
    to_text,
)
from ottla.runtime.disk import Disk

logger = get_logger("ottla.storage.dirs")

_RESERVED_DIRECTORIES = frozenset({LOST_DIRECTORY, MIGRATING_DIRECTORY, UNASSIGNED_DIRECTORY})

NewCluster = Callable[[str, bytes], None]
"""(log dir of the metadata log, its id). Called before anything in the log dir names a cluster."""


class LogDirs(Sequence[LogDir]):
    """All log dirs, also those that are offline and the one that only holds the metadata log."""

    def __init__(
        self, disk: Disk, config: BrokerConfig, on_new_cluster: NewCluster | None = None
    ) -> None:
        self._config = config
        self._on_new_cluster = on_new_cluster
        self._all = _log_dirs(disk, config)
        self.cluster_id = ""
        """The cluster that the log dirs belong to, once they are open."""

    @overload
    def __getitem__(self, index: int) -> LogDir: ...

    @overload
    def __getitem__(self, index: slice) -> list[LogDir]: ...

    def __getitem__(self, index: int | slice) -> LogDir | list[LogDir]:
        return self._all[index]

    def __len__(self) -> int:
        return len(self._all)

    def __iter__(self) -> Iterator[LogDir]:
        return iter(self._all)

    def configure(self, config: BrokerConfig) -> None:
        """Apply a change of `cordoned.log.dirs`."""
        self._config = config

    # Opening

    def open(self, fresh_ids: list[bytes]) -> None:
        """Lock all log dirs and read, or decide, which cluster they belong to. For a thread.

        `fresh_ids` are taken for what has no id yet. A log dir that cannot be used is offline.
        Raises `StorageError` or `LogDirInUse` if the broker cannot start.
        """
        found: dict[LogDir, MetaProperties | None] = {}
        try:
            for log_dir in self._all:
                try:
                    found[log_dir] = log_dir.open()
                except OSError as error:
                    log_dir.release()
                    logger.error("Data folder %s is offline: %s", log_dir.path, error)
            self._identify(found, fresh_ids)
        except BaseException:
            self.release()
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
                f"data folder {self._all[0].path} is not formatted, so it cannot be told to which "
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
            paths = ", ".join(log_dir.path for log_dir in self._all)
            raise StorageError(f"none of the data folders can be used: {paths}")
        if not any(log_dir.path == _clean(self._config.metadata_log_dir) for log_dir in found):
            raise StorageError(
                f"{self._config.metadata_log_dir}, the folder of the metadata log, cannot be used"
            )

    def release(self) -> None:
        """Unlock all log dirs."""
        for log_dir in self._all:
            log_dir.release()

    # Queries

    def find(self, path: str) -> LogDir | None:
        path = _clean(path)
        return next((log_dir for log_dir in self._all if log_dir.path == path), None)

    def online(self) -> list[LogDir]:
        """Return those that can serve partitions now."""
        return [log_dir for log_dir in self._all if log_dir.online and log_dir.serves_partitions]

    def was_clean(self, path: str) -> bool:
        """True if this log dir was closed properly the last time."""
        log_dir = self.find(path)
        return log_dir is not None and log_dir.was_clean

    def directory_ids(self) -> list[bytes]:
        """The ids of the online log dirs, for the registration with the controller."""
        return [log_dir.id for log_dir in self.online()]

    def cordoned_ids(self) -> list[bytes]:
        """The ids of those that take no new partitions."""
        return [log_dir.id for log_dir in self.online() if self.is_cordoned(log_dir)]

    def directory_id(self, path: str) -> bytes:
        """Return the directory id of a log dir of this node."""
        log_dir = self.find(path)
        assert log_dir is not None, f"{path} is not a data folder of this node"
        return log_dir.id

    def is_offline(self, directory_id: bytes) -> bool:
        """True if a replica in this directory must wait until the directory is back.

        While all log dirs are online, an unknown id only means that one was replaced.
        """
        if directory_id in _RESERVED_DIRECTORIES or directory_id in self.directory_ids():
            return False
        return any(not log_dir.online for log_dir in self._all)

    def is_cordoned(self, log_dir: LogDir) -> bool:
        """True if `cordoned.log.dirs` keeps new partitions out of the log dir."""
        return log_dir.path in map(_clean, self._config.cordoned_log_dirs)

    def target(self, path: str) -> LogDir:
        """Return the log dir that a partition is to be moved to; raise if it may not be."""
        log_dir = self.find(path)
        if log_dir is None or not log_dir.serves_partitions:
            raise KafkaError(
                ErrorCode.LOG_DIR_NOT_FOUND, f"{path} is not a data folder of this broker"
            )
        if not log_dir.online:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"data folder {path} is offline")
        if self.is_cordoned(log_dir):
            raise KafkaError(
                ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                f"data folder {path} is cordoned (cordoned.log.dirs)",
            )
        return log_dir


def _clean(path: str) -> str:
    return path.rstrip("/") or "/"


def _log_dirs(disk: Disk, config: BrokerConfig) -> list[LogDir]:
    paths = dict.fromkeys(_clean(path) for path in config.log_dirs)
    dirs = [LogDir(disk, path) for path in paths]
    metadata_path = _clean(config.metadata_log_dir)
    if metadata_path not in paths:
        dirs.append(LogDir(disk, metadata_path, serves_partitions=False))
    return dirs
