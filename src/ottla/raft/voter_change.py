"""A change of the voters that is under way: whose request it answers, and what it waits for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ottla.raft.ids import Endpoints, ReplicaKey


@dataclass(slots=True)
class VoterChange:
    """One at a time. Any majorities of two sets that differ by one voter share a voter, so that
    they cannot elect two leaders; those of sets further apart need not."""

    token: Any
    is_addition: bool
    key: ReplicaKey
    expires_at_ms: int
    endpoints: Endpoints = ()
    ack_when_committed: bool = True
    record_offset: int | None = None
    """Where the new set is in the log; None while the new voter is asked for its versions."""
