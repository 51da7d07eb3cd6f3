"""Group commit: fsyncs that `flush.messages` demands, each for all batches appended before it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from ottla.broker.replication.partition import Partition, flush_is_due
from ottla.logs import get_logger
from ottla.protocol.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from ottla.runtime.runtime import Runtime

log = get_logger("ottla.replication")


class GroupCommit:
    """Flushes the logs of led partitions in threads, one flush at a time for each."""

    def __init__(self, runtime: Runtime, dir_failed: Callable[[KafkaError], object]) -> None:
        self._runtime = runtime
        self._dir_failed = dir_failed

    def flush_soon(self, partition: Partition) -> None:
        self._runtime.spawn(self._flush(partition), name=f"flush {partition}")

    async def _flush(self, partition: Partition) -> None:
        """Run fsyncs one after another for as long as the flush settings demand it. Each covers
        every batch that was appended while the one before ran: that is the group commit."""
        due = True
        while due and partition.error is None:
            covered = begin_flush(partition)
            try:
                await self._runtime.in_thread(partition.usable_log().flush)
            except KafkaError as error:
                log.error("flush failed", partition=str(partition), error=str(error))
                self._dir_failed(error)
                partition.set_error(ErrorCode.KAFKA_STORAGE_ERROR)
            due = end_flush(partition, covered)


def begin_flush(partition: Partition) -> tuple[int, int]:
    """Return what the flush that starts now will cover: (end offset, bytes appended so far)."""
    return partition.usable_log().end_offset, partition.byte_counts.appended


def end_flush(partition: Partition, covered: tuple[int, int]) -> bool:
    """Settle what a flush has covered; True if another is due at once, for batches appended
    meanwhile."""
    log = partition.log
    if log is None or partition.error is not None or not partition.is_leader:
        partition.is_flushing = False
        return False
    due = flush_is_due(log)
    if due:
        # Not only `covered`: the log may have been truncated during the flush.
        partition.settle(min(covered[0], log.recovery_point), covered[1])
    else:
        partition.is_flushing = False
        partition.settle(log.end_offset, partition.byte_counts.appended)
    if partition.leading is not None:
        partition.wake_waiters()  # some wait only for this broker's disk
    return due
