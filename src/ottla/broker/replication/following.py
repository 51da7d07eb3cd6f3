"""A partition as a follower: it copies its leader's records and takes over its high watermark."""

from __future__ import annotations

from ottla.broker.replication.follower_state import after_out_of_range, truncation_offset
from ottla.broker.replication.partition import NEVER, Partition, flush_is_due
from ottla.broker.storage.errors import UnexpectedOffset
from ottla.broker.storage.log import Log
from ottla.buffers import Buffer
from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.records.crc import crc32c
from ottla.records.header import (
    CHECKED_FROM,
    MAGIC,
    TRANSACTIONAL_BIT,
    BatchHeader,
    batches,
)
from ottla.records.header_fields import ATTRIBUTES, BASE_OFFSET

Batches = list[tuple[BatchHeader, memoryview]]


def append_fetched(partition: Partition, data: Buffer, leader_epoch: int, now_ms: int) -> int:
    """Append batches that the leader of `leader_epoch` sent; return the number of new bytes."""
    log = partition.usable_log()
    found = checked_batches(data, leader_epoch)
    if not found:
        return 0
    if found[0][0].base_offset < log.end_offset:
        _begin_inside_batch(log, found[0][0].base_offset)
    counts = partition.byte_counts
    before = counts.appended
    log.append_batches(found, now_ms)
    ongoing = log.producers.ongoing
    for header, batch in found:
        if header[ATTRIBUTES] & TRANSACTIONAL_BIT and header[BASE_OFFSET] in ongoing:
            counts.transaction_starts[header[BASE_OFFSET]] = counts.appended
        counts.appended += len(batch)
    if log.config.flush_messages == NEVER:
        partition.settled_offset = log.end_offset
    return counts.appended - before


def _begin_inside_batch(log: Log, base_offset: int) -> None:
    """Start the log at the first batch. A leader's log may begin in the middle of a batch, which is
    sent as a whole. Only in this case, for an empty log, may records come from before the log
    end."""
    if log.end_offset != log.log_start_offset:
        raise UnexpectedOffset(base_offset, log.end_offset)
    log.truncate_fully_and_start_at(base_offset, log.log_start_offset)


def take_marks(partition: Partition, high_watermark: int, log_start_offset: int) -> None:
    """Take over the leader's high watermark and log start offset."""
    log = partition.usable_log()
    end_offset = log.end_offset
    high_watermark = min(high_watermark, end_offset)
    known = partition.high_watermark
    if high_watermark > known:
        visible_bytes = partition.byte_counts.visible_at(high_watermark, known, end_offset)
        partition.advance(high_watermark, visible_bytes)
    log.increment_log_start_offset(min(log_start_offset, partition.high_watermark))


def must_flush(partition: Partition) -> bool:
    """True if `flush.messages` demands a flush before the leader is told of the records."""
    return partition.log is not None and flush_is_due(partition.log)


def flushed(partition: Partition) -> None:
    """Note a flush. The replica may have become the leader meanwhile; then this does nothing."""
    log = partition.log
    if log is not None and not partition.is_leader:
        partition.settled_offset = min(log.recovery_point, log.end_offset)


# --- truncation ----------------------------------------------------------------------------------


def truncate_by_epoch(partition: Partition, epoch: int, end_offset: int) -> int:
    """Truncate, because the leader has nothing of `epoch` from `end_offset` on; return the new log
    end."""
    return truncate(partition, truncation_offset(partition.usable_log(), epoch, end_offset))


def follow_from(partition: Partition, leader_start: int, leader_end: int) -> int:
    """Truncate or start again, because the leader has nothing at the log end; return the new log
    end."""
    log = partition.usable_log()
    way_on = after_out_of_range(log.end_offset, leader_start, leader_end)
    if not way_on.start_over:
        return truncate(partition, way_on.offset)
    log.truncate_fully_and_start_at(way_on.offset)
    partition.high_watermark = partition.settled_offset = way_on.offset
    partition.byte_counts.reset(log, partition.high_watermark)
    return way_on.offset


def truncate(partition: Partition, offset: int) -> int:
    """Remove everything from `offset` on; return the new log end."""
    log = partition.usable_log()
    if log.truncate_to(offset):
        partition.high_watermark = min(partition.high_watermark, log.end_offset)
        partition.settled_offset = min(partition.settled_offset, log.end_offset)
        partition.byte_counts.reset(log, partition.high_watermark)
    return log.end_offset


def checked_batches(data: Buffer, leader_epoch: int) -> Batches:
    """Return the whole batches in `data`, with verified checksums.

    Batches of a later leader are left out: the sender lost leadership while its response was being
    sent, and its log was overwritten.
    """
    found: Batches = []
    for header, batch in batches(data):
        if header.partition_leader_epoch > leader_epoch:
            break
        if header.magic != MAGIC or crc32c(batch[CHECKED_FROM:]) != header.crc:
            raise KafkaError(
                ErrorCode.CORRUPT_MESSAGE,
                f"the batch at offset {header.base_offset} came damaged from the leader",
            )
        found.append((header, batch))
    return found
