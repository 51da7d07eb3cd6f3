"""The input and output of an assignor."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

Partitions = Mapping[bytes, frozenset[int]]
"""Partition numbers by topic id; topics without partitions are left out."""

Assignment = dict[str, dict[bytes, frozenset[int]]]
"""The partitions of every member, by member id."""

NOTHING: Partitions = {}


class MemberSpec(NamedTuple):
    topics: frozenset[bytes]
    """The ids of the existing topics it subscribes to."""
    assigned: Partitions = NOTHING
    """Its last assignment, which it should keep unless that unbalances the loads."""
    instance_id: str | None = None
