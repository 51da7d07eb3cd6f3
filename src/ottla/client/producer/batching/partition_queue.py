"""The batches of one partition, kept in order through failures. Nothing here waits or sends.

    gathering   the batch that takes records; last in order
    waiting     closed batches, oldest first; batches to be retried come first
    on_wire     in requests that have no response yet

For a producer that has an identity, these rules keep the order:

- A partition's batches are sent over one connection at a time, so their responses come in the order
  in which they were sent.
- After a failure nothing more is sent until all pending batches have come back; then all of them
  are sent again in order, with the same sequence numbers. The broker stores each once.
- The first batch of an identity is sent alone. A broker that does not know a producer accepts any
  first sequence number, so it would accept the second batch even if it refused the first.
- A failed batch may leave a gap in the sequence numbers. The broker decides: it refuses the batches
  after a gap as out of order, and then none of them is in the log. Batches before the gap are sent
  first, with the numbers they have. Then the partition starts again (`wants_new_start`) with a new
  epoch and sequence number 0, and nothing is stored twice.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

from ottla.client.producer.batching.batch import Order, ProducerBatch
from ottla.client.producer.sending.identity import NOBODY, Identity
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
        """The broker to send to, set from the metadata."""
        self.resting = False
        """True while it pauses after a failure; set by the sender."""
        self.gathering: ProducerBatch | None = None
        self.waiting: deque[ProducerBatch] = deque()
        self.on_wire: list[ProducerBatch] = []
        self.identity: Identity = NOBODY
        """The identity of the last assigned sequence number."""
        self.next_sequence = 0
        self._hole: Order | None = None
        """The sequence numbers are unusable from this batch on."""
        self._introduced = False
        self._recovering = False
        self._wire: object = None
        self._next_order = 0

    # Gathering

    def open(self, now: float, due_at: float) -> ProducerBatch:
        """Open a new batch at the end, which takes records until it is closed."""
        assert self.gathering is None
        self.gathering = batch = ProducerBatch(self.partition, self._new_order(), now, due_at)
        return batch

    def close(self) -> ProducerBatch | None:
        """Close the gathering batch, which then waits to be sent."""
        batch = self.gathering
        if batch is not None:
            batch.close()
            self.gathering = None
            self.waiting.append(batch)
        return batch

    def add(self, batch: ProducerBatch) -> None:
        """Add a batch that was built elsewhere."""
        self.close()
        batch.order = self._new_order()
        self.waiting.append(batch)

    def _new_order(self) -> Order:
        self._next_order += 1
        return (self._next_order,)

    # Sending

    def has_work(self, now: float) -> bool:
        """Return whether something is due to be sent, regardless of what prevents it."""
        return bool(self.waiting) or (self.gathering is not None and self.gathering.due_at <= now)

    @property
    def wants_new_start(self) -> bool:
        """True if a new epoch is needed before more is sent, once nothing is pending."""
        if self._hole is None:
            return False
        first = self.waiting[0] if self.waiting else None
        return first is None or not first.is_stamped or first.order >= self._hole

    def mark_hole(self, batch: ProducerBatch) -> None:
        """Note that this batch, or one before it, is missing in the log."""
        if self._hole is None or batch.order < self._hole:
            self._hole = batch.order

    def must_wait(self, wire: object, in_flight_max: int) -> bool:
        """Return whether pending batches must come back before more is sent over `wire`."""
        if not self.on_wire:
            return False
        alone = self.identity.known and not self._introduced
        at_limit = len(self.on_wire) >= in_flight_max
        return alone or at_limit or self._recovering or self._wire is not wire

    def peek(self) -> ProducerBatch | None:
        return self.waiting[0] if self.waiting else self.gathering

    def take(self, identity: Identity, wire: object, in_flight_max: int) -> ProducerBatch | None:
        """Return the next batch, stamped and now pending; None if the partition must wait."""
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
                return False  # batches sent with the old identity must come back first
            self.identity, self.next_sequence, self._introduced = identity, 0, False
        batch.stamp(identity, self.next_sequence)
        self.next_sequence = (self.next_sequence + batch.count) % SEQUENCE_MODULUS
        return True

    # Responses

    def delivered(self, batch: ProducerBatch) -> None:
        self._landed(batch)
        if batch.identity == self.identity:
            self._introduced = True

    def refused(self, batch: ProducerBatch) -> None:
        """Remove a batch that the broker has refused for good."""
        self._landed(batch)
        if batch.is_stamped:
            self.mark_hole(batch)

    def came_back(self, batch: ProducerBatch) -> None:
        """Queue a batch for a retry, as it was probably not stored, unless it has failed."""
        self._landed(batch)
        if batch.done:
            self._given_up(batch)
        else:
            self._recovering = bool(self.on_wire)
            self._insert([batch])

    def is_consequence(self, batch: ProducerBatch) -> bool:
        """Return whether the batch is out of order only because an earlier one failed, which is
        retried before it. If not, there is a gap before this one."""
        first = self.waiting[0] if self.waiting else None
        return first is not None and first.is_stamped and first.order < batch.order

    def split(self, batch: ProducerBatch, parts: list[ProducerBatch]) -> None:
        """Replace a batch that was too large by smaller ones, with the same sequence numbers."""
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
        """Insert batches in order among those that came back before."""
        for batch in batches:
            place = 0
            while place < len(self.waiting) and self.waiting[place].order < batch.order:
                place += 1
            self.waiting.insert(place, batch)

    # Failed batches

    def give_up(self, batch: ProducerBatch) -> None:
        """Remove a failed batch from the queue. A pending batch stays until its response comes,
        because the order of others depends on it."""
        if batch is self.gathering:
            batch.close()
            self.gathering = None
        elif batch in self.waiting:
            self.waiting.remove(batch)
            self._given_up(batch)

    def _given_up(self, batch: ProducerBatch) -> None:
        """Mark a gap, unless stamped batches follow: the broker's responses to them will tell."""
        followed = bool(self.on_wire) or (bool(self.waiting) and self.waiting[0].is_stamped)
        if batch.is_stamped and batch.identity == self.identity and not followed:
            self.mark_hole(batch)

    def drop_unsent(self) -> list[ProducerBatch]:
        """Remove all batches that are not pending."""
        self.close()
        dropped = list(self.waiting)
        self.waiting.clear()
        for batch in dropped:
            self._given_up(batch)
        return dropped

    # New start

    def start_anew(self) -> None:
        """Number the waiting batches from 0 again, with the identity of the next `take`. None of
        them is in the log, and nothing is pending."""
        assert not self.on_wire
        for batch in self.waiting:
            batch.unstamp()
        self.forget_sequences()

    def forget_sequences(self) -> None:
        self.identity = NOBODY
        self._hole = None
