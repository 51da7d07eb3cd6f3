"""A batch found by its timestamp, and the search for a record in it."""

from __future__ import annotations

from typing import NamedTuple

from ottla.records.codec import Codec
from ottla.records.compression import DECOMPRESSED_BYTES_MAX
from ottla.records.engine import NATIVE, find_timestamp
from ottla.records.header import BatchHeader
from ottla.records.reader import payload_of

QUICK_BYTES_MAX = 128 * 1024


class TimedBatch(NamedTuple):
    header: BatchHeader
    """Its highest timestamp may be wrong: a compressed batch is stored without being opened."""
    batch: bytes

    @property
    def is_quick(self) -> bool:
        """True if `find` takes less than a millisecond."""
        return NATIVE and self.header.codec is Codec.NONE and len(self.batch) <= QUICK_BYTES_MAX

    def find(
        self, timestamp: int, first_offset: int, bytes_max: int = DECOMPRESSED_BYTES_MAX
    ) -> tuple[int, int, int] | None:
        """Return (timestamp, offset, leader epoch) of the first record from `first_offset` on that
        is not older than `timestamp`; raises `OpensTooLarge` if the records take more than
        `bytes_max`."""
        header = self.header
        found = find_timestamp(
            payload_of(header, self.batch, bytes_max),
            header.record_count,
            header.base_offset,
            header.base_timestamp,
            header.max_timestamp if header.is_log_append_time else None,
            timestamp,
            first_offset,
        )
        return None if found is None else (*found, header.partition_leader_epoch)

    def beginning(self, first_offset: int) -> tuple[int, int, int]:
        """Return the time, offset and leader epoch to answer if the batch cannot be opened.

        They are the time that its header claims, and its first offset from `first_offset` on;
        `find` would return no earlier one.
        """
        header = self.header
        offset = max(header.base_offset, first_offset)
        return header.max_timestamp, offset, header.partition_leader_epoch
