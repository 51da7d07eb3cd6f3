"""What compaction keeps of the records of a batch."""

from typing import NamedTuple


class KeptRecords(NamedTuple):
    mask: bytes
    """A byte for each record: 1 if it stays."""
    kept: int
    has_tombstones: bool
    """Among those that stay."""
    without_key: int
    """Gone because they have none."""
