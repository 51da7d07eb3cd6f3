"""The batches of one partition, in order through failures. Nothing here waits, sends or tells time.

    gathering   the batch that takes records; last in order
    waiting     closed, first to go first; those sent before come first
    on_wire     in requests that are not answered yet

What keeps the order of a producer that has an identity:

- A partition's batches are under way over one connection at a time, so their answers come in the
  order in which they were sent.
- After a failure nothing more is sent until everything under way has come back; then all of it goes
  out again in order, under the same sequence numbers. The broker takes each once.
- The first batch of an identity goes alone. A broker that knows nothing of a producer takes any
  number as its first, so it would take the second batch though it refused the first.
- A batch that is given up may leave a hole in the numbers. The broker is the judge: it refuses what
  comes behind a hole as out of order, and then none of it can be in the log. What comes before the
  hole is sent first, under the numbers it has. Then the partition starts anew
  (`wants_new_start`): a new epoch, from number 0, nothing stored twice.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

from ottla.client.producer.batch import Order, ProducerBatch
from ottla.client.producer.identity import NOBODY, Identity
from ottla.client.values import TopicPartition

SEQUENCE_MODULUS = 1 << 31
NO_LEADER = -1


class PartitionQueue:
    __slots__ = (
        "_hole",
        "_introduced",
        "_next_order",
        "_recovering",
        "_wire",
        "gathering",
        "identity",
        "leader",
        "next_sequence",
        "on_wire",
        "partition",
        "resting",
        "waiting",
    )

    def __init__(self, partition: TopicPartition) -> None:
        self.partition = partition
        self.leader = NO_LEADER
        """The broker to send to, kept by whoever reads metadata."""
        self.resting = False
        """Pausing after a failure, kept by the sender."""
        self.gathering: ProducerBatch | None = None
        self.waiting: deque[ProducerBatch] = deque()
        self.on_wire: list[ProducerBatch] = []
        self.identity: Identity = NOBODY
        """As whom the last number was given."""
        self.next_sequence = 0
        self._hole: Order | None = None
        """From here on the numbers are of no use."""
        self._introduced = False
        self._recovering = False
        self._wire: object = None
        self._next_order = 0

    # Gathering

    def open(self, now: float, due_at: float) -> ProducerBatch:
        """A new batch at the end, which takes records until it is closed."""
        assert self.gathering is None
        self.gathering = batch = ProducerBatch(self.partition, self._new_order(), now, due_at)
        return batch

    def close(self) -> ProducerBatch | None:
        """The gathering batch takes no more records and waits to be sent."""
        batch = self.gathering
        if batch is not None:
            batch.close()
            self.gathering = None
            self.waiting.append(batch)
        return batch

    def add(self, batch: ProducerBatch) -> None:
        """A batch that was built elsewhere."""
        self.close()
        batch.order = self._new_order()
        self.waiting.append(batch)

    def _new_order(self) -> Order:
        self._next_order += 1
        return (self._next_order,)

    # Sending

    def has_work(self, now: float) -> bool:
        """Whether there is something to send by now, if nothing stands in the way."""
        return bool(self.waiting) or (self.gathering is not None and self.gathering.due_at <= now)

    @property
    def wants_new_start(self) -> bool:
        """Whether a new epoch is needed before more is sent, once nothing is under way."""
        if self._hole is None:
            return False
        first = self.waiting[0] if self.waiting else None
        return first is None or not first.is_stamped or first.order >= self._hole

    def mark_hole(self, batch: ProducerBatch) -> None:
        """The batch is missing in the log, or what comes before it."""
        if self._hole is None or batch.order < self._hole:
            self._hole = batch.order

    def must_wait(self, wire: object, in_flight_max: int) -> bool:
        """Whether what is under way has to come back before more is sent over `wire`."""
        if not self.on_wire:
            return False
        alone = self.identity.known and not self._introduced
        at_limit = len(self.on_wire) >= in_flight_max
        return alone or at_limit or self._recovering or self._wire is not wire

    def peek(self) -> ProducerBatch | None:
        return self.waiting[0] if self.waiting else self.gathering

    def take(self, identity: Identity, wire: object, in_flight_max: int) -> ProducerBatch | None:
        """The next batch, stamped, from now on under way; None if the partition must wait."""
        if self.wants_new_start or self.must_wait(wire, in_flight_max):
            return None
        if not self.waiting and self.close() is None:
            return None
        batch = self.waiting[0]
        if identity.known and not batch.is_stamped and not self._stamp(batch, identity):
            return None
        self.waiting.popleft()
        self.on_wire.append(batch)
        self._wire = wire
        batch.attempts += 1
        return batch

    def _stamp(self, batch: ProducerBatch, identity: Identity) -> bool:
        if identity != self.identity:
            if self.on_wire:
                return False  # what went out under the old identity has to come back first
            self.identity, self.next_sequence, self._introduced = identity, 0, False
        batch.stamp(identity, self.next_sequence)
        self.next_sequence = (self.next_sequence + batch.count) % SEQUENCE_MODULUS
        return True

    # Answers

    def delivered(self, batch: ProducerBatch) -> None:
        self._landed(batch)
        if batch.identity == self.identity:
            self._introduced = True

    def refused(self, batch: ProducerBatch) -> None:
        """The broker will never take it, and has told so."""
        self._landed(batch)
        if batch.is_stamped:
            self.mark_hole(batch)

    def came_back(self, batch: ProducerBatch) -> None:
        """Not taken, as far as is known: send it again. One that was given up meanwhile is not."""
        self._landed(batch)
        if batch.done:
            self._given_up(batch)
        else:
            self._recovering = bool(self.on_wire)
            self._insert([batch])

    def is_consequence(self, batch: ProducerBatch) -> bool:
        """Whether the broker found the batch out of order only because an earlier one failed, which
        is sent again before it. If not, there is a hole before this one."""
        first = self.waiting[0] if self.waiting else None
        return first is not None and first.is_stamped and first.order < batch.order

    def split(self, batch: ProducerBatch, parts: list[ProducerBatch]) -> None:
        """Smaller batches in the place of one that was too large, under the same numbers."""
        self._landed(batch)
        sequence = batch.sequence
        for number, part in enumerate(parts):
            part.order = (*batch.order, number)
            if batch.is_stamped:
                part.stamp(batch.identity, sequence)
                sequence = (sequence + part.count) % SEQUENCE_MODULUS
        self._recovering = bool(self.on_wire)
        self._insert(parts)

    def _landed(self, batch: ProducerBatch) -> None:
        self.on_wire.remove(batch)
        if not self.on_wire:
            self._recovering = False

    def _insert(self, batches: Iterable[ProducerBatch]) -> None:
        """Into their places among those that came back before."""
        for batch in batches:
            place = 0
            while place < len(self.waiting) and self.waiting[place].order < batch.order:
                place += 1
            self.waiting.insert(place, batch)

    # Giving up

    def give_up(self, batch: ProducerBatch) -> None:
        """The batch has failed: take it out of the queue. One that is under way stays there until
        its answer comes, because the order of others depends on it."""
        if batch is self.gathering:
            batch.close()
            self.gathering = None
        elif batch in self.waiting:
            self.waiting.remove(batch)
            self._given_up(batch)

    def _given_up(self, batch: ProducerBatch) -> None:
        """If numbered batches follow, the broker will tell by them whether there is a hole."""
        followed = bool(self.on_wire) or (bool(self.waiting) and self.waiting[0].is_stamped)
        if batch.is_stamped and batch.identity == self.identity and not followed:
            self.mark_hole(batch)

    def drop_unsent(self) -> list[ProducerBatch]:
        """Take out everything that is not under way."""
        self.close()
        dropped = list(self.waiting)
        self.waiting.clear()
        for batch in dropped:
            self._given_up(batch)
        return dropped

    # A new start

    def start_anew(self) -> None:
        """Number what waits from 0, under the identity of the next `take`. None of it is in the
        log, and nothing is under way."""
        assert not self.on_wire
        for batch in self.waiting:
            batch.unstamp()
        self.forget_sequences()

    def forget_sequences(self) -> None:
        self.identity = NOBODY
        self._hole = None
