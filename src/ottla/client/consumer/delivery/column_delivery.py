"""Turns fetched batches into Arrow columns, many at once, with no Python code per record.

Order, positions and errors are those of `delivery.py`; only the output differs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.client.consumer.delivery.columns import Run, arrow_batch
from ottla.client.consumer.fetching.buffer import FetchBuffer, FetchedBatch
from ottla.client.consumer.subscriptions import Subscriptions
from ottla.client.values import TimestampType
from ottla.counters import MetricRegistry
from ottla.records.codec import Codec
from ottla.records.engine import RecordColumns
from ottla.records.errors import InvalidBatch
from ottla.records.header import HEADER_SIZE
from ottla.records.reader import payload_of

if TYPE_CHECKING:
    import pyarrow as pa

BYTES_MAX = 16 << 20
"""No further batch is opened once the columns hold this much. Larger columns are not read any
faster, and take memory in larger pieces."""
ROWS_MAX = (1 << 31) - 1


class ColumnDelivery:
    def __init__(
        self, buffer: FetchBuffer, subscriptions: Subscriptions, metrics: MetricRegistry
    ) -> None:
        self._buffer = buffer
        self._subscriptions = subscriptions
        self._records = metrics.counter("records-consumed-total")
        self._bytes = metrics.counter("bytes-consumed-total")
        # A batch that was taken in part: it is decompressed only once, however often it is cut.
        self._data: memoryview | None = None
        self._payload: memoryview | bytes = b""

    def take(self, limit: int | None, *, headers: bool) -> pa.RecordBatch | None:
        """Return up to `limit` rows, or those available up to about `BYTES_MAX`; None if there are
        none. They count as held by the application. Raises `PartitionUnreadable` if that is
        next."""
        columns = RecordColumns(headers)
        runs: list[Run] = []
        most = ROWS_MAX if limit is None else limit
        while columns.count < most and columns.bytes < BYTES_MAX:
            batch = self._buffer.peek(keep_errors=bool(columns.count))
            if batch is None:
                break
            rows = self._add(columns, batch, most - columns.count)
            if rows:
                runs.append(Run(batch.partition, int(_timestamp_type(batch)), rows))
        if not columns.count:
            return None
        self._records.add(columns.count)
        return arrow_batch(columns.take(), runs, headers)

    def _add(self, columns: RecordColumns, batch: FetchedBatch, limit: int) -> int:
        """Add the rows of one batch, and return their number."""
        header = batch.header
        append_time = header.max_timestamp if header.is_log_append_time else None
        try:
            rows = columns.add(
                self._opened(batch),
                header.record_count,
                header.base_offset,
                header.base_timestamp,
                append_time,
                batch.from_offset,
                limit,
            )
        except InvalidBatch as error:
            state = self._subscriptions.states[batch.partition]
            self._buffer.damaged(state, error, header.next_offset)
            return 0
        if columns.complete:
            self._data, self._payload = None, b""
            self._bytes.add(len(batch.data))
        self._buffer.advance(
            batch,
            header.next_offset if columns.complete else columns.next_offset,
            is_done=not rows,
        )
        return rows

    def _opened(self, batch: FetchedBatch) -> memoryview | bytes:
        if batch.data is not self._data:
            header = batch.header
            if header.codec is Codec.NONE:
                self._payload = batch.data[HEADER_SIZE : header.size]
            else:
                self._payload = payload_of(header, batch.data)
            self._data = batch.data
        return self._payload


def _timestamp_type(batch: FetchedBatch) -> TimestampType:
    if batch.header.is_log_append_time:
        return TimestampType.LOG_APPEND_TIME
    return TimestampType.CREATE_TIME
