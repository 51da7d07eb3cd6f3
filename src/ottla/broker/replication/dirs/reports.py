"""Reports to the controller in which log dirs replicas are.

The metadata then knows which partitions a failed disk affects.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from ottla.protocol.uuids import UNASSIGNED_DIRECTORY

if TYPE_CHECKING:
    from ottla.broker.metadata.image import MetadataImage
    from ottla.broker.replication.partition import Partition
    from ottla.broker.storage.log import Log
    from ottla.broker.storage.log_manager import LogManager
    from ottla.runtime.runtime import Runtime

Placed = dict[tuple[bytes, int], bytes]
"""(topic id, partition) -> id of its log dir."""


class DirReports:
    """Collects the log dirs of replicas, and reports those of one turn of the loop together."""

    def __init__(
        self,
        runtime: Runtime,
        log_manager: LogManager,
        node_id: int,
        send: Callable[[Placed], object],
    ) -> None:
        self._runtime = runtime
        self._log_manager = log_manager
        self._node_id = node_id
        self._send = send
        self._placed: Placed = {}

    @property
    def has_choice(self) -> bool:
        """True if there is more than one log dir: only then must the metadata be told of each
        replica's."""
        return len(self._log_manager.dirs) > 1

    def report_soon(self, partition: Partition, log: Log) -> None:
        log_dir = self._log_manager.dir_of(log)
        if log_dir is None:
            return
        if not self._placed:
            self._runtime.call_soon(self._report)
        self._placed[partition.topic_id, partition.index] = log_dir.id

    def report_unassigned(self, partitions: Iterable[Partition], image: MetadataImage) -> None:
        """Report the logs on disk whose log dir the metadata does not name: this broker was killed
        before it had reported them."""
        if not self.has_choice:
            return
        for partition in partitions:
            assigned = image.topics[partition.topic].partitions[partition.index]
            unassigned = assigned.directory_of(self._node_id) == UNASSIGNED_DIRECTORY
            if partition.log is not None and unassigned:
                self.report_soon(partition, partition.log)

    def _report(self) -> None:
        placed, self._placed = self._placed, {}
        self._send(placed)
