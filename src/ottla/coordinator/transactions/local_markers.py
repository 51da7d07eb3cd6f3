"""Writes transaction markers into partitions that this broker leads."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from ottla.coordinator.runtime import CoordinatorRuntime
from ottla.coordinator.transactions.transaction import TopicPartition
from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.messages.write_txn_markers import WritableTxnMarker, WriteTxnMarkersResponse
from ottla.replication.partition import TransactionEnd

if TYPE_CHECKING:
    from ottla.replication.partition import Partition
    from ottla.replication.replica_manager import ReplicaManager
    from ottla.runtime.runtime import Runtime

GROUPS_TOPIC: Final = "__consumer_offsets"

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
        """Within `timeout_ms` a marker is committed, or whoever wants it has to ask again."""
        self._runtime = runtime
        self._replicas = replicas
        self._groups = groups
        self._node_id = node_id
        self._timeout_s = timeout_ms / 1000

    def write(self, marker: WritableTxnMarker, where: TopicPartition, done: Done) -> None:
        """`done` is told once the marker is committed, or why it is not."""
        topic, index = where
        if topic == GROUPS_TOPIC:
            # Offsets that were committed in the transaction come into force with the marker.
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
            done(self._replicas.noted(error).code)
            return
        if partition.high_watermark >= needed:
            done(ErrorCode.NONE)
        else:
            _UntilCommitted(self._runtime, partition, needed, self._timeout_s, done)

    def _append(self, partition: Partition, marker: WritableTxnMarker) -> int:
        """The offset after the marker."""
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
    """The answer of a group coordinator that wrote a marker."""

    __slots__ = ("_done", "resolved")

    def __init__(self, done: Done) -> None:
        self._done = done
        self.resolved = False

    def resolve(self, response: Any) -> None:
        if not self.resolved:
            self.resolved = True
            self._done(ErrorCode.NONE)

    def fail(self, error: KafkaError) -> None:
        """What only groups know comes out as the word for "not the leader, try again"."""
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
    """Waits at a partition for its high watermark."""

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
        # Not now: somebody is in the middle of an append.
        self._runtime.call_soon(self._done, error)
