"""Decides what compaction keeps of a batch.

A batch from which nothing is removed stays as it is, byte for byte. Otherwise its remaining records
are copied as they are: they hold deltas to the base offset and base timestamp, and both stay. Only
when a batch gets its delete horizon, which replaces the base timestamp, are timestamps rewritten.
"""

from __future__ import annotations

from typing import NamedTuple

from ottla.broker.storage.cleaner.job import NO_DATA, CleaningJob, CleaningStats
from ottla.broker.storage.cleaner.transactions import CleanedTransactions
from ottla.broker.storage.segments.batch_scan import HeaderFields
from ottla.broker.storage.segments.transaction_index import AbortedTransaction
from ottla.buffers import Buffer
from ottla.records.builder import seal
from ottla.records.codec import Codec
from ottla.records.compression import compress
from ottla.records.engine import KeyOffsets, copy_records
from ottla.records.header import (
    CODEC_MASK,
    CONTROL_BIT,
    DELETE_HORIZON_BIT,
    HEADER_SIZE,
    NO_TIMESTAMP,
    BatchHeader,
)
from ottla.records.header_fields import (
    ATTRIBUTES,
    BASE_OFFSET,
    BASE_TIMESTAMP,
    LAST_OFFSET_DELTA,
    MAX_TIMESTAMP,
    PRODUCER_EPOCH,
    PRODUCER_ID,
    RECORD_COUNT,
)
from ottla.records.reader import payload_of

_NEVER_MS = 2**63 - 1


class Kept(NamedTuple):
    """A batch for the new segment."""

    batch: Buffer
    max_timestamp: int
    record_count: int
    aborted: AbortedTransaction | None = None
    """The transaction that this batch, a marker, aborted; for the transaction index."""


class BatchFilter:
    def __init__(
        self,
        job: CleaningJob,
        last_offsets: KeyOffsets,
        transactions: CleanedTransactions,
        stats: CleaningStats,
    ) -> None:
        self._now_ms = job.now_ms
        self._delete_horizon_ms = min(job.now_ms + job.config.delete_retention_ms, _NEVER_MS)
        self._producers = job.producers
        self._map = last_offsets
        self._transactions = transactions
        self._stats = stats

    def keep(self, header: HeaderFields, batch: memoryview, *, is_last: bool) -> Kept | None:
        """Return what is kept of the batch, or None. `is_last`: it is the last batch of its group
        of segments. It then stays, without records if necessary, so that the new segment ends where
        the old ones did: no offsets are missing between segments, and a start after a crash can
        tell which segments the new one replaces."""
        must_stay = is_last or self._is_last_of_producer(header)
        if header[ATTRIBUTES] & CONTROL_BIT:
            return self._keep_marker(header, batch, must_stay)
        if self._transactions.batch_read(header):
            return _without_records(header) if must_stay else None
        if header[BASE_OFFSET] >= self._map.end_offset and header[RECORD_COUNT]:
            return Kept(batch, header[MAX_TIMESTAMP], header[RECORD_COUNT])
        kept = self._filter(header, batch) if header[RECORD_COUNT] else None
        if kept is None and must_stay:
            return _without_records(header)
        return kept

    def _is_last_of_producer(self, header: HeaderFields) -> bool:
        """True for the last batch of a producer, from which its sequence numbers and epoch are
        learnt after a crash."""
        if header[PRODUCER_ID] < 0:
            return False
        last = self._producers.get(header[PRODUCER_ID])
        if last is None:
            return False
        if last.data_offset != NO_DATA:
            return header[BASE_OFFSET] + header[LAST_OFFSET_DELTA] == last.data_offset
        return (
            bool(header[ATTRIBUTES] & CONTROL_BIT) and header[PRODUCER_EPOCH] == last.producer_epoch
        )

    def _keep_marker(self, header: HeaderFields, batch: memoryview, must_stay: bool) -> Kept | None:
        """Keep a marker as a whole or not at all: without its record it would not tell the
        epoch."""
        may_go, aborted = self._transactions.marker_read(header, batch)
        has_horizon = bool(header[ATTRIBUTES] & DELETE_HORIZON_BIT)
        if may_go and not must_stay and has_horizon and header[BASE_TIMESTAMP] <= self._now_ms:
            return None
        if may_go and header[RECORD_COUNT] and not has_horizon and self._is_mapped(header):
            return self._with_horizon(
                header, records_of(header, batch), b"\1" * header[RECORD_COUNT]
            )
        return Kept(batch, header[MAX_TIMESTAMP], header[RECORD_COUNT], aborted)

    def _is_mapped(self, header: HeaderFields) -> bool:
        """True if all older records of the same keys are removed in this run, so the delete horizon
        may be set."""
        return header[BASE_OFFSET] + header[LAST_OFFSET_DELTA] < self._map.end_offset

    def _filter(self, header: HeaderFields, batch: memoryview) -> Kept | None:
        payload = records_of(header, batch)
        has_horizon = header[ATTRIBUTES] & DELETE_HORIZON_BIT
        tombstones_go = bool(has_horizon and header[BASE_TIMESTAMP] <= self._now_ms)
        mask, kept, has_tombstones, without_key = self._map.keep(
            payload, header[RECORD_COUNT], header[BASE_OFFSET], tombstones_go
        )
        self._stats.records_without_key += without_key
        if not kept:
            return None
        if has_tombstones and not has_horizon and self._is_mapped(header):
            return self._with_horizon(header, payload, mask)
        if kept == header[RECORD_COUNT]:
            return Kept(batch, header[MAX_TIMESTAMP], header[RECORD_COUNT])
        return _sealed(BatchHeader._make(header), payload, mask)

    def _with_horizon(self, fields: HeaderFields, payload: Buffer, mask: bytes) -> Kept:
        return _sealed(BatchHeader._make(fields), payload, mask, self._delete_horizon_ms)


def records_of(header: HeaderFields, batch: memoryview) -> Buffer:
    """Return the records of a batch, decompressed."""
    if not header[ATTRIBUTES] & CODEC_MASK:
        return batch[HEADER_SIZE:]
    return payload_of(BatchHeader._make(header), batch)


def _sealed(
    header: BatchHeader, payload: Buffer, mask: bytes, horizon_ms: int | None = None
) -> Kept:
    """Build a batch of the records that the mask keeps, with a delete horizon if one is given.

    The range of offsets stays the same, and so does the range of sequence numbers.
    """
    append_time = header.max_timestamp if header.is_log_append_time else None
    records, max_timestamp = copy_records(
        payload, header.record_count, mask, header.base_timestamp, append_time, horizon_ms
    )
    if horizon_ms is not None:
        header = header._replace(
            attributes=header.attributes | DELETE_HORIZON_BIT, base_timestamp=horizon_ms
        )
    header = header._replace(max_timestamp=max_timestamp, record_count=mask.count(1))
    codec = header.codec
    data = records if codec is Codec.NONE else compress(codec, records)
    return Kept(seal(header, data), max_timestamp, header.record_count)


def _without_records(header: HeaderFields) -> Kept:
    fields = BatchHeader._make(header)
    empty = fields._replace(
        attributes=fields.attributes & ~(CODEC_MASK | DELETE_HORIZON_BIT),
        base_timestamp=NO_TIMESTAMP,
        record_count=0,
    )
    return Kept(seal(empty, b""), empty.max_timestamp, 0)
