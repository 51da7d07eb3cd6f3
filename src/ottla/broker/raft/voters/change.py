"""A change of the voters in progress: the request it answers, and its state."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ottla.broker.raft.ids import Endpoints, ReplicaKey


@dataclass(slots=True)
class VoterChange:
    """A change of one voter; changes happen one at a time. Majorities of two sets that differ by
    one voter share a voter, so that they cannot elect two leaders; majorities of other sets may."""

    token: Any
    is_addition: bool
    key: ReplicaKey
    expires_at_ms: int
    endpoints: Endpoints = ()
    ack_when_committed: bool = True
    record_offset: int | None = None
    """The offset of the new set in the log; None while the new voter is asked for its versions."""
