"""Writes the end of transactions into the partitions that took part, until all of them have it.

A shard orders the markers of a transaction when its outcome is committed. Each partition gets a
control batch; when that is committed there, the shard is told. What cannot be written now is tried
again. An order that was taken over (the shard was loaded anew) is dropped: a marker that came late
could end the next transaction of its producer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from ottla.coordinator.runtime import CoordinatorRuntime
from ottla.coordinator.transactions.transaction import TopicPartition
from ottla.logs import get_logger
from ottla.metadata.image import MetadataImage
from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from ottla.replication.partition import TransactionEnd

if TYPE_CHECKING:
    from ottla.replication.partition import Partition
    from ottla.replication.replica_manager import ReplicaManager
    from ottla.runtime.runtime import Runtime

log = get_logger("ottla.coordinator")

GROUPS_TOPIC: Final = "__consumer_offsets"
RETRY_MS_MIN: Final = 100
RETRY_MS_MAX: Final = 1_000

Done: TypeAlias = Callable[[ErrorCode], object]

_BEYOND_REPAIR: Final = frozenset(
    {
        ErrorCode.INVALID_PRODUCER_EPOCH,
        ErrorCode.PRODUCER_FENCED,
        ErrorCode.TRANSACTION_COORDINATOR_FENCED,
    }
)
"""The partition has seen a later producer or coordinator, so it has no use for this marker."""


class LocalMarkers:
    """Appends markers to partitions that this broker leads."""

    def __init__(
        self,
        runtime: Runtime,
        replicas: ReplicaManager,
        groups: CoordinatorRuntime[Any],
        node_id: int,
    ) -> None:
        self._runtime = runtime
        self._replicas = replicas
        self._groups = groups
        self._node_id = node_id

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
            needed = self._append(partition, marker)
        except KafkaError as error:
            done(self._replicas.noted(error).code)
            return
        if partition.high_watermark >= needed:
            done(ErrorCode.NONE)
        else:
            partition.waiters[_UntilCommitted(self._runtime, partition, needed, done)] = None

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

    __slots__ = ("_done", "_needed", "_runtime")

    def __init__(self, runtime: Runtime, partition: Partition, needed: int, done: Done) -> None:
        self._runtime = runtime
        self._needed = needed
        self._done = done

    def advanced(self, partition: Partition, gained_bytes: int) -> None:
        if partition.high_watermark >= self._needed:
            self._finish(partition, ErrorCode.NONE)

    def disturbed(self, partition: Partition) -> None:
        self._finish(partition, partition.error or ErrorCode.NOT_LEADER_OR_FOLLOWER)

    def _finish(self, partition: Partition, error: ErrorCode) -> None:
        partition.waiters.pop(self, None)
        # Not now: somebody is in the middle of an append.
        self._runtime.call_soon(self._done, error)


class MarkerOrder:
    """The token with which a shard orders markers: it is "answered" with what to write."""

    __slots__ = ("_writer", "attempts", "shard_index", "transactional_id")

    resolved = False

    def __init__(self, writer: MarkerWriter, shard_index: int, transactional_id: str) -> None:
        self._writer = writer
        self.shard_index = shard_index
        self.transactional_id = transactional_id
        self.attempts = 0

    def resolve(self, response: WriteTxnMarkersRequest) -> None:
        self._writer.begin(self, response.markers[0])

    def fail(self, error: KafkaError) -> None:
        """The outcome is written but not known to be committed."""
        if error.code is not ErrorCode.NOT_COORDINATOR:
            self._writer.order_again(self)


class _Pass:
    """One attempt at all partitions of an order that are left."""

    __slots__ = ("done", "failed", "unanswered")

    def __init__(self, count: int) -> None:
        self.unanswered = count
        self.done: list[TopicPartition] = []
        self.failed: list[TopicPartition] = []


class MarkerWriter:
    def __init__(
        self,
        runtime: Runtime,
        local: LocalMarkers,
        written: Callable[[MarkerOrder, WritableTxnMarker, list[TopicPartition]], None],
        order_again: Callable[[MarkerOrder], None],
    ) -> None:
        """`written` tells the shard; `order_again` has it order the markers of an id once more."""
        self._runtime = runtime
        self._local = local
        self._written = written
        self._ask_again = order_again
        self._current: dict[str, MarkerOrder] = {}
        self.image: MetadataImage | None = None

    @property
    def orders_open(self) -> int:
        return len(self._current)

    def order(self, shard_index: int, transactional_id: str) -> MarkerOrder:
        return MarkerOrder(self, shard_index, transactional_id)

    def order_again(self, order: MarkerOrder) -> None:
        self._runtime.call_later(RETRY_MS_MAX / 1000, self._ask_again, order)

    def forget(self, shard_index: int) -> None:
        """The shard is made anew, and will order anew what is left to do."""
        for order in list(self._current.values()):
            if order.shard_index == shard_index:
                del self._current[order.transactional_id]

    def close(self) -> None:
        self._current.clear()

    # --- writing --------------------------------------------------------------------------------

    def begin(self, order: MarkerOrder, marker: WritableTxnMarker) -> None:
        self._current[order.transactional_id] = order
        where = [
            (topic.name, index) for topic in marker.topics for index in topic.partition_indexes
        ]
        # After the answer to the client, which is on its way out just now.
        self._runtime.call_soon(self._attempt, order, marker, where)

    def _attempt(
        self, order: MarkerOrder, marker: WritableTxnMarker, where: Iterable[TopicPartition]
    ) -> None:
        if self._current.get(order.transactional_id) is not order:
            return
        wanted = list(where)
        attempt = _Pass(len(wanted))
        for partition in wanted:
            self._local.write(
                marker, partition, partial(self._wrote, order, marker, attempt, partition)
            )

    def _wrote(
        self,
        order: MarkerOrder,
        marker: WritableTxnMarker,
        attempt: _Pass,
        partition: TopicPartition,
        error: ErrorCode,
    ) -> None:
        needless = self._is_needless(partition, error)
        (attempt.done if needless else attempt.failed).append(partition)
        if error is not ErrorCode.NONE:
            tell = log.error if error in _BEYOND_REPAIR else log.debug
            tell(
                "a transaction marker is not needed" if needless else "no transaction marker yet",
                partition=f"{partition[0]}-{partition[1]}",
                transactional_id=order.transactional_id,
                error=error.name,
            )
        attempt.unanswered -= 1
        if not attempt.unanswered and self._current.get(order.transactional_id) is order:
            self._finish(order, marker, attempt)

    def _is_needless(self, partition: TopicPartition, error: ErrorCode) -> bool:
        """Whether the marker need not be written (again)."""
        if error is ErrorCode.NONE or error in _BEYOND_REPAIR:
            return True
        if self.image is None:
            return False
        topic = self.image.topics.get(partition[0])
        return topic is None or partition[1] not in topic.partitions  # deleted meanwhile

    def _finish(self, order: MarkerOrder, marker: WritableTxnMarker, attempt: _Pass) -> None:
        if not attempt.failed:
            del self._current[order.transactional_id]
        if attempt.done:
            self._written(order, marker, attempt.done)
        if attempt.failed:
            delay_ms = min(RETRY_MS_MAX, RETRY_MS_MIN << min(order.attempts, 10))
            order.attempts += 1
            self._runtime.call_later(delay_ms / 1000, self._attempt, order, marker, attempt.failed)
