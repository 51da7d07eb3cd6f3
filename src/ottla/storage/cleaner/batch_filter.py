"""What compaction leaves of one batch.

A batch from which nothing is taken stays as it is, byte for byte. Otherwise its remaining records
are copied as they are: they hold differences to the base offset and base timestamp, and both stay.
Only when a batch gets its delete horizon, which takes the place of the base timestamp, are
timestamps written anew.
"""

from __future__ import annotations

from typing import NamedTuple

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
from ottla.records.reader import payload_of
from ottla.storage.batch_scan import HeaderFields
from ottla.storage.cleaner.job import NO_DATA, CleaningJob, CleaningStats
from ottla.storage.cleaner.transactions import CleanedTransactions
from ottla.storage.transaction_index import AbortedTransaction

_NEVER_MS = 2**63 - 1


class Kept(NamedTuple):
    """A batch for the new segment."""

    batch: Buffer
    max_timestamp: int
    record_count: int
    aborted: AbortedTransaction | None = None
    """For the transaction index: the batch is the marker that ended this."""


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
        """`is_last`: of its group of segments. It stays, without records if need be, so that the
        new segment ends where the old ones did: then no offsets are missing between segments, and
        a start after a crash can tell which segments the new one replaces."""
        must_stay = is_last or self._is_last_of_producer(header)
        if header[5] & CONTROL_BIT:
            return self._keep_marker(header, batch, must_stay)
        if self._transactions.batch_read(header):
            return _without_records(header) if must_stay else None
        if header[0] >= self._map.end_offset and header[12]:
            return Kept(batch, header[8], header[12])
        kept = self._filter(header, batch) if header[12] else None
        if kept is None and must_stay:
            return _without_records(header)
        return kept

    def _is_last_of_producer(self, header: HeaderFields) -> bool:
        """A producer's sequence numbers and epoch are learnt from its last batch after a crash."""
        if header[9] < 0:
            return False
        last = self._producers.get(header[9])
        if last is None:
            return False
        if last.data_offset != NO_DATA:
            return header[0] + header[6] == last.data_offset
        return bool(header[5] & CONTROL_BIT) and header[10] == last.producer_epoch

    def _keep_marker(self, header: HeaderFields, batch: memoryview, must_stay: bool) -> Kept | None:
        """A marker is kept whole or not at all: without its record it would tell no epoch."""
        may_go, aborted = self._transactions.marker_read(header, batch)
        has_horizon = bool(header[5] & DELETE_HORIZON_BIT)
        if may_go and not must_stay and has_horizon and header[7] <= self._now_ms:
            return None
        if may_go and header[12] and not has_horizon and self._is_mapped(header):
            return self._with_horizon(header, records_of(header, batch), b"\1" * header[12])
        return Kept(batch, header[8], header[12], aborted)

    def _is_mapped(self, header: HeaderFields) -> bool:
        """All older records of the same keys go in this run: from now on the horizon counts."""
        return header[0] + header[6] < self._map.end_offset

    def _filter(self, header: HeaderFields, batch: memoryview) -> Kept | None:
        payload = records_of(header, batch)
        has_horizon = header[5] & DELETE_HORIZON_BIT
        tombstones_go = bool(has_horizon and header[7] <= self._now_ms)
        mask, kept, has_tombstones, without_key = self._map.keep(
            payload, header[12], header[0], tombstones_go
        )
        self._stats.records_without_key += without_key
        if not kept:
            return None
        if has_tombstones and not has_horizon and self._is_mapped(header):
            return self._with_horizon(header, payload, mask)
        if kept == header[12]:
            return Kept(batch, header[8], header[12])
        return _sealed(BatchHeader._make(header), payload, mask)

    def _with_horizon(self, fields: HeaderFields, payload: Buffer, mask: bytes) -> Kept:
        return _sealed(BatchHeader._make(fields), payload, mask, self._delete_horizon_ms)


def records_of(header: HeaderFields, batch: memoryview) -> Buffer:
    """The bytes of a batch's records, decompressed."""
    if not header[5] & CODEC_MASK:
        return batch[HEADER_SIZE:]
    return payload_of(BatchHeader._make(header), batch)


def _sealed(
    header: BatchHeader, payload: Buffer, mask: bytes, horizon_ms: int | None = None
) -> Kept:
    """A batch of the records that the mask keeps, with a delete horizon if one is given.

    The range of offsets stays, and with it the range of sequence numbers.
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
