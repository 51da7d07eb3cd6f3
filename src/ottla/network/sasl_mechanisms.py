"""SASL mechanisms: their first message, and their replies to the broker."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Awaitable, Callable, Mapping
from typing import Protocol

from ottla.network.scram import ScramClient, ScramRefused
from ottla.runtime.runtime import Runtime
from ottla.security.scram import SCRAM_MECHANISMS

NONCE_BYTES = 24


class Refused(Exception):
    """The broker refused in the mechanism's own messages."""


class NoToken(Exception):
    """No token or ticket can be had. `is_final`: the provider refuses, and would refuse again."""

    def __init__(self, reason: str, *, is_final: bool) -> None:
        super().__init__(reason)
        self.is_final = is_final


class Mechanism(Protocol):
    def begin(self) -> bytes: ...

    async def reply(self, challenge: bytes) -> bytes | None:
        """Return the next message; None when the exchange is complete. Raises `Refused`."""
        ...


BeginSignIn = Callable[[Runtime, str], Awaitable[Mechanism]]
"""Returns a mechanism for one authentication at a host: nonces and tokens are used once."""


class Plain:
    def __init__(self, username: str, password: str) -> None:
        self._message = f"\0{username}\0{password}".encode()

    def begin(self) -> bytes:
        return self._message

    async def reply(self, challenge: bytes) -> bytes | None:
        return None


class Scram:
    def __init__(self, client: ScramClient, runtime: Runtime) -> None:
        self._client = client
        self._runtime = runtime
        self._proven = False

    def begin(self) -> bytes:
        return self._client.first()

    async def reply(self, challenge: bytes) -> bytes | None:
        try:
            if not self._proven:
                self._proven = True
                # The broker says how much work it is: milliseconds, at most most of a second.
                return await self._runtime.in_thread(self._client.final, challenge)
            self._client.check(challenge)
        except ScramRefused as error:
            raise Refused(str(error)) from error
        return None


class OauthBearer:
    def __init__(
        self,
        token: str,
        extensions: Mapping[str, str] | None = None,
        refused: Callable[[], None] = lambda: None,
    ) -> None:
        """`refused` is called if the broker does not accept the token."""
        self._refused = refused
        pairs = {"auth": f"Bearer {token}", **(extensions or {})}
        self._message = "".join(f"\x01{name}={value}" for name, value in pairs.items())

    def begin(self) -> bytes:
        return f"n,,{self._message}\x01\x01".encode()

    async def reply(self, challenge: bytes) -> bytes | None:
        if challenge:
            self._refused()
            raise Refused(f"the token is not accepted: {challenge.decode(errors='replace')}")
        return None


def signing_in_with(
    mechanism: str, username: str, password: str, *, by_token: bool = False
) -> BeginSignIn:
    """Return the beginning of each sign-in by PLAIN or SCRAM. `by_token`: by SCRAM, with the id of
    a delegation token as name and its HMAC as password."""

    async def begin(runtime: Runtime, _: str) -> Mechanism:
        if mechanism == "PLAIN":
            return Plain(username, password)
        nonce = b64encode(runtime.random.randbytes(NONCE_BYTES)).decode()
        scram = SCRAM_MECHANISMS[mechanism]
        client = ScramClient(scram, username, password, nonce, by_token=by_token)
        return Scram(client, runtime)

    return begin
