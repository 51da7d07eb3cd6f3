"""Whatever happens in whatever order, a transaction has one outcome and a fenced producer none."""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule
from transaction_stage import Order, Stage

from ottla.broker.coordinator.outbox import CoordinatorRecord
from ottla.broker.coordinator.transactions.settings import TransactionSettings
from ottla.broker.coordinator.transactions.states import (
    AT_REST,
    COMPLETE_ABORT,
    COMPLETE_COMMIT,
    EMPTY,
    ONGOING,
    PREPARE_ABORT,
    PREPARE_COMMIT,
    PREPARED,
    TransactionState,
)
from ottla.broker.coordinator.transactions.transaction import EPOCH_LAST, Identity, TopicPartition
from ottla.protocol.errors import ErrorCode

NAMES = ("copy-1", "copy-2")
TIMEOUT_MS = 30_000
TWO_PHASE = TransactionSettings(two_phase_commit=True, expiration_ms=10**9)


class Producer:
    """A client instance: what it was told, and what it had added to its open transaction."""

    def __init__(self, name: str, version: int, identity: Identity) -> None:
        self.name = name
        self.version = version
        self.identity = identity
        self.fenced = False
        self.added: set[TopicPartition] = set()
        self.asks_again = False
        """It waits for the answer to an EndTxn, and does nothing else before it has one."""


class Watched(Stage):
    """Keeps the story of each id as the log tells it, and checks it record by record."""

    def __init__(self) -> None:
        self.last: dict[str, tuple[Identity, TransactionState]] = {}
        self.prepared: dict[str, tuple[bool, set[TopicPartition]]] = {}
        self.marked: dict[str, set[TopicPartition]] = {}
        super().__init__(TWO_PHASE)

    def written(self, record: CoordinatorRecord) -> None:
        name, value = record.key.transactional_id, record.value
        if value is None:
            assert self.last.pop(name)[1] in AT_REST
            return
        state = TransactionState(value.transaction_status)
        identity = Identity(value.producer_id, value.producer_epoch)
        partitions = {
            (t.topic, i) for t in value.transaction_partitions or () for i in t.partition_ids
        }
        if name in self.last:
            before, state_before = self.last[name]
            assert identity >= before, "an epoch went back"
            self._check_outcome(name, state_before, state, partitions)
        self.last[name] = identity, state
        if state in PREPARED:
            self.prepared[name] = state is PREPARE_COMMIT, partitions
            self.marked[name] = set()

    def _check_outcome(
        self,
        name: str,
        before: TransactionState,
        state: TransactionState,
        partitions: set[TopicPartition],
    ) -> None:
        if before is ONGOING:
            assert state in PREPARED | {ONGOING}, "a transaction went away without an outcome"
        if before in PREPARED:
            committed, taking_part = self.prepared[name]
            assert state is (COMPLETE_COMMIT if committed else COMPLETE_ABORT)
            assert self.marked[name] == taking_part, "completed before all markers were written"

    def deliver(self, order: Order, partitions: set[TopicPartition]) -> None:
        committed, taking_part = self.prepared[order.transactional_id]
        assert order.marker.transaction_result == committed
        assert partitions <= taking_part
        self.marked[order.transactional_id] |= partitions
        super().deliver(order, partitions)


class Transactions(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.stage = Watched()
        self.producers: list[Producer] = []

    def pick(self, at: int) -> Producer | None:
        return self.producers[at % len(self.producers)] if self.producers else None

    # --- producers ------------------------------------------------------------------------------

    @rule(name=st.sampled_from(NAMES), version=st.sampled_from((1, 2)), keep=st.booleans())
    def comes(self, name: str, version: int, keep: bool) -> None:
        more = {"keep_prepared_txn": True, "enable2_pc": True} if keep and version == 2 else {}
        response = self.stage.init(name, timeout_ms=TIMEOUT_MS, **more)
        if response.error_code:
            assert response.error_code == ErrorCode.CONCURRENT_TRANSACTIONS
            return
        for producer in self.producers:
            producer.fenced |= producer.name == name
        identity = Identity(response.producer_id, response.producer_epoch)
        assert 0 <= identity.producer_epoch <= EPOCH_LAST
        self.producers.append(Producer(name, version, identity))

    @rule(at=st.integers(0, 9), hears=st.booleans())
    def resumes(self, at: int, hears: bool) -> None:
        if (producer := self.pick(at)) is None:
            return
        response = self.stage.init(producer.name, producer.identity, timeout_ms=TIMEOUT_MS)
        if response.error_code == 0:
            assert not producer.fenced, "a fenced producer came back"
            if hears:
                producer.identity = Identity(response.producer_id, response.producer_epoch)
                producer.added = set()
                producer.asks_again = False

    @rule(at=st.integers(0, 9), partition=st.integers(0, 3))
    def adds(self, at: int, partition: int) -> None:
        if (producer := self.pick(at)) is None or producer.asks_again:
            return
        where = ("out", partition)
        error = self.stage.add(producer.name, producer.identity, where, version=producer.version)
        if error is ErrorCode.NONE:
            assert not producer.fenced, "a fenced producer added a partition"
            assert self.stage.state(producer.name) is ONGOING
            producer.added.add(where)
            verified = self.stage.verify(producer.name, producer.identity, *producer.added)
            assert verified is ErrorCode.NONE

    @rule(at=st.integers(0, 9), commit=st.booleans(), hears=st.booleans())
    def ends(self, at: int, commit: bool, hears: bool) -> None:
        if (producer := self.pick(at)) is None:
            return
        was_ongoing = (
            producer.name in self.stage.last and self.stage.state(producer.name) is ONGOING
        )
        error, identity = self.stage.end(
            producer.name, producer.identity, commit=commit, version=producer.version
        )
        if error is not ErrorCode.NONE:
            return
        assert not producer.fenced, "a fenced producer ended a transaction"
        state = self.stage.state(producer.name)
        committed = {PREPARE_COMMIT, COMPLETE_COMMIT}
        aborted = {PREPARE_ABORT, COMPLETE_ABORT}
        assert state in (committed if commit else aborted)
        if was_ongoing:
            assert producer.added <= self.stage.prepared[producer.name][1]
        producer.asks_again = not hears
        if hears:
            producer.added = set()
            if producer.version == 2:
                assert identity > producer.identity
                producer.identity = identity

    # --- the world ------------------------------------------------------------------------------

    @rule(at=st.integers(0, 9), some=st.sets(st.integers(0, 3), min_size=1))
    def markers_arrive(self, at: int, some: set[int]) -> None:
        if self.stage.orders:
            order = self.stage.orders[at % len(self.stage.orders)]
            self.stage.deliver(order, {("out", i) for i in some} & order.left or {min(order.left)})

    @rule(ms=st.sampled_from((1, 10_000, TIMEOUT_MS, 10**6)))
    def time_passes(self, ms: int) -> None:
        self.stage.advance(ms)

    @rule()
    def another_broker_takes_over(self) -> None:
        before = self.durable()
        self.stage.reload()
        assert self.durable() == before
        for name in self.stage.marked:
            # All markers are written again: which were before, nobody knows.
            if self.stage.last.get(name, (None, EMPTY))[1] in PREPARED:
                self.stage.marked[name] = set()

    @rule(name=st.sampled_from(NAMES))
    def epochs_run_out(self, name: str) -> None:
        """As if the last producer had been through thousands of transactions."""
        found = self.stage.shard.transactions.get(name)
        if found is None or found.state is not EMPTY or found.producer_epoch >= EPOCH_LAST:
            return
        old = Identity(found.producer_id, found.producer_epoch)
        new = Identity(found.producer_id, EPOCH_LAST)
        grown = found._replace(producer_epoch=EPOCH_LAST, last_producer_epoch=-1)
        self.stage.run(lambda shard, now, outbox: shard._write(grown, outbox))
        for producer in self.producers:
            if producer.name == name and producer.identity == old and not producer.fenced:
                producer.identity = new

    # --- what always holds ----------------------------------------------------------------------

    def durable(self) -> dict[str, object]:
        """Without what is not stored: the epoch before, and which markers are written."""
        return {
            name: found._replace(last_producer_epoch=0, partitions=frozenset())
            if found.state in PREPARED
            else found._replace(last_producer_epoch=0)
            for name, found in self.stage.shard.transactions.items()
        }

    @invariant()
    def no_transaction_outlives_its_time(self) -> None:
        for found in self.stage.shard.transactions.values():
            if found.state is ONGOING and not found.never_times_out:
                assert self.stage.now.wall_ms < found.start_ms + found.timeout_ms

    @invariant()
    def the_log_tells_the_state(self) -> None:
        stored = self.stage.stored()
        assert stored.keys() == self.stage.shard.transactions.keys()
        for name, found in self.stage.shard.transactions.items():
            same = {"last_producer_epoch": 0, "partitions": frozenset()}
            assert stored[name]._replace(**same) == found._replace(**same)

    @invariant()
    def prepared_transactions_have_their_markers_ordered(self) -> None:
        ordered = {order.transactional_id for order in self.stage.orders}
        for name, found in self.stage.shard.transactions.items():
            assert (found.state in PREPARED) == (name in ordered)

    def teardown(self) -> None:
        self.stage.deliver_all()
        self.stage.advance(10**9)
        self.stage.deliver_all()
        for found in self.stage.shard.transactions.values():
            assert found.state in AT_REST or found.never_times_out


Transactions.TestCase.settings = settings(max_examples=150, stateful_step_count=60, deadline=None)
test_any_order_of_events = Transactions.TestCase
