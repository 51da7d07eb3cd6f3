"""A follower's side of a fetch session (KIP-227): what the leader knows, and what to tell it now.

The leader remembers all partitions of the session; a request names only those that are new, moved
or gone. What a request costs is then a matter of what happened, not of how much is followed.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from ottla.protocol.errors import ErrorCode

NO_SESSION: Final = 0
INITIAL_EPOCH: Final = 0
EPOCH_MAX: Final = 0x7FFFFFFF

Key = tuple[bytes, int]
"""(topic id, partition)"""


class Position(NamedTuple):
    """What a request says of one partition."""

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
    """Tell it positions as they change (`put`, `remove`), take a request, take its answer."""

    def __init__(self) -> None:
        self.id = NO_SESSION
        self._epoch = INITIAL_EPOCH
        self._wanted: dict[Key, Position] = {}
        self._told: set[Key] = set()
        """What the leader has in this session."""
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
        """Name it in the next request even though nothing changed: its answer came to nothing."""
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
        """The next request; what it names counts as told from now on."""
        if self._epoch == INITIAL_EPOCH:
            named, forgotten = dict(self._wanted), []
            self._told = set(named)
        else:
            named = {key: self._wanted[key] for key in self._changed}
            forgotten = list(self._forgotten)
            self._told.update(named)
            self._told.difference_update(forgotten)
        self._changed, self._forgotten = {}, {}
        return SessionRequest(self.id, self._epoch, named, forgotten)

    def answered(self, error: ErrorCode, session_id: int) -> bool:
        """Take the head of an answer; False if the session is over and the answer holds nothing."""
        if error != ErrorCode.NONE:
            self.reset(gone=error == ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
            return False
        if session_id == NO_SESSION:
            self.reset(gone=True)  # the leader has no room for a session: full requests it is
        else:
            self.id = session_id
            self._epoch = 1 if self._epoch == EPOCH_MAX else self._epoch + 1
        return True

    def reset(self, *, gone: bool = False) -> None:
        """Begin anew: no answer came, or one that cannot be trusted. With the old id, unless the
        session is `gone`, so that the leader gives its place to the new one."""
        if gone:
            self.id = NO_SESSION
        self._epoch = INITIAL_EPOCH
