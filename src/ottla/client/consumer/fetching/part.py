"""The batches of one partition from one fetch response, opened one after the other."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

from ottla.buffers import Buffer
from ottla.client.consumer.fetching.aborted import AbortedTransactions
from ottla.protocol.errors import ErrorCode
from ottla.records.errors import InvalidBatch
from ottla.records.header import HEADER_SIZE, MAGIC, BatchHeader, batch_size_at, batches
from ottla.records.reader import check_crc


class FetchedPart:
    """Checks checksums, and skips aborted transactions, when a batch's turn comes."""

    __slots__ = ("_aborted", "_batches", "_check_crcs", "_damage", "_front_is_good", "size")

    def __init__(
        self, data: Buffer, aborted: Iterable[tuple[int, int]] | None, *, check_crcs: bool
    ) -> None:
        self._aborted = AbortedTransactions(aborted) if aborted else None
        self._check_crcs = check_crcs
        self._batches: deque[tuple[BatchHeader, memoryview]] = deque()
        self._damage: InvalidBatch | None = None
        self._front_is_good = False
        self.size = 0
        """Bytes of the remaining batches."""
        try:
            for header, batch in batches(data):
                self._batches.append((header, batch))
                self.size += len(batch)
        except InvalidBatch as damage:
            self._damage = damage
        if not self._batches and self._damage is None and len(data):
            self._damage = _cut_off(data)

    @property
    def next_offset(self) -> int | None:
        """The offset after the last whole batch; None if there is none."""
        return _next_offset(self._batches[-1][0]) if self._batches else None

    @property
    def is_damaged(self) -> bool:
        """True if the whole batches are followed by invalid data."""
        return self._damage is not None

    @property
    def is_over(self) -> bool:
        return not self._batches and self._damage is None

    def front(self, position: int) -> tuple[BatchHeader, memoryview] | None:
        """Return the front batch if the application is to see records of it; otherwise None, and
        the caller steps over it. Raises if the batch is invalid."""
        if not self._batches:
            if self._damage is not None:
                raise self._damage
            return None
        header, batch = self._batches[0]
        if self._front_is_good:
            return header, batch
        if _next_offset(header) <= position:
            return None
        self._check(header, batch)
        if header.is_control:
            if self._aborted is not None:
                self._aborted.see_marker(header, batch)
            return None
        if self._aborted is not None and self._aborted.hides(header):
            return None
        self._front_is_good = True
        return header, batch

    def step(self) -> BatchHeader | None:
        """Remove the front batch."""
        self._front_is_good = False
        if not self._batches:
            return None
        header, batch = self._batches.popleft()
        self.size -= len(batch)
        return header

    def behind_front(self) -> int | None:
        """Return the offset after the front batch, if there is one."""
        return _next_offset(self._batches[0][0]) if self._batches else None

    def front_epoch(self) -> int:
        """Return the leader epoch of the front batch, which must exist."""
        return self._batches[0][0].partition_leader_epoch

    def _check(self, header: BatchHeader, batch: memoryview) -> None:
        if header.magic != MAGIC:
            raise InvalidBatch(
                ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT,
                f"its batch has format version {header.magic}; only version {MAGIC} can be read",
            )
        if self._check_crcs:
            check_crc(header, batch)


def _next_offset(header: BatchHeader) -> int:
    # In the old formats the only offset in the header is that of the last record.
    return header.next_offset if header.magic == MAGIC else header.base_offset + 1


def _cut_off(data: Buffer) -> InvalidBatch:
    size = batch_size_at(data) if len(data) >= HEADER_SIZE else None
    claims = "" if size is None else f" of {size}"
    return InvalidBatch(
        ErrorCode.RECORD_LIST_TOO_LARGE,
        f"the broker sent {len(data)} bytes{claims} of a batch; "
        "raise max_partition_fetch_bytes so that it fits",
    )
