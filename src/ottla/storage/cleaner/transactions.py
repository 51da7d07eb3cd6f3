"""Which batches belong to aborted transactions, and which markers are still needed.

The log is walked in order, below the last stable offset: every transaction met has been decided.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from operator import attrgetter

from ottla.records.control import ControlType
from ottla.records.header import TRANSACTIONAL_BIT
from ottla.records.reader import read_records
from ottla.storage.batch_scan import HeaderFields
from ottla.storage.transaction_index import AbortedTransaction

_MARKER_KEY = struct.Struct(">hh")


class CleanedTransactions:
    """The state of all transactions at the point that the walk has reached."""

    __slots__ = ("_aborted", "_committing", "_ongoing_aborted", "_upcoming")

    def __init__(self, aborted: Iterable[AbortedTransaction], first_offset: int) -> None:
        """`first_offset`: where the walk begins; transactions that ended before do not matter."""
        relevant = [entry for entry in aborted if entry.last_offset >= first_offset]
        self._upcoming = sorted(relevant, key=attrgetter("first_offset"), reverse=True)
        self._ongoing_aborted: dict[int, tuple[AbortedTransaction, bool]] = {}
        """By producer, with whether any of its batches was met."""
        self._committing: set[int] = set()
        """Producers with batches of a transaction that will turn out to be committed."""

    def _reach(self, offset: int) -> None:
        while self._upcoming and self._upcoming[-1].first_offset <= offset:
            entry = self._upcoming.pop()
            self._ongoing_aborted.setdefault(entry.producer_id, (entry, False))

    def batch_read(self, header: HeaderFields) -> bool:
        """Was this batch of data aborted?"""
        self._reach(header[0] + header[6])
        if not header[5] & TRANSACTIONAL_BIT:
            return False
        ongoing = self._ongoing_aborted.get(header[9])
        if ongoing is None:
            self._committing.add(header[9])
            return False
        self._ongoing_aborted[header[9]] = (ongoing[0], True)
        return True

    def marker_read(
        self, header: HeaderFields, batch: memoryview
    ) -> tuple[bool, AbortedTransaction | None]:
        """(may this control batch go, what readers must know of the transaction it aborts).

        A marker may go once no batch of its transaction is left in the log before it; batches that
        are removed in this same walk still count, for a reader may be between them and the marker.
        """
        self._reach(header[0] + header[6])
        kind = _control_type(batch)
        if kind is None:
            return True, None  # Emptied before: it says nothing any more.
        if kind == ControlType.ABORT:
            entry, has_batches = self._ongoing_aborted.pop(header[9], (None, False))
            return (False, entry) if has_batches else (True, None)
        if kind == ControlType.COMMIT:
            has_batches = header[9] in self._committing
            self._committing.discard(header[9])
            return not has_batches, None
        return False, None


def _control_type(batch: memoryview) -> int | None:
    records = read_records(batch)
    if not records or records[0].key is None:
        return None
    number: int = _MARKER_KEY.unpack_from(records[0].key)[1]
    return number
