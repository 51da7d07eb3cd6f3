"""From the buffer into the application's hands: a batch is decoded when its turn comes."""

from __future__ import annotations

from bisect import bisect_left
from operator import attrgetter

from ottla.client.consumer.fetch_buffer import FetchBuffer, FetchedBatch
from ottla.client.consumer.partition_state import PartitionState
from ottla.client.consumer.record_decoder import Decoded, RecordDecoder
from ottla.client.consumer.subscriptions import Subscriptions
from ottla.client.metrics import Metrics
from ottla.client.values import AnyRecord, TopicPartition
from ottla.records.errors import InvalidBatch

_offset = attrgetter("offset")


class Chunk:
    """Records of one partition that follow each other, at least one."""

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
        """Whether its records may still be handed out: nobody has sought, paused or revoked."""
        return self.version == self.state.version and not self.state.paused


class Delivery:
    def __init__(
        self,
        buffer: FetchBuffer,
        subscriptions: Subscriptions,
        decoder: RecordDecoder,
        metrics: Metrics,
    ) -> None:
        self._buffer = buffer
        self._subscriptions = subscriptions
        self._decoder = decoder
        # The batch that is being handed out, decoded: others follow only when it is over.
        self._data: memoryview | None = None
        self._decoded = Decoded([])
        self._records = metrics.counter("records-consumed-total")
        self._bytes = metrics.counter("bytes-consumed-total")

    def next_chunk(self, limit: int, *, keep_errors: bool = False) -> Chunk | None:
        """The records whose turn it is; they count as handed out only with `hand_out` or `finish`.

        Raises `PartitionUnreadable` where that is what is next; with `keep_errors` that is None.
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
        """Up to `limit` records of the partitions in turn; they are in the application's hands."""
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
        """The batches in turn, unopened; they are in the application's hands."""
        taken = self._buffer.take_batches(bytes_max)
        self._records.add(sum(batch.header.record_count for batch in taken))
        self._bytes.add(sum(len(batch.data) for batch in taken))
        return taken

    def hand_out(self, chunk: Chunk) -> None:
        """The application gets all of it, and is done with it when it comes back."""
        self._records.add(len(chunk.records))
        self._buffer.advance(chunk.batch, chunk.next_offset)

    def finish(self, chunk: Chunk) -> None:
        """The application has got all of it one by one, and is done with it."""
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
        """Of the open batch, from the position on; None if there is nothing, or an error."""
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
