"""A follower's side of a fetch session (KIP-227): what the leader knows, and what to send now.

The leader remembers all partitions of the session; a request names only those that are new, changed
or removed. So the cost of a request depends on how much happened, not on how many partitions are
followed.
"""

from __future__ import annotations

from typing import NamedTuple

from ottla.protocol.fetch_sessions import INITIAL_EPOCH, ReaderSession

Key = tuple[bytes, int]
"""(topic id, partition)"""


class Position(NamedTuple):
    """A follower's position in one partition, as a request states it."""

    offset: int
    last_epoch: int
    leader_epoch: int
    log_start_offset: int


class SessionRequest(NamedTuple):
    session_id: int
    epoch: int
    named: dict[Key, Position]
    forgotten: list[Key]


class FollowerSession:
    """Update positions with `put` and `remove`, take a `request`, report its response with
    `answered`."""

    def __init__(self) -> None:
        self._head = ReaderSession()
        self._wanted: dict[Key, Position] = {}
        self._told: set[Key] = set()
        """Partitions that the leader knows in this session."""
        self._changed: dict[Key, None] = {}
        self._forgotten: dict[Key, None] = {}

    def __len__(self) -> int:
        return len(self._wanted)

    def put(self, key: Key, position: Position) -> None:
        if self._wanted.get(key) != position:
            self._wanted[key] = position
            self._changed[key] = None
            self._forgotten.pop(key, None)

    def touch(self, key: Key) -> None:
        """Name the partition in the next request although nothing changed, because its answer was
        not used."""
        if key in self._wanted:
            self._changed[key] = None

    def remove(self, key: Key) -> None:
        if self._wanted.pop(key, None) is not None:
            self._changed.pop(key, None)
            if key in self._told:
                self._forgotten[key] = None

    def position(self, key: Key) -> Position | None:
        return self._wanted.get(key)

    def request(self) -> SessionRequest:
        """Return the next request; the leader is assumed to know what it names."""
        if self._head.epoch == INITIAL_EPOCH:
            named, forgotten = dict(self._wanted), []
            self._told = set(named)
        else:
            named = {key: self._wanted[key] for key in self._changed}
            forgotten = list(self._forgotten)
            self._told.update(named)
            self._told.difference_update(forgotten)
        self._changed, self._forgotten = {}, {}
        return SessionRequest(self._head.id, self._head.epoch, named, forgotten)

    def answered(self, error_code: int, session_id: int) -> bool:
        """Process the head of a response; False if the session is over and the response is
        empty."""
        return self._head.answered(error_code, session_id)

    def reset(self) -> None:
        """Start a new session, because no response came or it cannot be trusted."""
        self._head.renew()
