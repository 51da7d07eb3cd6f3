"""Reads a range of one partition as Arrow batches: exactly the records in it.

While one answer is decoded and passed to Spark, the next is requested. Memory holds two answers and
an Arrow batch, whatever the range. The size of requests follows from the size of the records so
far, so that little is fetched from after the range.

Offsets without a record (compacted, control records, aborted transactions) are skipped with their
batches. If the broker returns nothing up to the end of the range, though it is readable that far,
compaction has removed the rest: the range is over.
"""

from __future__ import annotations

import concurrent.futures
import time
from collections.abc import Iterator

import pyarrow as pa
import pyarrow.compute as pc

from ottla.client.consumer.fetching.part import FetchedPart
from ottla.protocol.uuids import ZERO_UUID
from ottla.records.codec import Codec
from ottla.records.engine import RecordColumns
from ottla.records.errors import InvalidBatch
from ottla.records.header import HEADER_SIZE, BatchHeader, read_header
from ottla.records.reader import payload_of
from ottla.spark.clients import KeptClients
from ottla.spark.source.columns import ROWS_MAX, RowColumns
from ottla.spark.source.data_loss import report
from ottla.spark.source.fetching import Answer, Asked, OutOfRange, TopicGone
from ottla.spark.source.offsets import EARLIEST, LATEST
from ottla.spark.source.options import SourceOptions
from ottla.spark.source.planning import Range
from ottla.spark.source.source_client import SourceClient
from ottla.spark.workers import task_done

ROWS = 10_000
"""An Arrow batch is passed on when it has this many rows,"""
BATCH_BYTES = 4 << 20
"""or this many bytes of keys and values."""
FETCH_BYTES = 4 << 20
"""The most bytes per request, unless kafka.max.partition.fetch.bytes is set."""
FETCH_BYTES_LEAST = 64 << 10
RECORD_BYTES_GUESS = 1 << 10
"""Assumed before any record has been seen."""
EMPTY_ANSWERS = 3
"""This many in a row show that there is nothing: a single one may come from a slow broker."""

_clients: KeptClients[SourceClient] = KeptClients()


def read_range(
    options: SourceOptions, wanted: Range, topic_id: bytes = ZERO_UUID
) -> Iterator[pa.RecordBatch]:
    key = tuple(sorted((name, str(value)) for name, value in options.client.items()))
    with _clients.borrow(key, lambda: SourceClient(options.client)) as client:
        yield from RangeReader(client, options, wanted, topic_id).batches()
    task_done()


class RangeReader:
    def __init__(
        self, client: SourceClient, options: SourceOptions, wanted: Range, topic_id: bytes
    ) -> None:
        self._client = client
        self._options = options
        self._partition = wanted.partition
        self._position = wanted.start
        self._until = wanted.until
        self._topic_id = topic_id
        self._rows = RowColumns(wanted.partition, headers=options.headers)
        self._columns = RecordColumns(options.headers)
        self._timestamp_type = 0
        self._bytes_each = float(RECORD_BYTES_GUESS)
        self._bytes_max = (
            client.settings.max_partition_fetch_bytes
            if "max_partition_fetch_bytes" in options.client
            else FETCH_BYTES
        )

    def batches(self) -> Iterator[pa.RecordBatch]:
        pending = self._ask(self._position)
        empty_answers = 0
        deadline = self._deadline()
        while self._position < self._until:
            answer = self._answer(pending)
            if answer is not None and answer.records:
                part = self._part(answer)
                pending = self._ask(part.next_offset or self._position)
                yield from self._decoded(part)
                empty_answers, deadline = 0, self._deadline()
                continue
            if answer is not None:
                empty_answers += 1
                if self._is_over(answer, empty_answers, deadline):
                    break
            pending = self._ask(self._position)
        if self._columns.count:
            yield self._taken()

    # Fetching

    def _ask(self, offset: int) -> concurrent.futures.Future[Answer] | None:
        """Request records; None if the range ends before `offset`."""
        if offset >= self._until:
            return None
        asked = Asked(self._partition, offset, self._bytes_for(offset), self._topic_id)
        return self._client.begin_fetch(asked, self._options.poll_timeout_ms / 1000)

    def _bytes_for(self, offset: int) -> int:
        """Return what the rest of the range may need, and a little more."""
        rest = int((self._until - offset) * self._bytes_each * 1.1)
        return min(self._bytes_max, max(FETCH_BYTES_LEAST, rest))

    def _answer(self, pending: concurrent.futures.Future[Answer] | None) -> Answer | None:
        """Return the answer; None if the position has changed."""
        assert pending is not None
        try:
            return pending.result()
        except OutOfRange:
            self._skip_to_what_is_there()
        except TopicGone:
            self._lose(
                f"Topic {self._partition.topic} was deleted before the offsets "
                f"{self._position} to {self._until} of {self._partition} were read."
            )
            self._position = self._until
        return None

    def _skip_to_what_is_there(self) -> None:
        first, last = (
            self._client.offsets({self._partition: place})[self._partition]
            for place in (EARLIEST, LATEST)
        )
        for found in (first, last):
            if isinstance(found, Exception):
                raise found
        assert isinstance(first, int)
        assert isinstance(last, int)
        if first <= self._position <= last:
            return  # it is back, as after a leader election
        goal = min(first, self._until) if self._position < first else self._until
        self._lose(
            f"{self._partition} holds the offsets {first} to {last} now, and {self._position} to "
            f"{goal} could not be read."
        )
        self._position = goal

    def _is_over(self, answer: Answer, empty_answers: int, deadline: float) -> bool:
        """True if nothing can come any more, after an answer without records."""
        if answer.end >= self._until:
            return empty_answers >= EMPTY_ANSWERS
        if time.monotonic() < deadline:
            return False
        self._lose(
            f"{self._partition} can be read up to offset {answer.end}, but the batch goes on to "
            f"{self._until}, and that has not changed for {self._options.poll_timeout_ms} ms "
            "(kafkaConsumer.pollTimeoutMs)."
        )
        return True

    def _deadline(self) -> float:
        return time.monotonic() + self._options.poll_timeout_ms / 1000

    def _lose(self, reason: str) -> None:
        report(reason, fails=self._options.fail_on_data_loss)

    # Decoding

    def _part(self, answer: Answer) -> FetchedPart:
        records = answer.records
        part = FetchedPart(records, answer.aborted, check_crcs=self._client.settings.check_crcs)
        if part.next_offset is not None:
            offsets = part.next_offset - read_header(records).base_offset
            self._bytes_each = part.size / max(1, offsets)
        return part

    def _decoded(self, part: FetchedPart) -> Iterator[pa.RecordBatch]:
        while self._position < self._until and not part.is_over:
            found = self._front(part)
            behind = part.behind_front()
            if found is None:
                self._position = max(self._position, behind or 0)
            else:
                yield from self._added(*found)
                self._position = max(self._position, found[0].next_offset)
            part.step()

    def _front(self, part: FetchedPart) -> tuple[BatchHeader, memoryview] | None:
        try:
            return part.front(self._position)
        except InvalidBatch as error:
            raise self._unreadable(error) from error

    def _added(self, header: BatchHeader, batch: memoryview) -> Iterator[pa.RecordBatch]:
        """Add the batch's records to the columns; yield columns that are full."""
        kind = int(header.is_log_append_time)
        if kind != self._timestamp_type:
            if self._columns.count:
                yield self._taken()
            self._timestamp_type = kind
        is_plain = header.codec is Codec.NONE
        try:
            payload = batch[HEADER_SIZE : header.size] if is_plain else payload_of(header, batch)
            while not self._add(header, payload):
                yield self._taken()
        except InvalidBatch as error:
            raise self._unreadable(error) from error
        if self._columns.count >= ROWS or self._columns.bytes >= BATCH_BYTES:
            yield self._taken()

    def _add(self, header: BatchHeader, payload: memoryview | bytes) -> bool:
        """Add records; return True if all wanted records of the batch are in the columns."""
        columns = self._columns
        room = ROWS_MAX - columns.count
        columns.add(
            payload,
            header.record_count,
            header.base_offset,
            header.base_timestamp,
            header.max_timestamp if header.is_log_append_time else None,
            self._position,
            min(room, self._until - self._position),
        )
        if columns.complete:
            return True
        self._position = max(self._position, columns.next_offset)
        return self._position >= self._until

    def _taken(self) -> pa.RecordBatch:
        next_offset = self._columns.next_offset
        rows = self._rows.batch(self._columns.take(), self._timestamp_type)
        if next_offset <= self._until:
            return rows
        # If offsets are missing, as many rows as offsets lead beyond the range.
        return rows.slice(0, pc.sum(pc.less(rows.column("offset"), self._until)).as_py())

    def _unreadable(self, error: InvalidBatch) -> Exception:
        return ValueError(
            f"{self._partition} at offset {self._position}: {error.message}; the record is "
            "damaged on the broker's disk, or the answer was. Start behind it to leave it out"
        )
