"""Writes transaction markers to all partitions of a transaction, and retries until all have them.

A shard orders the markers of a transaction when its outcome is committed. The leader of each
partition, this broker or another, appends a control batch; when that is committed there, the shard
is told. A failed write is retried when the metadata names another leader, or after a delay. An
order is dropped if the shard was reloaded, or has moved to another broker: a late marker could end
the next transaction of its producer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Final

from ottla.broker.coordinator.neighbours import Leadership, Neighbours
from ottla.broker.coordinator.transactions.transaction import TopicPartition
from ottla.broker.metadata.image import NO_LEADER
from ottla.logs import get_logger
from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.messages.write_txn_markers import WritableTxnMarker, WriteTxnMarkersRequest

if TYPE_CHECKING:
    from ottla.broker.coordinator.transactions.local_markers import LocalMarkers
    from ottla.broker.coordinator.transactions.remote_markers import RemoteMarkers
    from ottla.runtime.runtime import Runtime, Timer

log = get_logger("ottla.coordinator")

RETRY_MS_MIN: Final = 100
RETRY_MS_MAX: Final = 1_000

_BEYOND_REPAIR: Final = frozenset(
    {
        ErrorCode.INVALID_PRODUCER_EPOCH,
        ErrorCode.PRODUCER_FENCED,
        ErrorCode.TRANSACTION_COORDINATOR_FENCED,
    }
)
"""The partition has seen a later producer or coordinator, so it does not need this marker."""


class MarkerOrder:
    """The token with which a shard orders markers: its "answer" is the markers to write."""

    __slots__ = (
        "_writer",
        "attempts",
        "failed",
        "marker",
        "retry",
        "shard_index",
        "transactional_id",
        "unwritten",
    )

    resolved = False

    def __init__(self, writer: MarkerWriter, shard_index: int, transactional_id: str) -> None:
        self._writer = writer
        self.shard_index = shard_index
        self.transactional_id = transactional_id
        self.attempts = 0
        self.marker: WritableTxnMarker
        self.unwritten: set[TopicPartition] = set()
        self.failed: dict[TopicPartition, Leadership | None] = {}
        """The partitions to retry, and their leadership at the time of the last attempt."""
        self.retry: Timer | None = None

    def resolve(self, response: WriteTxnMarkersRequest) -> None:
        self._writer.begin(self, response.markers[0])

    def fail(self, error: KafkaError) -> None:
        """Order the markers again: the outcome is written but not known to be committed."""
        if error.code is not ErrorCode.NOT_COORDINATOR:
            self._writer.order_again(self)


class MarkerWriter:
    def __init__(
        self,
        runtime: Runtime,
        neighbours: Neighbours,
        local: LocalMarkers,
        remote: RemoteMarkers,
        written: Callable[[MarkerOrder, WritableTxnMarker, list[TopicPartition]], None],
        order_again: Callable[[MarkerOrder], None],
    ) -> None:
        """`written` notifies the shard; `order_again` makes it order the markers of an id again."""
        self._runtime = runtime
        self._neighbours = neighbours
        self._local = local
        self._remote = remote
        self._written = written
        self._ask_again = order_again
        self._current: dict[str, MarkerOrder] = {}

    @property
    def orders_open(self) -> int:
        return len(self._current)

    def order(self, shard_index: int, transactional_id: str) -> MarkerOrder:
        return MarkerOrder(self, shard_index, transactional_id)

    def order_again(self, order: MarkerOrder) -> None:
        self._runtime.call_later(RETRY_MS_MAX / 1000, self._ask_again, order)

    def forget(self, shard_index: int) -> None:
        """Drop the orders of a shard that moved away, or was reloaded and orders its markers
        again."""
        for order in list(self._current.values()):
            if order.shard_index == shard_index:
                del self._current[order.transactional_id]

    def metadata_changed(self) -> None:
        """Retry failed markers that may have a leader now. Call this when `neighbours` has a new
        image."""
        self._remote.metadata_changed()
        for order in list(self._current.values()):
            if order.failed and self._has_moved(order.failed):
                self._try_again(order)

    def close(self) -> None:
        self._current.clear()
        self._remote.close()

    # --- writing --------------------------------------------------------------------------------

    def begin(self, order: MarkerOrder, marker: WritableTxnMarker) -> None:
        self._current[order.transactional_id] = order
        order.marker = marker
        order.unwritten = {
            (topic.name, index) for topic in marker.topics for index in topic.partition_indexes
        }
        # Write after the reply to the client, which is about to be sent.
        self._runtime.call_soon(self._attempt, order, sorted(order.unwritten))

    def _is_current(self, order: MarkerOrder) -> bool:
        return self._current.get(order.transactional_id) is order

    def _attempt(self, order: MarkerOrder, where: Iterable[TopicPartition]) -> None:
        if not self._is_current(order):
            return
        by_leader: dict[int, dict[TopicPartition, Leadership | None]] = {}
        for partition in where:
            found = self._neighbours.leadership(*partition)
            leader = NO_LEADER if found is None else found.leader
            by_leader.setdefault(leader, {})[partition] = found
        for leader, tried in by_leader.items():
            self._write(order, leader, tried)

    def _write(
        self, order: MarkerOrder, leader: int, tried: Mapping[TopicPartition, Leadership | None]
    ) -> None:
        done = partial(self._wrote, order, tried)
        if leader == NO_LEADER:
            done(dict.fromkeys(tried, ErrorCode.LEADER_NOT_AVAILABLE))
        elif leader == self._neighbours.node_id:
            errors = _Gathered(len(tried), done)
            for partition in tried:
                self._local.write(order.marker, partition, partial(errors.add, partition))
        else:
            self._remote.write(
                leader,
                order.marker,
                list(tried),
                is_wanted=partial(self._is_current, order),
                done=done,
            )

    def _wrote(
        self,
        order: MarkerOrder,
        tried: Mapping[TopicPartition, Leadership | None],
        errors: Mapping[TopicPartition, ErrorCode],
    ) -> None:
        if not self._is_current(order):
            return
        done = [where for where, error in errors.items() if self._settles(order, where, error)]
        order.unwritten.difference_update(done)
        if not order.unwritten:
            del self._current[order.transactional_id]
        if done:
            self._written(order, order.marker, done)
        failed = {where: tried[where] for where in tried if where in order.unwritten}
        if failed:
            self._rest(order, failed)

    def _settles(self, order: MarkerOrder, where: TopicPartition, error: ErrorCode) -> bool:
        """True if nothing more is to be written there."""
        if error is ErrorCode.NONE:
            return True
        needless = error in _BEYOND_REPAIR or self._neighbours.leadership(*where) is None
        tell = log.error if error in _BEYOND_REPAIR else log.debug
        tell(
            "a transaction marker is not needed" if needless else "no transaction marker yet",
            partition=f"{where[0]}-{where[1]}",
            transactional_id=order.transactional_id,
            error=error.name,
        )
        return needless

    # --- retries --------------------------------------------------------------------------------

    def _rest(self, order: MarkerOrder, failed: Mapping[TopicPartition, Leadership | None]) -> None:
        order.failed.update(failed)
        if order.retry is not None:
            order.retry.cancel()
        delay_ms = min(RETRY_MS_MAX, RETRY_MS_MIN << min(order.attempts, 10))
        order.attempts += 1
        if self._has_moved(failed):
            delay_ms = 0
        order.retry = self._runtime.call_later(delay_ms / 1000, self._try_again, order)

    def _has_moved(self, failed: Mapping[TopicPartition, Leadership | None]) -> bool:
        """True if one of these has another leader than when it was tried."""
        return any(self._neighbours.leadership(*where) != was for where, was in failed.items())

    def _try_again(self, order: MarkerOrder) -> None:
        if order.retry is not None:
            order.retry.cancel()
            order.retry = None
        where, order.failed = order.failed, {}
        self._attempt(order, where)


class _Gathered:
    """Collects the outcomes of partitions that answer one by one."""

    __slots__ = ("_count", "_errors", "_then")

    def __init__(
        self, count: int, then: Callable[[Mapping[TopicPartition, ErrorCode]], object]
    ) -> None:
        self._count = count
        self._then = then
        self._errors: dict[TopicPartition, ErrorCode] = {}

    def add(self, where: TopicPartition, error: ErrorCode) -> None:
        self._errors[where] = error
        if len(self._errors) == self._count:
            self._then(self._errors)
