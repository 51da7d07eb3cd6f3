"""A transaction shard on a stage: virtual time, a log in a list, and marker orders to deliver."""

from __future__ import annotations

from typing import Any

from ottla.broker.coordinator.outbox import CoordinatorRecord, Now, Outbox
from ottla.broker.coordinator.record_codec import TRANSACTION_RECORDS, decode
from ottla.broker.coordinator.timers import TimerQueue
from ottla.broker.coordinator.transactions.settings import TransactionSettings
from ottla.broker.coordinator.transactions.shard import TransactionShard
from ottla.broker.coordinator.transactions.states import TransactionState
from ottla.broker.coordinator.transactions.transaction import (
    Identity,
    TopicPartition,
    Transaction,
    read,
)
from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from ottla.protocol.messages.write_txn_markers import WritableTxnMarker

WALL_MS = 1_700_000_000_000


class Reply:
    """A token that remembers its answer."""

    def __init__(self) -> None:
        self.response: Any = None
        self.error: KafkaError | None = None

    @property
    def resolved(self) -> bool:
        return self.response is not None or self.error is not None

    def resolve(self, response: Any) -> None:
        assert not self.resolved, "answered twice"
        self.response = response

    def fail(self, error: KafkaError) -> None:
        assert not self.resolved, "answered twice"
        self.error = error


class Order:
    """Markers that the shard wants written."""

    def __init__(self, transactional_id: str) -> None:
        self.transactional_id = transactional_id
        self.marker: WritableTxnMarker
        self.left: set[TopicPartition] = set()

    resolved = False

    def resolve(self, response: Any) -> None:
        (self.marker,) = response.markers
        self.left = {(t.name, i) for t in self.marker.topics for i in t.partition_indexes}

    def fail(self, error: KafkaError) -> None:
        raise AssertionError(error)

    @property
    def identity(self) -> Identity:
        return Identity(self.marker.producer_id, self.marker.producer_epoch)


class Stage:
    def __init__(self, settings: TransactionSettings | None = None) -> None:
        self.settings = settings or TransactionSettings()
        self.now = Now(5_000, WALL_MS)
        self.log: list[tuple[bytes, bytes | None]] = []
        self.orders: list[Order] = []
        self.next_producer_id = 1_000
        self.no_producer_ids = False
        self.timers = TimerQueue()
        self.coordinator_epoch = 3
        self.shard = self._make()
        self.run(lambda shard, now, outbox: shard.loaded(now, outbox))

    def _make(self) -> TransactionShard:
        return TransactionShard(
            self.settings, self.coordinator_epoch, self._take_producer_id, self._order
        )

    def _take_producer_id(self) -> int:
        if self.no_producer_ids:
            raise KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        self.next_producer_id += 1
        return self.next_producer_id

    def _order(self, transactional_id: str) -> Order:
        order = Order(transactional_id)
        self.orders = [o for o in self.orders if o.transactional_id != transactional_id]
        self.orders.append(order)
        return order

    # --- what a runtime does --------------------------------------------------------------------

    def run(self, step: Any) -> None:
        outbox = Outbox()
        step(self.shard, self.now, outbox)
        for record in outbox.records:
            self.log.append(self.shard.encode(record))
            self.written(record)
        self.timers.update(outbox.timers)
        for token, response in outbox.replies:
            token.resolve(response)

    def written(self, record: CoordinatorRecord) -> None:
        """For whoever watches the log."""

    def ask(self, method: str, *arguments: Any) -> Any:
        reply = Reply()
        without_time = method in ("verify_partitions", "describe", "list")

        def step(shard: TransactionShard, now: Now, outbox: Outbox) -> None:
            times = () if without_time else (now,)
            getattr(shard, method)(*arguments, reply, *times, outbox)

        self.run(step)
        assert reply.resolved
        return reply.response

    def advance(self, ms: int) -> None:
        """Let time pass; timers come up in their order, each at its time."""
        end = Now(self.now.ms + ms, self.now.wall_ms + ms)
        while (due_ms := self.timers.next_due_ms()) is not None and due_ms <= end.ms:
            passed_ms = max(0, due_ms - self.now.ms)
            self.now = Now(self.now.ms + passed_ms, self.now.wall_ms + passed_ms)
            key = self.timers.pop_due(self.now.ms)
            if key is not None:
                self.run(lambda shard, now, outbox, key=key: shard.timer_fired(key, now, outbox))
        self.now = end

    def reload(self) -> None:
        """Another broker takes over: all but the log is gone."""
        self.coordinator_epoch += 1
        self.orders = []
        self.timers = TimerQueue()
        self.shard = self._make()
        for key, value in self.log:
            record = decode(key, value, TRANSACTION_RECORDS)
            assert record is not None
            self.shard.replay(record, -1)
        self.run(lambda shard, now, outbox: shard.loaded(now, outbox))

    def deliver(self, order: Order, partitions: set[TopicPartition]) -> None:
        order.left -= partitions
        if not order.left:
            self.orders.remove(order)
        self.run(
            lambda shard, now, outbox: shard.markers_written(
                order.transactional_id, order.identity, partitions, now, outbox
            )
        )

    def deliver_all(self) -> None:
        while self.orders:
            self.deliver(self.orders[0], set(self.orders[0].left))

    # --- what clients do ------------------------------------------------------------------------

    def init(
        self, name: str, expected: Identity | None = None, timeout_ms: int = 60_000, **more: Any
    ) -> InitProducerIdResponse:
        producer_id, epoch = expected or (-1, -1)
        request = InitProducerIdRequest(
            transactional_id=name,
            transaction_timeout_ms=timeout_ms,
            producer_id=producer_id,
            producer_epoch=epoch,
            **more,
        )
        response = self.ask("init_producer_id", request)
        assert isinstance(response, InitProducerIdResponse)
        return response

    def begin(self, name: str, **more: Any) -> Identity:
        """A new instance of a producer, which aborts what it finds."""
        response = self.init(name, **more)
        if response.error_code == ErrorCode.CONCURRENT_TRANSACTIONS:
            self.deliver_all()
            response = self.init(name, **more)
        assert response.error_code == ErrorCode.NONE
        return Identity(response.producer_id, response.producer_epoch)

    def add(
        self, name: str, client: Identity, *partitions: TopicPartition, version: int = 2
    ) -> ErrorCode:
        return single_error(self.ask("add_partitions", name, client, partitions, version))

    def verify(self, name: str, client: Identity, *partitions: TopicPartition) -> ErrorCode:
        return single_error(self.ask("verify_partitions", name, client, partitions))

    def end(
        self, name: str, client: Identity, *, commit: bool = True, version: int = 2
    ) -> tuple[ErrorCode, Identity]:
        response = self.ask("end", name, client, commit, version)
        identity = Identity(response.producer_id, response.producer_epoch)
        return ErrorCode.of(response.error_code), identity

    def state(self, name: str) -> TransactionState:
        return self.shard.transactions[name].state

    def stored(self) -> dict[str, Transaction]:
        """What the log says, read on its own."""
        found: dict[str, Transaction] = {}
        for key, value in self.log:
            record: Any = decode(key, value, TRANSACTION_RECORDS)
            if record.value is None:
                found.pop(record.key.transactional_id)
            else:
                name = record.key.transactional_id
                found[name] = read(name, record.value)
        return found


def single_error(response: Any) -> ErrorCode:
    """The error that all partitions of an answer share."""
    (result,) = response.results_by_transaction
    errors = {p.partition_error_code for t in result.topic_results for p in t.results_by_partition}
    (error,) = errors
    return ErrorCode.of(error)
