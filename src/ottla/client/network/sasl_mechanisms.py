"""SASL mechanisms: their first message, and their replies to the broker."""

from __future__ import annotations

import inspect
from base64 import b64encode
from collections.abc import Awaitable, Callable
from typing import Any, Protocol

from ottla.client.errors import BadSetting
from ottla.client.network.scram import ScramClient, ScramRefused
from ottla.client.settings.common import ClientSettings
from ottla.runtime.runtime import Runtime

NONCE_BYTES = 24


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


def mechanism_of(settings: ClientSettings) -> BeginSignIn:
    """Return a function that begins each authentication. Raises `BadSetting` if a setting is
    missing."""
    name = settings.sasl_mechanism
    if name == "OAUTHBEARER":
        provider = settings.sasl_oauth_token_provider
        if provider is None:
            raise BadSetting("sasl_oauth_token_provider", "OAUTHBEARER needs it, a function")
        return lambda runtime: _oauth(runtime, provider)
    username, password = settings.sasl_username, settings.sasl_password
    for setting, value in (("sasl_username", username), ("sasl_password", password)):
        if value is None:
            raise BadSetting(setting, f"{name} needs it")
    assert username is not None
    assert password is not None

    async def begin(runtime: Runtime) -> Mechanism:
        if name == "PLAIN":
            return Plain(username, password)
        hash_name = name.removeprefix("SCRAM-").replace("-", "").lower()
        nonce = b64encode(runtime.random.randbytes(NONCE_BYTES)).decode()
        return Scram(ScramClient(hash_name, username, password, nonce))

    return begin


async def _oauth(runtime: Runtime, provider: Callable[[], Any]) -> Mechanism:
    """Get a token. A plain function runs in a thread, because it may ask a server."""
    if inspect.iscoroutinefunction(provider):
        token = await provider()
    else:
        token = await runtime.in_thread(provider)
        if inspect.isawaitable(token):
            token = await token
    if not isinstance(token, str) or not token:
        raise BadSetting("sasl_oauth_token_provider", f"it returned {token!r}, not a token")
    return OauthBearer(token)
