"""What is to be known of all records of a batch together."""

from typing import NamedTuple

NO_EARLIEST = (1 << 63) - 1


class Survey(NamedTuple):
    earliest: int
    """The lowest timestamp, but for -1 which means: none. `NO_EARLIEST` if no record has one."""
    latest: int
    """The highest timestamp, -1 at least."""
    is_consecutive: bool
    """Whether the offsets count up from the base offset without a gap."""
    has_keys: bool
    """Whether every record has one."""
