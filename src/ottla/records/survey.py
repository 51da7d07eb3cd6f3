"""A summary of all records of a batch."""

from typing import NamedTuple

NO_EARLIEST = (1 << 63) - 1


class Survey(NamedTuple):
    earliest: int
    """The lowest timestamp, ignoring -1, which means none. `NO_EARLIEST` if no record has one."""
    latest: int
    """The highest timestamp, at least -1."""
    is_consecutive: bool
    """True if the offsets count up from the base offset without a gap."""
    has_keys: bool
    """True if every record has a key."""
