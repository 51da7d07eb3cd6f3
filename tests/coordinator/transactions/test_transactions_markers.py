"""Markers are written until every partition has them, and never for an order that is taken over."""

from __future__ import annotations

import heapq
from collections.abc import Callable
from itertools import count
from types import SimpleNamespace
from typing import Any

from ottla.broker.coordinator.neighbours import Neighbours
from ottla.broker.coordinator.transactions.markers import MarkerOrder, MarkerWriter
from ottla.broker.coordinator.transactions.transaction import TopicPartition
from ottla.broker.metadata.image import (
    BrokerImage,
    Endpoint,
    MetadataImage,
    PartitionImage,
    TopicImage,
)
from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)

A, B = ("orders", 0), ("orders", 1)
ME, OTHER, THIRD = 1, 2, 3


class FakeRuntime:
    """Runs what it is asked to run when `advance` comes to its time."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self._order = count()
        self._calls: list[tuple[float, int, Callable[[], object]]] = []
        self._cancelled: set[int] = set()

    def call_later(self, delay_s: float, callback: Callable[..., object], *args: Any) -> Any:
        number = next(self._order)
        heapq.heappush(self._calls, (self.now_s + delay_s, number, lambda: callback(*args)))
        return SimpleNamespace(cancel=lambda: self._cancelled.add(number))

    def call_soon(self, callback: Callable[..., object], *args: Any) -> None:
        self.call_later(0, callback, *args)

    def advance(self, delay_s: float = 0.0) -> None:
        end = self.now_s + delay_s
        while self._calls and self._calls[0][0] <= end:
            self.now_s, number, call = heapq.heappop(self._calls)
            if number not in self._cancelled:
                call()
        self.now_s = end


class FakePartitions:
    """Answers at once with the error that is set for a partition, or keeps the answer back."""

    def __init__(self) -> None:
        self.errors: dict[TopicPartition, ErrorCode] = {}
        self.written: list[TopicPartition] = []
        self.kept_back: list[Callable[[], object]] | None = None

    def write(
        self,
        marker: WritableTxnMarker,
        where: TopicPartition,
        done: Callable[[ErrorCode], object],
    ) -> None:
        self.written.append(where)
        if self.kept_back is not None:
            self.kept_back.append(lambda: done(ErrorCode.NONE))
        else:
            done(self.errors.get(where, ErrorCode.NONE))


class FakeBrokers:
    """Other brokers: keeps what was sent to them until a test answers."""

    def __init__(self) -> None:
        self.sent: list[tuple[int, list[TopicPartition]]] = []
        self.answers: list[Callable[[dict[TopicPartition, ErrorCode]], object]] = []
        self.wanted: list[Callable[[], bool]] = []

    def write(
        self,
        broker_id: int,
        marker: WritableTxnMarker,
        partitions: list[TopicPartition],
        *,
        is_wanted: Callable[[], bool],
        done: Callable[[dict[TopicPartition, ErrorCode]], object],
    ) -> None:
        self.sent.append((broker_id, partitions))
        self.answers.append(done)
        self.wanted.append(is_wanted)

    def metadata_changed(self) -> None: ...

    def answer(self, error: ErrorCode = ErrorCode.NONE) -> None:
        self.answers.pop(0)(dict.fromkeys(self.sent[len(self.sent) - 1][1], error))


class Desk:
    def __init__(self) -> None:
        self.runtime = FakeRuntime()
        self.partitions = FakePartitions()
        self.brokers = FakeBrokers()
        self.neighbours = Neighbours(ME, "PLAINTEXT")
        self.told: list[tuple[str, list[TopicPartition]]] = []
        self.asked_again: list[str] = []
        self.writer = MarkerWriter(
            self.runtime,  # type: ignore[arg-type]
            self.neighbours,
            self.partitions,  # type: ignore[arg-type]
            self.brokers,  # type: ignore[arg-type]
            lambda order, marker, where: self.told.append((order.transactional_id, where)),
            lambda order: self.asked_again.append(order.transactional_id),
        )
        self.metadata(image(("orders", 2)))

    def metadata(self, image: MetadataImage) -> None:
        self.neighbours.image = image
        self.writer.metadata_changed()
        self.runtime.advance()

    def order(self, name: str = "t", shard: int = 7) -> MarkerOrder:
        order = self.writer.order(shard, name)
        topic = WritableTxnMarkerTopic(name="orders", partition_indexes=[0, 1])
        marker = WritableTxnMarker(producer_id=1, producer_epoch=2, topics=[topic])
        order.resolve(WriteTxnMarkersRequest(markers=[marker]))
        self.runtime.advance()
        return order


def image(
    *topics: tuple[str, int], leaders: tuple[int, ...] = (ME, ME), away: tuple[int, ...] = ()
) -> MetadataImage:
    made = {
        name: TopicImage(
            name=name,
            id=name.encode().ljust(16),
            partitions={
                index: PartitionImage(
                    index=index,
                    replicas=(1,),
                    directories=(bytes(16),),
                    isr=(1,),
                    leader=leaders[index],
                    leader_epoch=leaders[index],
                    partition_epoch=0,
                )
                for index in range(size)
            },
        )
        for name, size in topics
    }
    brokers = {
        broker_id: BrokerImage(
            broker_id,
            1,
            bytes(16),
            {"PLAINTEXT": Endpoint("PLAINTEXT", f"host{broker_id}", 9092)},
            None,
            fenced=broker_id in away,
        )
        for broker_id in (ME, OTHER, THIRD)
    }
    return MetadataImage(topics=made, brokers=brokers)


def test_the_shard_is_told_when_all_markers_are_written() -> None:
    desk = Desk()
    desk.order()
    assert desk.told == [("t", [A, B])]
    assert desk.writer.orders_open == 0


def test_what_cannot_be_written_is_tried_again_and_the_rest_is_told() -> None:
    desk = Desk()
    desk.partitions.errors[B] = ErrorCode.NOT_LEADER_OR_FOLLOWER
    desk.order()
    assert desk.told == [("t", [A])]
    desk.runtime.advance(0.25)
    assert desk.partitions.written == [A, B, B]
    del desk.partitions.errors[B]
    desk.runtime.advance(10)
    assert desk.told == [("t", [A]), ("t", [B])]
    assert desk.writer.orders_open == 0


def test_attempts_become_rarer_but_never_end() -> None:
    desk = Desk()
    desk.partitions.errors = {A: ErrorCode.KAFKA_STORAGE_ERROR, B: ErrorCode.KAFKA_STORAGE_ERROR}
    desk.order()
    desk.runtime.advance(60)
    attempts = len(desk.partitions.written) // 2
    assert 58 <= attempts <= 66
    assert desk.writer.orders_open == 1


def test_a_deleted_partition_needs_no_marker() -> None:
    desk = Desk()
    desk.partitions.errors = dict.fromkeys((A, B), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    desk.order()
    assert desk.told == []
    desk.metadata(image(("orders", 1)))
    assert desk.told == [("t", [B])]
    desk.metadata(image())
    assert desk.told == [("t", [B]), ("t", [A])]


def test_a_partition_that_has_seen_a_later_producer_needs_no_marker() -> None:
    desk = Desk()
    desk.partitions.errors[A] = ErrorCode.INVALID_PRODUCER_EPOCH
    desk.order()
    assert desk.told == [("t", [A, B])]


def test_a_later_order_takes_over_from_an_earlier_one() -> None:
    desk = Desk()
    desk.partitions.errors = {A: ErrorCode.KAFKA_STORAGE_ERROR, B: ErrorCode.KAFKA_STORAGE_ERROR}
    desk.order()
    desk.partitions.errors = {}
    desk.order()
    written = len(desk.partitions.written)
    desk.runtime.advance(60)
    assert len(desk.partitions.written) == written
    assert desk.told == [("t", [A, B])]


def test_orders_of_a_shard_that_is_loaded_anew_are_dropped() -> None:
    desk = Desk()
    desk.partitions.kept_back = []
    desk.order("t", shard=7)
    desk.order("u", shard=8)
    desk.writer.forget(7)
    for answer in desk.partitions.kept_back:
        answer()
    assert desk.told == [("u", [A, B])]


def test_an_order_whose_outcome_may_not_be_committed_is_asked_for_again() -> None:
    desk = Desk()
    order = desk.writer.order(7, "t")
    order.fail(KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE))
    desk.runtime.advance(5)
    assert desk.asked_again == ["t"]
    desk.writer.order(7, "u").fail(KafkaError(ErrorCode.NOT_COORDINATOR))
    desk.runtime.advance(5)
    assert desk.asked_again == ["t"]


# --- partitions that other brokers lead -------------------------------------------------------


def test_each_leader_gets_the_markers_of_its_partitions() -> None:
    desk = Desk()
    desk.metadata(image(("orders", 2), leaders=(ME, OTHER)))
    desk.order()
    assert desk.partitions.written == [A]
    assert desk.brokers.sent == [(OTHER, [B])]
    assert desk.told == [("t", [A])]
    desk.brokers.answer()
    assert desk.told == [("t", [A]), ("t", [B])]
    assert desk.writer.orders_open == 0


def test_a_marker_follows_its_partition_to_the_next_leader_at_once() -> None:
    desk = Desk()
    desk.metadata(image(("orders", 2), leaders=(ME, OTHER)))
    desk.order()
    desk.brokers.answer(ErrorCode.NOT_LEADER_OR_FOLLOWER)
    desk.metadata(image(("orders", 2), leaders=(ME, THIRD)))
    assert desk.brokers.sent == [(OTHER, [B]), (THIRD, [B])]


def test_a_refusal_that_the_metadata_explains_is_not_slept_over() -> None:
    desk = Desk()
    desk.metadata(image(("orders", 2), leaders=(ME, OTHER)))
    desk.order()
    desk.metadata(image(("orders", 2), leaders=(ME, THIRD)))
    assert desk.brokers.sent == [(OTHER, [B])]
    desk.brokers.answer(ErrorCode.NOT_LEADER_OR_FOLLOWER)
    desk.runtime.advance()
    assert desk.brokers.sent == [(OTHER, [B]), (THIRD, [B])]


def test_the_marker_of_a_partition_without_a_leader_waits_for_one() -> None:
    desk = Desk()
    desk.metadata(image(("orders", 2), leaders=(ME, OTHER), away=(OTHER,)))
    desk.order()
    desk.runtime.advance(30)
    assert desk.brokers.sent == []
    desk.metadata(image(("orders", 2), leaders=(ME, OTHER)))
    assert desk.brokers.sent == [(OTHER, [B])]


def test_what_a_forgotten_order_has_on_its_way_is_neither_wanted_nor_told() -> None:
    desk = Desk()
    desk.metadata(image(("orders", 2), leaders=(ME, OTHER)))
    desk.order()
    desk.writer.forget(7)
    assert not desk.brokers.wanted[0]()
    desk.brokers.answer()
    assert desk.told == [("t", [A])]
