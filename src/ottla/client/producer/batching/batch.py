"""A batch of records: gathered, sealed, sent, perhaps retried, until it has an outcome.

A batch is one object for all its records: a record gets a future only if a caller waits for it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import NamedTuple

from ottla.client.producer.sending.identity import NOBODY, Identity
from ottla.client.values import RecordMetadata, TopicPartition
from ottla.records.builder import restamp, seal_payload
from ottla.records.codec import Codec
from ottla.records.engine import PayloadWriter

log = logging.getLogger("ottla.client")

NO_OFFSET = -1
NO_SEQUENCE = -1
Order = tuple[int, ...]
OnDelivery = Callable[[RecordMetadata | None, Exception | None], object]


class Observer(NamedTuple):
    """A callback for the outcome of a record."""

    place: int
    """The index of the record in the batch."""
    timestamp: int
    call: OnDelivery


class ProducerBatch:
    """The records of one partition, in the order they were given."""

    __slots__ = (
        "append_time",
        "attempts",
        "base_offset",
        "count",
        "created_at",
        "data",
        "done",
        "due_at",
        "error",
        "identity",
        "memory",
        "observers",
        "order",
        "parent",
        "partition",
        "parts",
        "record_errors",
        "seen",
        "sequence",
        "trouble",
        "waiters",
        "writer",
    )

    def __init__(
        self, partition: TopicPartition, order: Order, created_at: float, due_at: float
    ) -> None:
        self.partition = partition
        self.order = order
        """Its position in the queue of its partition; the parts of a split batch lie within it."""
        self.created_at = created_at
        self.due_at = due_at
        """When it is sent even if it is not full."""
        self.writer: PayloadWriter | None = PayloadWriter()
        self.count = 0
        """The number of records; known once it is closed."""
        self.memory = 0
        """Its share of `buffer_memory`."""
        self.data: bytearray | None = None
        self.identity: Identity = NOBODY
        self.sequence = NO_SEQUENCE
        self.attempts = 0
        self.trouble: Exception | None = None
        """The error of the last attempt."""
        self.done = False
        self.base_offset = NO_OFFSET
        self.append_time = -1
        self.error: Exception | None = None
        self.record_errors: dict[int, Exception] | None = None
        self.observers: list[Observer] | None = None
        self.waiters: list[asyncio.Future[None]] | None = None
        self.seen: set[int] | None = None
        """Records whose outcome the application asks for."""
        self.parent: ProducerBatch | None = None
        self.parts: list[ProducerBatch] | None = None

    # Sending

    def close(self) -> None:
        """Accept no more records."""
        if self.writer is not None:
            self.count = self.writer.count

    @property
    def is_stamped(self) -> bool:
        return self.sequence != NO_SEQUENCE

    def stamp(self, identity: Identity, sequence: int) -> None:
        self.identity, self.sequence = identity, sequence
        if self.data is not None:
            restamp(self.data, identity.producer_id, identity.epoch, sequence)

    def unstamp(self) -> None:
        self.sequence = NO_SEQUENCE

    def sealed(self, codec: Codec, level: int | None, *, transactional: bool) -> bytearray:
        """Return the bytes to send; compressed once, at the first attempt."""
        if self.data is None:
            assert self.writer is not None
            self.data = seal_payload(
                self.writer,
                codec=codec,
                level=level,
                producer_id=self.identity.producer_id,
                producer_epoch=self.identity.epoch,
                base_sequence=self.sequence,
                transactional=transactional,
            )
            self.writer = None
        return self.data

    def adopt_parts(self, parts: list[ProducerBatch]) -> None:
        """Pass the records on to these smaller batches."""
        self.parts = parts
        start = 0
        for part in parts:
            part.parent = self
            stop = start + part.count
            part.seen = {i - start for i in self.seen or () if start <= i < stop} or None
            part.observers = [
                observer._replace(place=observer.place - start)
                for observer in self.observers or ()
                if start <= observer.place < stop
            ] or None
            start = stop
        self.data = self.writer = self.observers = None
        self._wake()

    # Outcomes

    def complete(self, base_offset: int, append_time: int = -1) -> None:
        self.base_offset, self.append_time = base_offset, append_time
        self._finish()

    def fail(self, error: Exception, record_errors: dict[int, Exception] | None = None) -> None:
        """Fail the batch. `record_errors` are those of single records; the others get `error`."""
        self.error, self.record_errors = error, record_errors
        self._finish()

    def outcome(self, index: int, timestamp: int) -> RecordMetadata | Exception:
        """Return the outcome of a record, once the batch is done."""
        if self.error is not None:
            return (self.record_errors or {}).get(index, self.error)
        return RecordMetadata(
            self.partition.topic,
            self.partition.partition,
            NO_OFFSET if self.base_offset == NO_OFFSET else self.base_offset + index,
            timestamp if self.append_time == -1 else self.append_time,
        )

    def where(self, index: int) -> tuple[ProducerBatch, int]:
        """Return the batch that holds the record now, and the record's index in it."""
        batch = self
        while batch.parts is not None:
            for part in batch.parts:
                if index < part.count:
                    batch = part
                    break
                index -= part.count
        return batch, index

    def leaves(self) -> list[ProducerBatch]:
        """Return the batches that hold its records now: itself, unless it was split."""
        if self.parts is None:
            return [self]
        return [leaf for part in self.parts for leaf in part.leaves()]

    def observe(self, observer: Observer) -> None:
        if self.observers is None:
            self.observers = []
        self.observers.append(observer)

    def mark_seen(self, index: int) -> None:
        if self.seen is None:
            self.seen = set()
        self.seen.add(index)

    @property
    def has_unseen(self) -> bool:
        return len(self.seen or ()) < self.count

    def change(self) -> asyncio.Future[None]:
        """Return a future that is done when the batch is done or split. Each caller gets its own,
        so that cancelling one does not affect others."""
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        if self.waiters is None:
            self.waiters = []
        self.waiters.append(waiter)
        return waiter

    async def finished(self) -> None:
        while not self.done:
            await self.change()

    def _finish(self) -> None:
        self.done = True
        self.data = self.writer = None
        self._call_observers()
        self._wake()
        if self.parent is not None and all(part.done for part in self.parent.parts or ()):
            self.parent._finish()

    def _call_observers(self) -> None:
        observers, self.observers = self.observers, None
        for index, timestamp, call in observers or ():
            outcome = self.outcome(index, timestamp)
            try:
                if isinstance(outcome, Exception):
                    call(None, outcome)
                else:
                    call(outcome, None)
            except Exception:
                log.exception("a delivery callback for %s failed", self.partition)

    def _wake(self) -> None:
        waiters, self.waiters = self.waiters, None
        for waiter in waiters or ():
            if not waiter.done():
                waiter.set_result(None)
