"""What an assignor is told about a member, and what it answers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

Partitions = Mapping[bytes, frozenset[int]]
"""Partition numbers by topic id; no topic is there without a partition."""

Assignment = dict[str, dict[bytes, frozenset[int]]]
"""The partitions of every member, by member id."""

NOTHING: Partitions = {}


class MemberSpec(NamedTuple):
    topics: frozenset[bytes]
    """The ids of the existing topics it subscribes to."""
    assigned: Partitions = NOTHING
    """What it was given last time, which it should keep where that does no harm."""
    instance_id: str | None = None
