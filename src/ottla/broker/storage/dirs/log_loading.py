"""Loads all logs of one log dir, in threads."""

from __future__ import annotations

import asyncio
import os.path
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from ottla.broker.storage.dirs.checkpoints import PartitionOffsets
from ottla.broker.storage.dirs.log_dir import LogDir
from ottla.broker.storage.errors import CorruptFile, LogDirFailure
from ottla.broker.storage.log import Log
from ottla.broker.storage.missing_offsets import tell_missing_end
from ottla.broker.storage.names import (
    DELETE_DIR_SUFFIX,
    FUTURE_DIR_SUFFIX,
    STRAY_DIR_SUFFIX,
    parse_future_dir_name,
    parse_partition_dir_name,
)
from ottla.config.broker import BrokerConfig
from ottla.config.topic import TopicConfig
from ottla.logs import get_logger
from ottla.protocol.errors import KafkaError
from ottla.runtime.runtime import Runtime

logger = get_logger("ottla.storage.dirs")

METADATA_TOPIC = "__cluster_metadata"
PROGRESS_EVERY_LOGS = 1000


@dataclass(slots=True)
class LoadedDir:
    logs: list[Log] = field(default_factory=list)
    futures: list[Log] = field(default_factory=list)
    """Copies that were being moved to this log dir."""
    unusable: dict[tuple[str, int], str] = field(default_factory=dict)
    doomed: list[str] = field(default_factory=list)
    """Folders of partitions that were deleted before the last stop."""
    high_watermarks: PartitionOffsets = field(default_factory=dict)
    failure: BaseException | None = None


class DirLoading:
    """Loads the logs of one log dir; its threads share the queue of partitions."""

    def __init__(
        self, runtime: Runtime, log_dir: LogDir, topic_config: Callable[[str], TopicConfig]
    ) -> None:
        self._runtime = runtime
        self._log_dir = log_dir
        self._topic_config = topic_config
        self._waiting: deque[tuple[str, str, int]] = deque()
        self._total = 0
        self._recovery_points: PartitionOffsets = {}
        self._log_start_offsets: PartitionOffsets = {}
        self.result = LoadedDir()

    def prepare(self) -> int:
        """List the folder; return the number of logs to load."""
        log_dir = self._log_dir
        try:
            names = log_dir.partition_names()
            self._recovery_points = log_dir.read_offsets(log_dir.recovery_points)
            self._log_start_offsets = log_dir.read_offsets(log_dir.log_start_offsets)
            self.result.high_watermarks = log_dir.read_offsets(log_dir.high_watermarks)
        except OSError as error:
            self.result.failure = error
            return 0
        for name in names:
            self._sort_in(name)
        self._total = len(self._waiting)
        if self._total:
            state = "closed cleanly" if log_dir.was_clean else "NOT closed cleanly: recovering"
            logger.info("Loading %d logs from %s, %s", self._total, log_dir.path, state)
        return self._total

    def _sort_in(self, name: str) -> None:
        path = os.path.join(self._log_dir.path, name)
        if name.endswith(DELETE_DIR_SUFFIX):
            self.result.doomed.append(path)
        elif (parsed := parse_future_dir_name(name)) is not None:
            self._waiting.append((path, *parsed))
        elif name.endswith((FUTURE_DIR_SUFFIX, STRAY_DIR_SUFFIX)):
            logger.warning("Leaving %s alone: it is not in use by any partition", path)
        elif (parsed := parse_partition_dir_name(name)) is not None:
            topic, partition = parsed
            if topic != METADATA_TOPIC:
                self._waiting.append((path, topic, partition))

    def run(self) -> None:
        """Load until the queue is empty; runs in each of the threads."""
        while self._waiting and self.result.failure is None:
            try:
                path, topic, partition = self._waiting.popleft()
            except IndexError:
                return  # Another thread took the last one.
            self._load(path, topic, partition)

    def _load(self, path: str, topic: str, partition: int) -> None:
        key = (topic, partition)
        is_future = path.endswith(FUTURE_DIR_SUFFIX)
        try:
            log = Log.open(
                self._runtime.disk,
                path,
                topic,
                partition,
                self._topic_config(topic),
                self._runtime.clock,
                recovery_point=self._recovery_points.get(key, 0),
                log_start_offset=self._log_start_offsets.get(key, 0),
                clean=self._log_dir.was_clean,
            )
        except LogDirFailure as error:
            self.result.failure = error.cause
            return
        except (KafkaError, CorruptFile) as error:
            logger.error("Partition %s cannot be loaded: %s", path, error)
            if not is_future:
                self.result.unusable[key] = f"unusable: {error}"
            return
        if is_future:
            self.result.futures.append(log)
            return
        if self._log_dir.was_clean:  # after a crash its leader may have made it truncate
            tell_missing_end(path, log.end_offset, self._recovery_points.get(key, 0))
        self.result.logs.append(log)
        done = len(self.result.logs)
        if done % PROGRESS_EVERY_LOGS == 0:
            logger.info("Loaded %d of %d logs in %s", done, self._total, self._log_dir.path)


async def load_dir(
    runtime: Runtime,
    config: BrokerConfig,
    log_dir: LogDir,
    topic_config: Callable[[str], TopicConfig],
) -> LoadedDir:
    """Load a log dir. Does not raise if the disk fails: see `LoadedDir.failure`."""
    loading = DirLoading(runtime, log_dir, topic_config)
    count = await runtime.in_thread(loading.prepare)
    # A clean start hardly waits for the disk: more threads would only wait for each other.
    wanted = 1 if log_dir.was_clean else config["num.recovery.threads.per.data.dir"]
    await asyncio.gather(*(runtime.in_thread(loading.run) for _ in range(min(wanted, count))))
    return loading.result
