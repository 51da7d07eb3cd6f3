"""SASL mechanisms: their first message, and their replies to the broker."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Protocol

from ottla.network.scram import ScramClient, ScramRefused
from ottla.runtime.runtime import Runtime


class Refused(Exception):
    """The broker refused in the mechanism's own messages."""


class Mechanism(Protocol):
    def begin(self) -> bytes: ...

    def reply(self, challenge: bytes) -> bytes | None:
        """Return the next message; None when the exchange is complete. Raises `Refused`."""
        ...


BeginSignIn = Callable[[Runtime], Awaitable[Mechanism]]
"""Returns a mechanism for one authentication: nonces and tokens are used once."""


class Plain:
    def __init__(self, username: str, password: str) -> None:
        self._message = f"\0{username}\0{password}".encode()

    def begin(self) -> bytes:
        return self._message

    def reply(self, challenge: bytes) -> bytes | None:
        return None


class Scram:
    def __init__(self, client: ScramClient) -> None:
        self._client = client
        self._proven = False

    def begin(self) -> bytes:
        return self._client.first()

    def reply(self, challenge: bytes) -> bytes | None:
        try:
            if not self._proven:
                self._proven = True
                return self._client.final(challenge)
            self._client.check(challenge)
        except ScramRefused as error:
            raise Refused(str(error)) from error
        return None


class OauthBearer:
    def __init__(self, token: str) -> None:
        self._token = token

    def begin(self) -> bytes:
        return f"n,,\x01auth=Bearer {self._token}\x01\x01".encode()

    def reply(self, challenge: bytes) -> bytes | None:
        if challenge:
            raise Refused(f"the token is not accepted: {challenge.decode(errors='replace')}")
        return None
