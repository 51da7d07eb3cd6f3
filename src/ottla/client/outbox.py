"""Records on their way out: gathered into batches, in order, one queue a partition."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from ottla.buffers import Buffer
from ottla.records.builder import build_batch
from ottla.records.codec import Codec
from ottla.records.record import Headers, Record

RECORD_OVERHEAD_BYTES = 24
"""About what a record costs beside its key, value and headers; used to size batches only."""

_SEQUENCE_MODULUS = 1 << 31


@dataclass(frozen=True, slots=True)
class Identity:
    """What makes a producer idempotent: the broker tells its batches and their order apart."""

    producer_id: int = -1
    epoch: int = -1

    @property
    def known(self) -> bool:
        return self.producer_id >= 0


Build = Callable[[Identity, int], Buffer]
"""From the producer's identity and the first sequence to the bytes of the batch."""


class Batch:
    """One batch from the moment it is closed until the broker has it."""

    __slots__ = ("build", "closed_at", "count", "data", "order", "partition", "sequence", "size")

    def __init__(
        self, partition: int, count: int, size: int, build: Build, closed_at: float
    ) -> None:
        self.partition = partition
        self.count = count
        self.size = size
        self.build = build
        self.closed_at = closed_at
        self.order = -1
        self.sequence = -1
        self.data: Buffer | None = None


def record_size(key: bytes | None, value: bytes | None, headers: Headers) -> int:
    size = RECORD_OVERHEAD_BYTES + len(key or b"") + len(value or b"")
    for name, content in headers:
        size += len(name) + len(content or b"") + 4
    return size


class PartitionQueue:
    """Batches of one partition, in order through failures: nothing overtakes a failed batch."""

    __slots__ = (
        "_failed",
        "_known_to_broker",
        "_next_order",
        "_next_sequence",
        "_open",
        "_open_size",
        "_opened_at",
        "codec",
        "in_flight",
        "level",
        "partition",
        "ready",
    )

    def __init__(self, partition: int, codec: Codec, level: int | None) -> None:
        self.partition = partition
        self.codec = codec
        self.level = level
        self.ready: deque[Batch] = deque()
        self.in_flight = 0
        self._open: list[Record] = []
        self._open_size = 0
        self._opened_at = 0.0
        self._failed: list[Batch] = []
        self._known_to_broker = False
        self._next_sequence = 0
        self._next_order = 0

    @property
    def open_size(self) -> int:
        return self._open_size

    def add(self, record: Record, size: int, now: float) -> bool:
        """Gather a record; True if it opened a batch."""
        opened = not self._open
        if opened:
            self._opened_at = now
        self._open.append(record._replace(offset=len(self._open)))
        self._open_size += size
        return opened

    def close_open(self, now: float) -> None:
        if not self._open:
            return
        records, codec, level = self._open, self.codec, self.level

        def build(identity: Identity, sequence: int) -> Buffer:
            return build_batch(
                records,
                codec=codec,
                level=level,
                producer_id=identity.producer_id,
                producer_epoch=identity.epoch,
                base_sequence=sequence,
            )

        self.append(Batch(self.partition, len(records), self._open_size, build, now))
        self._open = []
        self._open_size = 0

    def close_if_due(self, now: float, linger_s: float) -> None:
        if self._open and now - self._opened_at >= linger_s:
            self.close_open(now)

    def append(self, batch: Batch) -> None:
        batch.order = self._next_order
        self._next_order += 1
        self.ready.append(batch)

    def take(self, identity: Identity, in_flight_max: int) -> Batch | None:
        """The next batch to send with its bytes, unless the partition must wait.

        The first batch goes alone: a broker that has nothing of this producer yet would take the
        second one after refusing the first.
        """
        limit = in_flight_max if self._known_to_broker else 1
        if not self.ready or self._failed or self.in_flight >= limit:
            return None
        batch = self.ready.popleft()
        if batch.data is None:
            if identity.known:
                batch.sequence = self._next_sequence
                self._next_sequence = (batch.sequence + batch.count) % _SEQUENCE_MODULUS
            batch.data = batch.build(identity, batch.sequence)
        self.in_flight += 1
        return batch

    def delivered(self) -> None:
        self.in_flight -= 1
        self._known_to_broker = True

    def failed(self, batch: Batch) -> None:
        """Hold everything back until all that is under way has come home, then resend in order."""
        self.in_flight -= 1
        self._failed.append(batch)

    @property
    def is_recovering(self) -> bool:
        return bool(self._failed)

    @property
    def oldest_failed_at(self) -> float | None:
        return min((batch.closed_at for batch in self._failed), default=None)

    def resume(self) -> None:
        if self._failed and self.in_flight == 0:
            self._failed.sort(key=lambda batch: batch.order)
            self.ready.extendleft(reversed(self._failed))
            self._failed.clear()
