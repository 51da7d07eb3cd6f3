"""The server's side of a SASL mechanism: the client's tokens in, the broker's tokens out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Protocol, TypeAlias


class Refused(Exception):
    """The client may not sign in, and is told the message."""


class NotReady(Exception):
    """Nobody can tell yet whether the client may get in. Its connection is closed, and it comes
    again: a refusal would be final for it."""


class InvalidCredentials(Exception):
    """The client may not sign in. The reason is for the log: the client is not told it, because it
    may show whether the user exists."""


class ServerMechanism(Protocol):
    user: str
    """The user that the client says it is; true once the exchange is complete."""
    is_by_token: bool
    """True if the client signs in with a delegation token. Once the exchange is complete, `user` is
    the token's owner; before, it is the id of the token."""
    is_complete: bool
    expires_at_ms: int | None
    """When what the client showed becomes invalid; None for never."""

    def evaluate(self, token: bytes) -> bytes:
        """Take the client's next token and return the broker's. Raises `Refused` or
        `InvalidCredentials`."""
        ...


PREPARED_BYTES_MAX: Final = 64 * 1024
"""A longer token is not kept for a thread: `evaluate` refuses it at once."""


class SlowMechanism(ServerMechanism, Protocol):
    """One whose tokens take too long for the loop."""

    def prepare(self, token: bytes) -> None:
        """Run in a thread before `evaluate` of the same token. Never raises."""
        ...


BeginMechanism: TypeAlias = Callable[[str], ServerMechanism]
"""Begins an exchange of an enabled mechanism."""
