"""Decides which batches belong to aborted transactions, and which markers are still needed.

The log is read in order, below the last stable offset: every transaction there has been decided.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from operator import attrgetter

from ottla.broker.storage.segments.batch_scan import HeaderFields
from ottla.broker.storage.segments.transaction_index import AbortedTransaction
from ottla.records.control import ControlType
from ottla.records.header import TRANSACTIONAL_BIT
from ottla.records.header_fields import ATTRIBUTES, BASE_OFFSET, LAST_OFFSET_DELTA, PRODUCER_ID
from ottla.records.reader import read_records

_MARKER_KEY = struct.Struct(">hh")


class CleanedTransactions:
    """The state of all transactions at the current position of the scan."""

    __slots__ = ("_aborted", "_committing", "_ongoing_aborted", "_upcoming")

    def __init__(self, aborted: Iterable[AbortedTransaction], first_offset: int) -> None:
        """`first_offset`: where the scan begins; transactions that ended before do not matter."""
        relevant = [entry for entry in aborted if entry.last_offset >= first_offset]
        self._upcoming = sorted(relevant, key=attrgetter("first_offset"), reverse=True)
        self._ongoing_aborted: dict[int, tuple[AbortedTransaction, bool]] = {}
        """By producer, with whether any of its batches was seen."""
        self._committing: set[int] = set()
        """Producers with batches of a committed transaction whose marker was not reached yet."""

    def _reach(self, offset: int) -> None:
        while self._upcoming and self._upcoming[-1].first_offset <= offset:
            entry = self._upcoming.pop()
            self._ongoing_aborted.setdefault(entry.producer_id, (entry, False))

    def batch_read(self, header: HeaderFields) -> bool:
        """Note a batch of data; True if it was aborted."""
        self._reach(header[BASE_OFFSET] + header[LAST_OFFSET_DELTA])
        if not header[ATTRIBUTES] & TRANSACTIONAL_BIT:
            return False
        ongoing = self._ongoing_aborted.get(header[PRODUCER_ID])
        if ongoing is None:
            self._committing.add(header[PRODUCER_ID])
            return False
        self._ongoing_aborted[header[PRODUCER_ID]] = (ongoing[0], True)
        return True

    def marker_read(
        self, header: HeaderFields, batch: memoryview
    ) -> tuple[bool, AbortedTransaction | None]:
        """Return (may this control batch be removed, the transaction it aborts if readers still
        need it).

        A marker may be removed once no batch of its transaction is left in the log before it.
        Batches that are removed in this same scan still count, because a reader may be between them
        and the marker.
        """
        self._reach(header[BASE_OFFSET] + header[LAST_OFFSET_DELTA])
        kind = _control_type(batch)
        if kind is None:
            return True, None  # An earlier compaction removed its record.
        if kind == ControlType.ABORT:
            entry, has_batches = self._ongoing_aborted.pop(header[PRODUCER_ID], (None, False))
            return (False, entry) if has_batches else (True, None)
        if kind == ControlType.COMMIT:
            has_batches = header[PRODUCER_ID] in self._committing
            self._committing.discard(header[PRODUCER_ID])
            return not has_batches, None
        return False, None


def _control_type(batch: memoryview) -> int | None:
    records = read_records(batch)
    if not records or records[0].key is None:
        return None
    number: int = _MARKER_KEY.unpack_from(records[0].key)[1]
    return number
