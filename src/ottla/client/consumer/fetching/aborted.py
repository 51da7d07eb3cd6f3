"""Finds the batches of a fetch that belong to aborted transactions (`read_committed`).

With the batches, a broker sends the aborted transactions that overlap them: (first offset, producer
id). A producer's batches are hidden from that offset on until its abort marker.
"""

from __future__ import annotations

from collections.abc import Iterable

from ottla.records.control import ControlType, control_type
from ottla.records.header import BatchHeader
from ottla.records.reader import read_records


class AbortedTransactions:
    __slots__ = ("_producers", "_to_come")

    def __init__(self, aborted: Iterable[tuple[int, int]]) -> None:
        self._to_come = sorted(aborted, reverse=True)
        self._producers: set[int] = set()

    def hides(self, header: BatchHeader) -> bool:
        """True if the batch is aborted. Must be called for every batch, in order."""
        self._come_to(header)
        return header.is_transactional and header.producer_id in self._producers

    def see_marker(self, header: BatchHeader, batch: memoryview) -> None:
        """Handle a control batch: an abort marker ends the producer's aborted transaction, even if
        this fetch holds no other batch of it."""
        self._come_to(header)
        if header.producer_id not in self._producers:
            return
        if any(control_type(record) is ControlType.ABORT for record in read_records(batch)):
            self._producers.discard(header.producer_id)

    def _come_to(self, header: BatchHeader) -> None:
        while self._to_come and self._to_come[-1][0] <= header.last_offset:
            self._producers.add(self._to_come.pop()[1])
