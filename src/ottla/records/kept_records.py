"""The result of compaction for the records of a batch."""

from typing import NamedTuple


class KeptRecords(NamedTuple):
    mask: bytes
    """A byte for each record: 1 if it is kept."""
    kept: int
    has_tombstones: bool
    """True if tombstones are among the kept records."""
    without_key: int
    """The number of records removed because they have no key."""
