"""The rules of fetch sessions (KIP-227), which readers and brokers share.

    full request (epoch 0) ──session id──> 1, 2, 3, ... each with the changes since the one before
          ^                                  │
          └──any error, lost connection──────┘

If the response has no session id, every request is a full one. A full request that names a session
closes it; one of epoch -1 asks for no other.
"""

from __future__ import annotations

from collections.abc import Container
from random import Random
from typing import Final

from ottla.protocol.errors import ErrorCode

NO_SESSION: Final = 0
INITIAL_EPOCH: Final = 0
FINAL_EPOCH: Final = -1
FULL_EPOCHS: Final = (INITIAL_EPOCH, FINAL_EPOCH)
"""The epochs of requests that name all their partitions."""
EPOCH_MAX: Final = 0x7FFFFFFF
SESSION_ID_MAX: Final = 0x7FFFFFFF

LOST_SESSION: Final = frozenset(
    {ErrorCode.FETCH_SESSION_ID_NOT_FOUND, ErrorCode.INVALID_FETCH_SESSION_EPOCH}
)
"""Errors of a session that the broker has dropped, or has at another epoch. The partitions are not
affected: a full request begins a new session."""


def next_epoch(epoch: int) -> int:
    """Return the epoch of the next incremental request; 0 would be a full one."""
    return 1 if epoch == EPOCH_MAX else epoch + 1


def new_session_id(random: Random, taken: Container[int]) -> int:
    session_id = random.randrange(1, SESSION_ID_MAX)
    while session_id in taken:
        session_id = random.randrange(1, SESSION_ID_MAX)
    return session_id


class ReaderSession:
    """A reader's side of a session: the id and epoch of its next request."""

    __slots__ = ("epoch", "id")

    def __init__(self) -> None:
        self.id = NO_SESSION
        self.epoch = INITIAL_EPOCH

    def answered(self, error_code: int, session_id: int) -> bool:
        """Process the head of a response; False if it is an error, and a new session begins."""
        if error_code:
            self.renew(is_gone=error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
            return False
        if session_id == NO_SESSION:
            self.renew(is_gone=True)  # the broker has no room for a session: send full requests
        else:
            self.id = session_id
            self.epoch = next_epoch(self.epoch)
        return True

    def renew(self, *, is_gone: bool = False) -> None:
        """Begin a new session. It names the old id, unless that session `is_gone`, so that the
        broker drops the old session."""
        if is_gone:
            self.id = NO_SESSION
        self.epoch = INITIAL_EPOCH
