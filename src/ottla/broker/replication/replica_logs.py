"""The logs of the replicas on this broker: found on disk, or created in the background."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final

from ottla.broker.metadata.image import NO_LEADER, PartitionImage
from ottla.broker.replication.dirs.reports import DirReports
from ottla.logs import get_logger
from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.uuids import MIGRATING_DIRECTORY, UNASSIGNED_DIRECTORY
from ottla.runtime.collector import keep

if TYPE_CHECKING:
    from ottla.broker.replication.partition import Partition
    from ottla.broker.replication.topic import HostedTopic
    from ottla.broker.storage.log import Log
    from ottla.broker.storage.log_manager import LogManager
    from ottla.runtime.runtime import Runtime

log = get_logger("ottla.replication")

LOGS_KEPT_AT_ONCE: Final = 500
"""New logs after which the garbage collector is told to ignore them: it would otherwise scan some
25 objects of each log in one go."""
NAMES_TOLD_MAX: Final = 5


class ReplicaLogs:
    def __init__(
        self,
        runtime: Runtime,
        log_manager: LogManager,
        node_id: int,
        topics_by_id: Mapping[bytes, HostedTopic],
        reports: DirReports,
        created: Callable[[Partition], object],
        failed: Callable[[KafkaError], object],
    ) -> None:
        """`created` and `failed` are called for each log that is created in the background."""
        self.is_starting = False
        """True while the broker loads its partitions: a log that is not found may be on a disk that
        is not mounted."""
        self._runtime = runtime
        self._log_manager = log_manager
        self._node_id = node_id
        self._topics_by_id = topics_by_id
        self._reports = reports
        self._created = created
        self._failed = failed
        self._waiting: dict[Partition, None] = {}
        """Partitions whose log is to be created."""
        self._creating = False
        self._kept_count = 0
        """The number of logs when the collector was last told to ignore them."""
        self._anew: set[Partition] = set()
        """Partitions whose directory in the metadata is gone."""
        self._revived: list[Partition] = []
        """Those among them that are not yet logged."""

    def find(self, partition: Partition, assigned: PartitionImage) -> bool:
        """Attach the log of a new replica; False if it is not there. It is then created soon,
        unless it may be on a disk that is offline."""
        found = self._log_manager.get(partition.topic, partition.index)
        if found is not None:
            # The records of a single replica are committed. If there are several replicas, only
            # those up to the checkpoint are known to be.
            mark = None
            if len(assigned.replicas) > 1:
                marks = self._log_manager.high_watermarks_at_start
                mark = marks.get((partition.topic, partition.index), 0)
            partition.attach(found, mark)
            return True
        if self._may_be_offline(assigned.directory_of(self._node_id)):
            partition.set_error(ErrorCode.KAFKA_STORAGE_ERROR)
            self.begin_anew(partition, assigned)
        else:
            self._waiting[partition] = None
        return False

    def _may_be_offline(self, directory: bytes) -> bool:
        """True if the log may exist on a disk that is offline. It must not be created again then:
        acknowledged records would disappear, and the partition would exist twice in the end."""
        manager = self._log_manager
        if self.is_starting and directory == UNASSIGNED_DIRECTORY:
            return not all(log_dir.online for log_dir in manager.dirs)
        if self.is_starting and directory not in (
            *manager.dirs.directory_ids(),
            MIGRATING_DIRECTORY,
        ):
            return True  # a disk that is not mounted: its folder was found empty, or created again
        return manager.dirs.is_offline(directory)

    def begin_anew(self, partition: Partition, assigned: PartitionImage) -> None:
        """Create the replica again and copy it from the others, because its disk was replaced. This
        is only done once the controller has removed this replica from ISR and ELR: while it counts
        on the replica's records, the replica must not be found empty."""
        others_have_it = assigned.leader not in (NO_LEADER, self._node_id)
        counted_on = (*assigned.isr, *assigned.eligible_leader_replicas)
        if not others_have_it or self._node_id in counted_on:
            return
        if partition.error == ErrorCode.KAFKA_STORAGE_ERROR and all(
            log_dir.online for log_dir in self._log_manager.dirs
        ):
            partition.error = None
            self._anew.add(partition)
            self._revived.append(partition)
            self._waiting[partition] = None

    def forget(self, partition: Partition) -> None:
        """Do not create the log of a replica that is removed."""
        self._waiting.pop(partition, None)
        self._anew.discard(partition)

    def create(self, partition: Partition) -> Log:
        self._waiting.pop(partition, None)
        hosted = self._topics_by_id.get(partition.topic_id)
        if hosted is None:  # its topic is being deleted, but this partition not yet
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"{partition} is deleted")
        created = self._log_manager.create(
            partition.topic, partition.index, partition.topic_id, hosted.config
        )
        if partition in self._anew or self._reports.has_choice:
            self._anew.discard(partition)
            self._reports.report_soon(partition, created)
        return created

    def started(self) -> None:
        """The replicas of the last run are loaded: log those without a log."""
        self.is_starting = False
        self._kept_count = self._log_manager.log_count
        bare = [partition for partition in self._waiting if partition not in self._anew]
        if bare:
            log.warning("partitions have no folder: creating empty logs", **counted(bare))

    def create_soon(self) -> None:
        """Create all logs that wait for it, in the background."""
        if self._revived:  # in one line: a disk affects all of its partitions at once
            log.warning("replicas whose disk is gone are copied anew", **counted(self._revived))
            self._revived.clear()
        if self._waiting and not self._creating:
            self._creating = True
            self._runtime.spawn(self._create_all(), name="create-logs")

    async def _create_all(self) -> None:
        """Create the waiting logs, one at a time. A single task serves all changes."""
        try:
            while self._waiting:
                self._create_next(next(iter(self._waiting)))
                if self._log_manager.log_count >= self._kept_count + LOGS_KEPT_AT_ONCE:
                    self._kept_count = self._log_manager.log_count
                    keep()
                await asyncio.sleep(0)  # one creation takes about half a millisecond
        finally:
            self._creating = False

    def _create_next(self, partition: Partition) -> None:
        try:
            partition.usable_log()
            self._created(partition)
        except KafkaError as error:
            self._waiting.pop(partition, None)
            if partition.topic_id in self._topics_by_id:
                log.error("cannot create a log", partition=str(partition), error=str(error))
            self._failed(error)


def counted(partitions: list[Partition]) -> dict[str, object]:
    """Return the number of partitions and a few of their names, for a log line."""
    names = [str(partition) for partition in partitions[:NAMES_TOLD_MAX]]
    more = ["..."] if len(partitions) > NAMES_TOLD_MAX else []
    return {"count": len(partitions), "partitions": ", ".join(names + more)}
