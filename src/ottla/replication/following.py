"""A replica as a follower: it copies what its leader sends and takes the leader's marks."""

from __future__ import annotations

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
from ottla.replication.follower_state import after_out_of_range, truncation_offset
from ottla.replication.replica import NEVER, Replica
from ottla.storage.errors import UnexpectedOffset
from ottla.storage.log import Log

Batches = list[tuple[BatchHeader, memoryview]]


class FollowingReplica(Replica):
    __slots__ = ("is_leader",)

    is_leader: bool

    def append_fetched(self, data: Buffer, leader_epoch: int, now_ms: int) -> int:
        """Append batches as the leader of `leader_epoch` sent them; how many bytes were new."""
        log = self.usable_log()
        found = checked_batches(data, leader_epoch)
        if not found:
            return 0
        if found[0][0].base_offset < log.end_offset:
            self._begin_inside_batch(log, found[0][0].base_offset)
        before = self._appended_bytes
        log.append_batches(found, now_ms)
        ongoing = log.producers.ongoing
        for header, batch in found:
            if header[5] & TRANSACTIONAL_BIT and header[0] in ongoing:
                self._transaction_starts[header[0]] = self._appended_bytes
            self._appended_bytes += len(batch)
        if log.config.flush_messages == NEVER:
            self.settled_offset = log.end_offset
        return self._appended_bytes - before

    def _begin_inside_batch(self, log: Log, base_offset: int) -> None:
        """A leader's log may begin in the middle of a batch; the batch comes as a whole. That is
        the one way for records to come from before the end of the log, and only an empty one."""
        if log.end_offset != log.log_start_offset:
            raise UnexpectedOffset(base_offset, log.end_offset)
        log.truncate_fully_and_start_at(base_offset, log.log_start_offset)

    def take_marks(self, high_watermark: int, log_start_offset: int) -> None:
        """How far the leader's records are committed, and where its log begins."""
        log = self.usable_log()
        high_watermark = min(high_watermark, log.end_offset)
        if high_watermark > self.high_watermark:
            self._advance(high_watermark, self._visible_at(high_watermark))
        log.increment_log_start_offset(min(log_start_offset, self.high_watermark))

    @property
    def flush_is_due(self) -> bool:
        """Before it tells its leader that it has its records: does `flush.messages` ask for it?"""
        log = self.log
        if log is None or log.config.flush_messages == NEVER:
            return False
        return log.unflushed_messages >= log.config.flush_messages

    def flushed(self) -> None:
        """By a follower, that is: it may have become the leader while its disk was at work."""
        if self.log is not None and not self.is_leader:
            self.settled_offset = min(self.log.recovery_point, self.log.end_offset)

    # --- parting from the leader ----------------------------------------------------------------

    def truncate_by_epoch(self, epoch: int, end_offset: int) -> int:
        """The leader has nothing of `epoch` from `end_offset` on; where this log ends now."""
        log = self.usable_log()
        return self._truncate(log, truncation_offset(log, epoch, end_offset))

    def follow_from(self, leader_start: int, leader_end: int) -> int:
        """The leader has nothing where this log ends; where it ends now."""
        log = self.usable_log()
        way_on = after_out_of_range(log.end_offset, leader_start, leader_end)
        if not way_on.start_over:
            return self._truncate(log, way_on.offset)
        log.truncate_fully_and_start_at(way_on.offset)
        self.high_watermark = self.settled_offset = way_on.offset
        self._recount(log)
        return way_on.offset

    def _truncate(self, log: Log, offset: int) -> int:
        if log.truncate_to(offset):
            self.high_watermark = min(self.high_watermark, log.end_offset)
            self.settled_offset = min(self.settled_offset, log.end_offset)
            self._recount(log)
        return log.end_offset


def checked_batches(data: Buffer, leader_epoch: int) -> Batches:
    """The whole batches in `data`, each with its checksum compared.

    What a later leader wrote is left out: the answer was on its way while its sender lost the
    lead, and its log was overwritten under it.
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
