"""Deletion of records from a partition: its leader moves the log start, and followers copy it."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ottla.broker.replication.partition import Partition


def delete_before(partition: Partition, offset: int) -> None:
    """Move the log start to `offset`; followers learn of it at once."""
    if partition.usable_log().increment_log_start_offset(offset):
        for reader in partition.readers.values():
            reader.moved_start(partition)


def low_watermark(partition: Partition) -> int:
    """Return the offset below which no live replica has records any more."""
    log_start_offset = partition.usable_log().log_start_offset
    if partition.leading is None or partition.view is None:
        return log_start_offset
    return partition.leading.low_watermark(log_start_offset, partition.view.is_alive)
