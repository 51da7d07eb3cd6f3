"""Authenticates a connection by SASL, again before the session expires (KIP-368)."""

from __future__ import annotations

import asyncio
from math import inf
from typing import Any

from ottla.network.connection import Connection
from ottla.network.errors import (
    AuthenticationFailed,
    ClientError,
    ConnectionLost,
    Unreachable,
)
from ottla.network.exchange import Exchange
from ottla.network.sasl_mechanisms import BeginSignIn, Mechanism, NoToken, Refused
from ottla.protocol.apis import ApiKey
from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.runtime.runtime import Runtime

FRAMED_FROM = 1
"""From this version of SaslHandshake on, tokens are sent in requests, and errors have codes."""
STEPS_MAX = 8
RENEW_AFTER_PART = 0.85
RENEW_SPREAD_PART = 0.10
"""The random part of a session's lifetime, so that clients that authenticated together do not do
it again together."""
RENEW_INTERVAL_S_MIN = 1.2
"""Brokers refuse to authenticate again within a second; a session that ends before that costs the
connection at most."""


class SignIn:
    """The authentication of one connection."""

    def __init__(
        self,
        runtime: Runtime,
        connection: Connection,
        mechanism: str,
        begin: BeginSignIn,
        timeout_ms: int,
    ) -> None:
        self._runtime = runtime
        self._connection = connection
        self._mechanism = mechanism
        self._begin = begin
        self._timeout_ms = timeout_ms
        self._renewing: asyncio.Task[None] | None = None
        self._renewed_at_s = -inf

    async def run(self) -> None:
        try:
            await self._handshake()
            lifetime_ms = await self._authenticate()
        except AuthenticationFailed:
            self._connection.metrics.failed_authentications.add()
            raise
        if lifetime_ms > 0:
            self._renew_within(lifetime_ms)

    async def _handshake(self) -> None:
        from ottla.protocol.messages.sasl_handshake import SaslHandshakeRequest

        if not self._connection.versions.supports(ApiKey.SASL_HANDSHAKE, FRAMED_FROM):
            raise self._refused("it has no sign-in; is security_protocol right?")
        response = await self._ask(SaslHandshakeRequest(mechanism=self._mechanism))
        code = ErrorCode.of(response.error_code)
        if code is ErrorCode.UNSUPPORTED_SASL_MECHANISM:
            offered = ", ".join(sorted(response.mechanisms)) or "none"
            raise self._refused(f"it offers {offered}; see sasl_mechanism")
        if code is ErrorCode.ILLEGAL_SASL_STATE:
            raise self._refused("this listener wants no sign-in; is security_protocol right?")
        if code:
            raise KafkaError(code)

    async def _authenticate(self) -> int:
        """Authenticate, and return the session's lifetime in ms; 0 if it is unlimited."""
        mechanism = await self._prepare()
        message: bytes | None = mechanism.begin()
        lifetime_ms = 0
        for _ in range(STEPS_MAX):
            if message is None:
                return lifetime_ms
            response = await self._send(message)
            lifetime_ms = response.session_lifetime_ms
            try:
                message = await mechanism.reply(response.auth_bytes)
            except Refused as error:
                raise self._refused(str(error)) from error
        raise self._refused("it does not come to an end")

    async def _prepare(self) -> Mechanism:
        """Begin the mechanism. Only a token provider, which is application code, can take long."""
        address = self._connection.address
        try:
            async with asyncio.timeout(self._timeout_ms / 1000):
                return await self._begin(self._runtime, address[0])
        except ClientError:
            raise
        except NoToken as error:
            cause = f"nothing to sign in with: {error}"
            if error.is_final:
                raise AuthenticationFailed(address, self._mechanism, cause) from error
            raise Unreachable(address, cause) from error
        except TimeoutError:
            source = "sasl_oauth_token_provider, or the token endpoint,"
            cause = f"{source} gave no token within {self._timeout_ms} ms"
            raise Unreachable(address, cause) from None
        except Exception as error:
            raise Unreachable(address, f"sasl_oauth_token_provider failed: {error!r}") from error

    async def _send(self, message: bytes) -> Any:
        from ottla.protocol.messages.sasl_authenticate import SaslAuthenticateRequest

        response = await self._ask(SaslAuthenticateRequest(auth_bytes=message))
        code = ErrorCode.of(response.error_code)
        if code in (ErrorCode.SASL_AUTHENTICATION_FAILED, ErrorCode.ILLEGAL_SASL_STATE):
            raise self._refused(response.error_message or code.message)
        if code:
            raise KafkaError(code, response.error_message)
        return response

    async def _ask(self, request: Any) -> Any:
        version = self._connection.version_of(request)
        exchange = Exchange.of(request, version)
        return await self._connection.post_as(exchange, request, self._timeout_ms)

    def _refused(self, cause: str) -> AuthenticationFailed:
        return AuthenticationFailed(self._connection.address, self._mechanism, cause)

    # Reauthentication

    def _renew_within(self, lifetime_ms: int) -> None:
        part = RENEW_AFTER_PART + RENEW_SPREAD_PART * self._runtime.random.random()
        wanted_s = self._runtime.clock.now() + lifetime_ms * part / 1000
        self._connection.renew_at = max(wanted_s, self._renewed_at_s + RENEW_INTERVAL_S_MIN)
        self._connection.renew = self._renew

    def _renew(self) -> None:
        """Called before a request is sent, which then waits: brokers accept no other requests
        during authentication."""
        self._renewed_at_s = self._runtime.clock.now()
        self._connection.renew_at = inf
        self._connection.hold()
        self._renewing = asyncio.create_task(self._run_again(), name="sign in again")

    async def _run_again(self) -> None:
        try:
            await self.run()
        except ClientError as error:
            self._connection.fail(error)
        except Exception as error:
            cause = f"signing in again failed: {error}"
            self._connection.fail(ConnectionLost(self._connection.address, cause))
        else:
            self._connection.release()
