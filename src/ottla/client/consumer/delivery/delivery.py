"""Delivers fetched records to the application, and decodes each batch when its turn comes."""

from __future__ import annotations

from bisect import bisect_left
from operator import attrgetter

from ottla.client.consumer.delivery.record_decoder import Decoded, RecordDecoder
from ottla.client.consumer.fetching.buffer import FetchBuffer, FetchedBatch
from ottla.client.consumer.partition_state import PartitionState
from ottla.client.consumer.subscriptions import Subscriptions
from ottla.client.values import AnyRecord, TopicPartition
from ottla.counters import MetricRegistry
from ottla.records.errors import InvalidBatch

_offset = attrgetter("offset")


class Chunk:
    """Consecutive records of one partition, at least one."""

    __slots__ = ("batch", "next_offset", "records", "state", "version")

    def __init__(
        self, state: PartitionState, batch: FetchedBatch, records: list[AnyRecord], next_offset: int
    ) -> None:
        self.state = state
        self.version = state.version
        self.batch = batch
        self.records = records
        self.next_offset = next_offset

    @property
    def is_valid(self) -> bool:
        """True if its records may still be delivered: no seek, pause or revocation has happened."""
        return self.version == self.state.version and not self.state.paused


class Delivery:
    def __init__(
        self,
        buffer: FetchBuffer,
        subscriptions: Subscriptions,
        decoder: RecordDecoder,
        metrics: MetricRegistry,
    ) -> None:
        self._buffer = buffer
        self._subscriptions = subscriptions
        self._decoder = decoder
        # The decoded batch that is being delivered: others follow only when it is finished.
        self._data: memoryview | None = None
        self._decoded = Decoded([])
        self._records = metrics.counter("records-consumed-total")
        self._bytes = metrics.counter("bytes-consumed-total")

    def next_chunk(self, limit: int, *, keep_errors: bool = False) -> Chunk | None:
        """Return the next records. They count as delivered only after `hand_out` or `finish`.

        Raises `PartitionUnreadable` if that is next; with `keep_errors` returns None instead.
        """
        while (batch := self._buffer.peek(keep_errors=keep_errors)) is not None:
            state = self._subscriptions.states[batch.partition]
            if batch.data is not self._data and not self._open(state, batch):
                continue
            chunk = self._cut(state, batch, limit)
            if chunk is not None:
                return chunk
        return None

    def poll(self, limit: int) -> dict[TopicPartition, list[AnyRecord]]:
        """Deliver up to `limit` records, from the partitions in turn."""
        found: dict[TopicPartition, list[AnyRecord]] = {}
        left = limit
        while left > 0 and (chunk := self.next_chunk(left, keep_errors=bool(found))) is not None:
            self.hand_out(chunk)
            left -= len(chunk.records)
            earlier = found.get(chunk.batch.partition)
            if earlier is None:
                found[chunk.batch.partition] = chunk.records
            else:
                earlier += chunk.records
        return found

    def take_batches(self, bytes_max: int) -> list[FetchedBatch]:
        """Deliver unopened batches, from the partitions in turn."""
        taken = self._buffer.take_batches(bytes_max)
        self._records.add(sum(batch.header.record_count for batch in taken))
        self._bytes.add(sum(len(batch.data) for batch in taken))
        return taken

    def hand_out(self, chunk: Chunk) -> None:
        """Deliver all records of a chunk; they count as consumed at the application's next call."""
        self._records.add(len(chunk.records))
        self._buffer.advance(chunk.batch, chunk.next_offset)

    def finish(self, chunk: Chunk) -> None:
        """Note that all records of a chunk were delivered one by one, and count as consumed."""
        self._records.add(len(chunk.records))
        self._buffer.advance(chunk.batch, chunk.next_offset, is_done=True)

    def _open(self, state: PartitionState, batch: FetchedBatch) -> bool:
        try:
            self._decoded = self._decoder.decode(batch)
        except InvalidBatch as error:
            self._buffer.damaged(state, error, batch.header.next_offset)
            return False
        self._data = batch.data
        self._bytes.add(len(batch.data))
        return True

    def _cut(self, state: PartitionState, batch: FetchedBatch, limit: int) -> Chunk | None:
        """Return the next records of the open batch, from the position on; None if there are none
        left, or after an error."""
        records, failure = self._decoded
        start = bisect_left(records, batch.from_offset, key=_offset)
        stop = start + limit
        if stop < len(records):
            return Chunk(state, batch, records[start:stop], records[stop].offset)
        behind = batch.header.next_offset if failure is None else failure.offset
        if start < len(records):
            rest = records[start:] if start else list(records)
            return Chunk(state, batch, rest, behind)
        self._data = None
        if failure is None:
            self._buffer.advance(batch, behind, is_done=True)
        else:
            state.advance(failure.offset, state.offset_epoch)
            self._buffer.fail(state, failure)
        return None
