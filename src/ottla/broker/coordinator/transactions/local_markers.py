"""Writes transaction markers into partitions that this broker leads."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeAlias

from ottla.broker.coordinator.runtime import CoordinatorRuntime
from ottla.broker.coordinator.transactions.transaction import TopicPartition
from ottla.broker.metadata.image import GROUPS_TOPIC
from ottla.broker.replication.partition import TransactionEnd
from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.messages.write_txn_markers import WritableTxnMarker, WriteTxnMarkersResponse

if TYPE_CHECKING:
    from ottla.broker.replication.partition import Partition
    from ottla.broker.replication.replica_manager import ReplicaManager
    from ottla.runtime.runtime import Runtime

Done: TypeAlias = Callable[[ErrorCode], object]


class LocalMarkers:
    """Appends markers to partitions that this broker leads."""

    def __init__(
        self,
        runtime: Runtime,
        replicas: ReplicaManager,
        groups: CoordinatorRuntime[Any],
        node_id: int,
        timeout_ms: int,
    ) -> None:
        """A marker must be committed within `timeout_ms`, or the caller has to retry."""
        self._runtime = runtime
        self._replicas = replicas
        self._groups = groups
        self._node_id = node_id
        self._timeout_s = timeout_ms / 1000

    def write(self, marker: WritableTxnMarker, where: TopicPartition, done: Done) -> None:
        """Write a marker. `done` is called with NONE once it is committed, or with the error."""
        topic, index = where
        if topic == GROUPS_TOPIC:
            # Offsets committed in the transaction take effect with the marker.
            self._groups.end_transaction(
                index, _end_of(marker), _GroupToken(done), WriteTxnMarkersResponse()
            )
            return
        try:
            partition = self._replicas.partition(topic, index)
            if partition.leader_id != self._node_id:
                raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, f"{partition} is led elsewhere")
            if partition.lacks_replicas:
                raise KafkaError(ErrorCode.NOT_ENOUGH_REPLICAS)
            needed = self._append(partition, marker)
        except KafkaError as error:
            done(self._replicas.fail_dir_if_needed(error).code)
            return
        if partition.high_watermark >= needed:
            done(ErrorCode.NONE)
        else:
            _UntilCommitted(self._runtime, partition, needed, self._timeout_s, done)

    def _append(self, partition: Partition, marker: WritableTxnMarker) -> int:
        """Append the marker and return the offset after it."""
        now_ms = self._runtime.clock.wall_ms()
        return partition.append_marker(_end_of(marker), now_ms).last_offset + 1


def _end_of(marker: WritableTxnMarker) -> TransactionEnd:
    return TransactionEnd(
        producer_id=marker.producer_id,
        producer_epoch=marker.producer_epoch,
        coordinator_epoch=marker.coordinator_epoch,
        committed=marker.transaction_result,
        transaction_version=marker.transaction_version,
    )


class _GroupToken:
    """The token for a marker that a group coordinator writes."""

    __slots__ = ("_done", "resolved")

    def __init__(self, done: Done) -> None:
        self._done = done
        self.resolved = False

    def resolve(self, response: Any) -> None:
        if not self.resolved:
            self.resolved = True
            self._done(ErrorCode.NONE)

    def fail(self, error: KafkaError) -> None:
        """Report NOT_LEADER_OR_FOLLOWER instead of errors that only group coordinators use."""
        if not self.resolved:
            self.resolved = True
            self._done(
                ErrorCode.NOT_LEADER_OR_FOLLOWER
                if error.code
                in (
                    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
                    ErrorCode.COORDINATOR_NOT_AVAILABLE,
                    ErrorCode.NOT_COORDINATOR,
                )
                else error.code
            )


class _UntilCommitted:
    """Waits until the high watermark of a partition passes an offset."""

    __slots__ = ("_done", "_needed", "_runtime", "_timer")

    def __init__(
        self, runtime: Runtime, partition: Partition, needed: int, timeout_s: float, done: Done
    ) -> None:
        self._runtime = runtime
        self._needed = needed
        self._done = done
        self._timer = runtime.call_later(
            timeout_s, self._finish, partition, ErrorCode.REQUEST_TIMED_OUT
        )
        partition.waiters[self] = None

    def advanced(self, partition: Partition, gained_bytes: int) -> None:
        if partition.high_watermark >= self._needed:
            self._finish(partition, ErrorCode.NONE)

    def disturbed(self, partition: Partition) -> None:
        self._finish(partition, partition.error or ErrorCode.NOT_LEADER_OR_FOLLOWER)

    def _finish(self, partition: Partition, error: ErrorCode) -> None:
        self._timer.cancel()
        partition.waiters.pop(self, None)
        # Call back later: an append is in progress.
        self._runtime.call_soon(self._done, error)
