"""The ways in which a history can break a promise."""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple


class Kind(Enum):
    LOST_WRITE = "lost write"
    """Acknowledged by all in-sync replicas, or read by somebody, and not there in the end."""
    LOST_KEY = "lost key"
    """In a compacted topic: the last record of a key is gone, and none that is newer is there."""
    DUPLICATE = "duplicate"
    """Written once by an idempotent producer, and there twice."""
    PHANTOM = "phantom"
    """Nobody ever sent it to this partition."""
    INCONSISTENT_OFFSETS = "inconsistent offsets"
    """One offset of a partition was seen with two records."""
    ABORTED_READ = "aborted read"
    """A reader of committed records got one of an aborted transaction."""
    PRECOMMITTED_READ = "precommitted read"
    """A reader of committed records got one before anybody asked to commit it."""
    TORN_TRANSACTION = "torn transaction"
    """A part of a transaction is visible, and another part is not."""
    NONMONOTONIC_POLL = "non-monotonic poll"
    """A reader went back, or read the same place twice, without having been told to."""
    SKIPPING_POLL = "skipping poll"
    """A reader passed over a record that was there for it."""
    NONMONOTONIC_SEND = "non-monotonic send"
    """Records of one producer lie in another order than it sent them."""
    SKIPPING_SEND = "skipping send"
    """Between two records that a producer sent one after the other lies one of its others."""
    UNREAD_BY_GROUP = "unread by group"
    """A group committed past a record that none of its members was ever given."""
    BAD_COPY = "bad copy"
    """What was copied exactly once is missing, doubled or in another order."""


class Anomaly(NamedTuple):
    kind: Kind
    where: str
    text: str

    def __str__(self) -> str:
        return f"{self.kind.value}: {self.where}: {self.text}"
