"""The ways in which a history can break a promise."""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple


class Kind(Enum):
    LOST_WRITE = "lost write"
    """A record was acknowledged by all in-sync replicas, or read, and is missing at the end."""
    LOST_KEY = "lost key"
    """In a compacted topic, the last record of a key is gone and no newer one is there."""
    DUPLICATE = "duplicate"
    """A record that an idempotent producer wrote once is there twice."""
    PHANTOM = "phantom"
    """A record is there that nobody sent to this partition."""
    INCONSISTENT_OFFSETS = "inconsistent offsets"
    """One offset of a partition was seen with two records."""
    ABORTED_READ = "aborted read"
    """A reader of committed records got one of an aborted transaction."""
    PRECOMMITTED_READ = "precommitted read"
    """A reader of committed records got one before anybody asked to commit it."""
    TORN_TRANSACTION = "torn transaction"
    """A part of a transaction is visible, and another part is not."""
    NONMONOTONIC_POLL = "non-monotonic poll"
    """A reader went back, or read the same offset twice, without a seek."""
    SKIPPING_POLL = "skipping poll"
    """A reader skipped a record that it should have been given."""
    NONMONOTONIC_SEND = "non-monotonic send"
    """Records of one producer lie in another order than it sent them."""
    SKIPPING_SEND = "skipping send"
    """Between two records that a producer sent in a row lies another record of this producer."""
    UNREAD_BY_GROUP = "unread by group"
    """A group committed past a record that none of its members was ever given."""
    BAD_COPY = "bad copy"
    """Records that were copied exactly once are missing, duplicated or reordered."""


class Anomaly(NamedTuple):
    kind: Kind
    where: str
    text: str

    def __str__(self) -> str:
        return f"{self.kind.value}: {self.where}: {self.text}"
