"""What one fetch brought from one partition, and the records in it that a reader should see."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ottla.buffers import Buffer
from ottla.records.header import BatchHeader, batches
from ottla.records.reader import check_crc, read_records
from ottla.records.record import Record

_ABORT_MARKER = 0


@dataclass(slots=True)
class Fetched:
    partition: int
    position: int
    """The offset that was asked for; the data may begin a little earlier, with a whole batch."""
    error_code: int
    high_watermark: int
    aborted: list[tuple[int, int]]
    """(first offset, producer id) of aborted transactions in this range; read_committed only."""
    data: Buffer | None

    def batches(self) -> Iterator[tuple[BatchHeader, memoryview]]:
        return batches(self.data) if self.data is not None else iter(())

    def next_offset(self) -> int:
        """Where the next fetch must begin."""
        following = self.position
        for header, _ in self.batches():
            following = header.next_offset
        return max(following, self.position)

    def records(self) -> Iterator[Record]:
        """The records from `position` on, without control records and aborted transactions."""
        aborting = _AbortedTransactions(self.aborted)
        for header, batch in self.batches():
            check_crc(header, batch)
            if header.is_control:
                aborting.see_marker(header, batch)
            elif not aborting.hides(header):
                for record in read_records(batch):
                    if record.offset >= self.position:
                        yield record


class _AbortedTransactions:
    """Which producers' batches are being skipped while walking forward through a log."""

    def __init__(self, aborted: list[tuple[int, int]]) -> None:
        self._to_come = sorted(aborted, reverse=True)
        self._producers: set[int] = set()

    def hides(self, header: BatchHeader) -> bool:
        if not (self._to_come or self._producers):
            return False
        while self._to_come and self._to_come[-1][0] <= header.last_offset:
            self._producers.add(self._to_come.pop()[1])
        return header.is_transactional and header.producer_id in self._producers

    def see_marker(self, header: BatchHeader, batch: memoryview) -> None:
        """An abort marker ends the producer's hidden transaction."""
        if header.producer_id not in self._producers:
            return
        key = read_records(batch)[0].key or b""
        if int.from_bytes(key[2:4], "big") == _ABORT_MARKER:
            self._producers.discard(header.producer_id)
