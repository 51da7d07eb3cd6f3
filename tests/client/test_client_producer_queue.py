"""The queue of one partition: whatever fails, what is stored is stored once and in order."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from ottla.client.producer.batching.batch import ProducerBatch
from ottla.client.producer.batching.partition_queue import SEQUENCE_MODULUS, PartitionQueue
from ottla.client.producer.sending.identity import NOBODY, Identity
from ottla.client.values import TopicPartition

WHERE = TopicPartition("t", 0)
SOMEBODY = Identity(7, 0)
IN_FLIGHT_MAX = 5


def add(queue: PartitionQueue, count: int = 1) -> ProducerBatch:
    batch = queue.open(0.0, 0.0)
    assert batch.writer is not None
    for _ in range(count):
        batch.writer.append(5, None, b"x")
    queue.close()
    return batch


def taken(queue: PartitionQueue, wire: object = "wire", limit: int = 5) -> ProducerBatch:
    batch = queue.take(SOMEBODY, wire, limit)
    assert batch is not None
    return batch


def introduced() -> PartitionQueue:
    """A queue whose first batch has arrived."""
    queue = PartitionQueue(WHERE)
    add(queue)
    queue.delivered(taken(queue))
    return queue


def test_batches_are_numbered_one_after_the_other() -> None:
    queue = introduced()
    for count in (3, 2, 1):
        add(queue, count)
    batches = [taken(queue) for _ in range(3)]
    assert [batch.sequence for batch in batches] == [1, 4, 6]
    assert {batch.identity for batch in batches} == {SOMEBODY}


def test_the_first_batch_of_a_partition_goes_alone() -> None:
    queue = PartitionQueue(WHERE)
    add(queue)
    add(queue)
    first = taken(queue)
    assert queue.take(SOMEBODY, "wire", 5) is None
    queue.delivered(first)
    assert taken(queue).sequence == 1


def test_a_batch_that_still_gathers_is_taken_when_nothing_else_waits() -> None:
    queue = introduced()
    batch = queue.open(0.0, 5.0)
    assert batch.writer is not None
    batch.writer.append(5, None, b"x")
    assert not queue.has_work(4.9)
    assert queue.has_work(5.0)
    assert taken(queue) is batch
    assert queue.gathering is None
    assert queue.take(SOMEBODY, "wire", 5) is None


def test_no_more_batches_than_allowed_are_under_way() -> None:
    queue = introduced()
    for _ in range(3):
        add(queue)
    taken(queue, limit=2)
    taken(queue, limit=2)
    assert queue.take(SOMEBODY, "wire", 2) is None


def test_a_partition_uses_one_connection_at_a_time() -> None:
    queue = introduced()
    add(queue)
    add(queue)
    first = taken(queue, "old")
    assert queue.take(SOMEBODY, "new", 5) is None
    queue.came_back(first)
    assert [taken(queue, "new").sequence for _ in range(2)] == [1, 2]


def test_after_a_failure_everything_comes_back_and_is_sent_again_in_order() -> None:
    queue = introduced()
    for _ in range(4):
        add(queue)
    first, second, third = (taken(queue) for _ in range(3))
    queue.came_back(first)
    assert queue.take(SOMEBODY, "wire", 5) is None, "two are still under way"
    queue.came_back(second)
    queue.came_back(third)
    again = [taken(queue) for _ in range(4)]
    assert again[:3] == [first, second, third]
    assert [batch.sequence for batch in again] == [1, 2, 3, 4]


def test_what_is_out_of_order_behind_a_failed_batch_is_only_a_consequence() -> None:
    queue = introduced()
    add(queue)
    add(queue)
    first, second = taken(queue), taken(queue)
    assert not queue.is_consequence(first)
    queue.came_back(first)
    assert queue.is_consequence(second)


def test_a_refused_batch_makes_the_partition_start_anew_with_the_next_identity() -> None:
    queue = introduced()
    for _ in range(3):
        add(queue)
    first, second = taken(queue), taken(queue)
    queue.refused(first)
    queue.came_back(second)
    assert queue.wants_new_start
    assert queue.take(SOMEBODY, "wire", 5) is None
    queue.start_anew()
    newer = Identity(7, 1)
    assert queue.take(newer, "wire", 5) is second
    assert (second.identity, second.sequence) == (newer, 0)
    assert queue.take(newer, "wire", 5) is None, "the first of an identity goes alone"


def test_what_comes_before_a_refused_batch_keeps_its_numbers() -> None:
    """It may be in the log: only its answer was lost."""
    queue = introduced()
    for _ in range(3):
        add(queue)
    first, second, third = (taken(queue) for _ in range(3))
    queue.came_back(first)
    queue.refused(second)
    queue.came_back(third)
    assert not queue.wants_new_start
    assert taken(queue) is first
    assert first.sequence == 1
    assert queue.take(SOMEBODY, "wire", 5) is None, "the rest waits for a new start"
    queue.delivered(first)
    assert queue.wants_new_start
    queue.start_anew()
    assert queue.take(Identity(7, 1), "wire", 5) is third
    assert third.sequence == 0


def test_a_batch_that_expired_before_it_was_sent_leaves_no_hole() -> None:
    queue = introduced()
    batch = add(queue)
    batch.fail(TimeoutError())
    queue.give_up(batch)
    assert not queue.wants_new_start
    assert queue.peek() is None


def test_an_expired_batch_that_others_follow_leaves_the_judgement_to_the_broker() -> None:
    queue = introduced()
    add(queue)
    add(queue)
    first, second = taken(queue), taken(queue)
    queue.came_back(first)
    queue.came_back(second)
    first.fail(TimeoutError())
    queue.give_up(first)
    assert not queue.wants_new_start
    assert taken(queue) is second


def test_an_expired_batch_that_nothing_follows_needs_a_new_start() -> None:
    queue = introduced()
    add(queue)
    first = taken(queue)
    queue.came_back(first)
    first.fail(TimeoutError())
    queue.give_up(first)
    assert queue.wants_new_start


def test_a_batch_that_expired_under_way_is_not_sent_again() -> None:
    queue = introduced()
    add(queue)
    first = taken(queue)
    first.fail(TimeoutError())
    queue.give_up(first)
    assert queue.on_wire == [first]
    queue.came_back(first)
    assert queue.peek() is None
    assert queue.wants_new_start


def test_parts_of_a_batch_take_its_place_and_its_numbers() -> None:
    queue = introduced()
    add(queue, 4)
    add(queue)
    large, following = taken(queue), taken(queue)
    parts = [add(PartitionQueue(WHERE), count) for count in (1, 3)]
    queue.split(large, parts)
    queue.came_back(following)
    again = [taken(queue) for _ in range(3)]
    assert again == [*parts, following]
    assert [batch.sequence for batch in again] == [1, 2, 5]
    queue.came_back(again[0])
    queue.came_back(again[1])
    queue.came_back(again[2])
    assert [taken(queue) for _ in range(3)] == again


def test_dropping_takes_all_that_is_not_under_way() -> None:
    queue = introduced()
    under_way, waiting = add(queue), add(queue)
    taken(queue)
    gathering = queue.open(0.0, 9.0)
    assert queue.drop_unsent() == [waiting, gathering]
    assert queue.on_wire == [under_way]


def test_sequences_wrap_after_the_greatest_32_bit_number() -> None:
    queue = introduced()
    queue.next_sequence = SEQUENCE_MODULUS - 1
    add(queue)
    add(queue)
    assert [taken(queue).sequence, taken(queue).sequence] == [SEQUENCE_MODULUS - 1, 0]


def test_without_an_identity_batches_have_no_numbers() -> None:
    queue = PartitionQueue(WHERE)
    add(queue)
    batch = queue.take(NOBODY, "wire", 1)
    assert batch is not None
    assert not batch.is_stamped
    queue.refused(batch)
    assert not queue.wants_new_start


# Stories


@dataclass
class ModelBroker:
    """Takes batches of one idempotent producer by Kafka's rules, for one partition."""

    log: list[ProducerBatch] = field(default_factory=list)
    epoch: int = -1
    last_sequence: int = -1
    recent: deque[tuple[int, int]] = field(default_factory=lambda: deque(maxlen=5))

    def append(self, batch: ProducerBatch, epoch: int, sequence: int, fault: str | None) -> str:
        if fault is not None:
            return fault
        if epoch < self.epoch:
            return "fenced"
        if epoch == self.epoch and (sequence, batch.count) in self.recent:
            return "delivered"
        if epoch > self.epoch:
            # A broker that knows nothing of the producer takes any number.
            if sequence != 0 and self.epoch != -1:
                return "out of order"
            self.recent.clear()
        elif sequence != (self.last_sequence + 1) % SEQUENCE_MODULUS:
            return "out of order"
        self.epoch = epoch
        self.last_sequence = (sequence + batch.count - 1) % SEQUENCE_MODULUS
        self.recent.append((sequence, batch.count))
        self.log.append(batch)
        return "delivered"


@dataclass
class Letter:
    """A batch as it was when it was sent."""

    batch: ProducerBatch
    epoch: int
    sequence: int


class Wire:
    def __init__(self) -> None:
        self.unread: deque[Letter] = deque()
        self.answers: deque[tuple[Letter, str]] = deque()


class QueueStory(RuleBasedStateMachine):
    """A queue, a broker, and a network that loses answers and delivers late."""

    def __init__(self) -> None:
        super().__init__()
        self.queue = PartitionQueue(WHERE)
        self.broker = ModelBroker()
        self.identity = SOMEBODY
        self.wire = Wire()
        self.deposed: list[Wire] = []
        self.lost: list[Wire] = []
        self.faults: dict[ProducerBatch, str] = {}
        self.delivered: list[ProducerBatch] = []
        self.refused: list[ProducerBatch] = []
        self.open: list[ProducerBatch] = []

    @initialize(near_the_wrap=st.booleans())
    def begin(self, near_the_wrap: bool) -> None:
        if near_the_wrap:
            self.gather(1, None)
            self.send()
            self.read(False)
            self.answer()
            self.queue.next_sequence = SEQUENCE_MODULUS - 4
            self.broker.last_sequence = SEQUENCE_MODULUS - 5
            self.broker.recent.clear()

    @rule(
        count=st.integers(1, 3),
        fault=st.sampled_from([None, None, None, "refused", "too large"]),
    )
    def gather(self, count: int, fault: str | None) -> None:
        """A fault is one of the batch itself: the broker finds it whenever it reads the batch."""
        batch = add(self.queue, count)
        self.open.append(batch)
        if fault is not None:
            self.faults[batch] = fault

    @rule()
    def send(self) -> None:
        if self.queue.wants_new_start and not self.queue.on_wire:
            if self.queue.identity == self.identity:
                self.identity = Identity(7, self.identity.epoch + 1)
            self.queue.start_anew()
        batch = self.queue.take(self.identity, self.wire, IN_FLIGHT_MAX)
        if batch is not None:
            assert not batch.done
            self.wire.unread.append(Letter(batch, batch.identity.epoch, batch.sequence))

    @precondition(lambda self: self.wire.unread)
    @rule(in_trouble=st.booleans())
    def read(self, in_trouble: bool) -> None:
        """The broker comes to the next request; in trouble it takes nothing, for now."""
        letter = self.wire.unread.popleft()
        self.wire.answers.append((letter, "later" if in_trouble else self.judged(letter)))

    def judged(self, letter: Letter) -> str:
        fault = self.faults.get(letter.batch)
        return self.broker.append(letter.batch, letter.epoch, letter.sequence, fault)

    @precondition(lambda self: self.wire.answers)
    @rule()
    def answer(self) -> None:
        self.settle(*self.wire.answers.popleft())

    def settle(self, letter: Letter, verdict: str) -> None:
        batch = letter.batch
        if verdict == "delivered":
            self.queue.delivered(batch)
            if not batch.done:
                batch.complete(0)
                self.delivered.append(batch)
                self.open.remove(batch)
        elif verdict == "later":
            self.queue.came_back(batch)
        elif verdict == "out of order":
            if not self.queue.is_consequence(batch):
                self.queue.mark_hole(batch)
            self.queue.came_back(batch)
        elif verdict == "too large" and batch.count > 1 and not batch.done:
            parts = [add(PartitionQueue(WHERE)) for _ in range(batch.count)]
            self.queue.split(batch, parts)
            batch.adopt_parts(parts)
            place = self.open.index(batch)
            self.open[place : place + 1] = parts
        else:
            self.queue.refused(batch)
            if not batch.done:
                batch.fail(ValueError(verdict))
                self.refused.append(batch)
                self.open.remove(batch)

    @precondition(lambda self: self.wire.unread or self.wire.answers)
    @rule()
    def cut(self) -> None:
        """Answers get lost; what the broker has not read yet it may read much later."""
        old, self.wire = self.wire, Wire()
        self.lost.append(old)
        for letter, _ in old.answers:
            self.queue.came_back(letter.batch)
        for letter in old.unread:
            self.queue.came_back(letter.batch)

    @precondition(lambda self: self.wire.unread or self.wire.answers)
    @rule()
    def move(self) -> None:
        """Another broker leads, with the same log; the old one answers when it comes to it."""
        self.deposed.append(self.wire)
        self.wire = Wire()

    @precondition(lambda self: self.deposed)
    @rule()
    def answer_of_the_deposed(self) -> None:
        old = self.deposed[0]
        if old.answers:
            self.settle(*old.answers.popleft())
        elif old.unread:
            self.settle(old.unread.popleft(), "later")
        else:
            self.deposed.pop(0)

    @precondition(lambda self: any(wire.unread for wire in self.lost))
    @rule()
    def read_late(self) -> None:
        wire = next(wire for wire in self.lost if wire.unread)
        self.judged(wire.unread.popleft())

    @precondition(lambda self: self.open)
    @rule()
    def expire(self) -> None:
        oldest = self.open.pop(0)
        oldest.fail(TimeoutError())
        self.queue.give_up(oldest)

    @invariant()
    def stored_once_and_in_order(self) -> None:
        orders = [batch.order for batch in self.broker.log]
        assert orders == sorted(set(orders))

    @invariant()
    def told_the_truth(self) -> None:
        log = set(self.broker.log)
        assert all(batch in log for batch in self.delivered)
        assert not any(batch in log for batch in self.refused)

    def teardown(self) -> None:
        """When the trouble ends, everything left has an outcome soon."""
        for _ in range(20 * (len(self.open) + 5)):
            self.send()
            if self.wire.unread:
                self.read(False)
            elif self.wire.answers:
                self.answer()
            if self.deposed:
                self.answer_of_the_deposed()
        assert not self.open
        self.stored_once_and_in_order()
        self.told_the_truth()


@pytest.mark.parametrize("steps", [30, 100])
def test_whatever_fails_batches_are_stored_once_and_in_order(steps: int) -> None:
    run_state_machine_as_test(
        QueueStory,
        settings=settings(max_examples=250, stateful_step_count=steps, deadline=None),
    )
