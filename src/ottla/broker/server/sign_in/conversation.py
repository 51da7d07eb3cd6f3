"""The order of a client's requests while it signs in, as in Kafka's SaslServerAuthenticator.

    FIRST, VERSIONS_OR_HANDSHAKE -- ApiVersions --> HANDSHAKE
    FIRST, VERSIONS_OR_HANDSHAKE, HANDSHAKE -- SaslHandshake --> AUTHENTICATE
    AUTHENTICATE -- SaslAuthenticate, or a raw token --> AUTHENTICATE, at last COMPLETE

After SaslHandshake version 0 the client sends its tokens raw, without a request around them.
Whatever else arrives ends the sign-in. The machine is pure: requests and tokens in, answers out.

A client may have to sign in again before its session ends (KIP-368), with the same mechanism and as
the same principal. It then begins with SaslHandshake.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from ottla.broker.server.sign_in.mechanisms import InvalidCredentials, NotReady, Refused
from ottla.protocol.apis import ApiKey
from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.messages.sasl_authenticate import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
)
from ottla.protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from ottla.security.principal import USER_TYPE, KafkaPrincipal

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from ottla.broker.server.sign_in.mechanisms import BeginMechanism, ServerMechanism

FRAMED_FROM: Final = 1
"""From this version of SaslHandshake on, tokens are sent in requests."""


class Stage(Enum):
    FIRST = "the first request"
    VERSIONS_OR_HANDSHAKE = "ApiVersions or SaslHandshake"
    HANDSHAKE = "SaslHandshake"
    AUTHENTICATE = "the exchange of tokens"
    OTHER_MECHANISM = "nothing: another mechanism was asked for than before"
    COMPLETE = "done"


class SignInFailed(Exception):
    """The client does not get in. It is told `response`, after a delay, before its connection is
    closed. With `at_once` it is told nothing and gets no delay: it did not try to sign in."""

    def __init__(self, reason: str, response: Any = None, *, at_once: bool = False) -> None:
        super().__init__(reason)
        self.response = response
        self.at_once = at_once


class OutOfOrder(SignInFailed):
    """A request that is not expected now, which is answered with this error if it can be."""

    def __init__(self, key: ApiKey, stage: str, *, answered: bool) -> None:
        message = f"Unexpected Kafka request of type {key.name} during SASL {stage}."
        super().__init__(message, at_once=not answered)
        self.key = key
        self.error = KafkaError(ErrorCode.ILLEGAL_SASL_STATE, message) if answered else None


class SignedIn(NamedTuple):
    """The result of a sign-in."""

    mechanism: str
    principal: KafkaPrincipal
    lifetime_ms: int | None
    """How long it is good for; None for as long as the connection."""


class Conversation:
    def __init__(
        self,
        mechanisms: Sequence[str],
        begin: BeginMechanism,
        reauth_ms: Mapping[str, int],
        before: SignedIn | None = None,
    ) -> None:
        """`before`: who the client is already, if it signs in again."""
        self._enabled = mechanisms
        self._begin = begin
        self._reauth_ms = reauth_ms
        self._before = before
        self._exchange: ServerMechanism | None = None
        self._is_framed = False
        self.stage = Stage.FIRST
        self.mechanism = ""
        self.result: SignedIn | None = None
        """Set when it is complete."""

    @property
    def takes_raw_token(self) -> bool:
        """True if the next frame is a token and not a request."""
        return self.stage is Stage.AUTHENTICATE and not self._is_framed

    @property
    def prepare(self) -> Callable[[bytes], None] | None:
        """What is to be done with the next token in a thread, before it is passed on here."""
        if self.stage is not Stage.AUTHENTICATE:
            return None
        found: Callable[[bytes], None] | None = getattr(self._exchange, "prepare", None)
        return found

    @property
    def user(self) -> str:
        """The user that the client says it is; empty before it does."""
        return self._exchange.user if self._exchange is not None else ""

    def unreadable(self, reason: str) -> SignInFailed:
        """Return the failure of a frame that is no request."""
        if self.stage is Stage.FIRST:
            # From the times before SaslHandshake: a first token of GSSAPI.
            reason = (
                "Exception handling first SASL packet from client, GSSAPI is not supported by "
                f"server ({reason})"
            )
        return SignInFailed(reason, at_once=True)

    def expect(self, key: ApiKey) -> None:
        """Raise `SignInFailed` if a request of this API may not come now."""
        if self.stage is Stage.OTHER_MECHANISM and self._before is not None:
            raise SignInFailed(
                f"SASL mechanism '{self.mechanism}' requested by client is not supported for "
                f"re-authentication of mechanism '{self._before.mechanism}'"
            )
        if self.stage is Stage.AUTHENTICATE:
            if key is not ApiKey.SASL_AUTHENTICATE:
                raise OutOfOrder(key, "authentication", answered=True)
            return
        if self.stage is Stage.FIRST:
            self.stage = Stage.VERSIONS_OR_HANDSHAKE
        if key not in (ApiKey.API_VERSIONS, ApiKey.SASL_HANDSHAKE):
            raise OutOfOrder(key, "handshake", answered=False)
        if key is ApiKey.API_VERSIONS and self.stage is Stage.HANDSHAKE:
            raise SignInFailed("a second ApiVersions request", at_once=True)

    def versions_told(self) -> None:
        """The client has got the answer to its ApiVersions request."""
        self.stage = Stage.HANDSHAKE

    def handshake(self, request: SaslHandshakeRequest, version: int) -> SaslHandshakeResponse:
        mechanisms = list(self._enabled)
        if request.mechanism not in mechanisms:
            response = SaslHandshakeResponse(
                error_code=ErrorCode.UNSUPPORTED_SASL_MECHANISM, mechanisms=mechanisms
            )
            shown = request.mechanism[:100]
            raise SignInFailed(f"Unsupported SASL mechanism {shown}", response)
        self._is_framed = version >= FRAMED_FROM
        self.mechanism = request.mechanism
        if self._before is not None and request.mechanism != self._before.mechanism:
            self.stage = Stage.OTHER_MECHANISM
        else:
            self._exchange = self._begin(request.mechanism)
            self.stage = Stage.AUTHENTICATE
        return SaslHandshakeResponse(mechanisms=mechanisms)

    def authenticate(
        self, request: SaslAuthenticateRequest, wall_ms: int
    ) -> SaslAuthenticateResponse:
        try:
            token = self._evaluate(request.auth_bytes, wall_ms)
        except Refused as error:
            raise SignInFailed(str(error), _failure(str(error))) from None
        except InvalidCredentials as error:
            during = "authentication" if self._before is None else "re-authentication"
            told = (
                f"Authentication failed during {during} due to invalid credentials with SASL "
                f"mechanism {self.mechanism}"
            )
            raise SignInFailed(f"{told} ({error})", _failure(told)) from None
        lifetime_ms = self.result.lifetime_ms or 0 if self.result is not None else 0
        return SaslAuthenticateResponse(auth_bytes=token, session_lifetime_ms=lifetime_ms)

    def raw_token(self, token: bytes, wall_ms: int) -> bytes:
        """Return the answer to a token that came without a request around it."""
        try:
            return self._evaluate(token, wall_ms)
        except Refused as error:
            raise SignInFailed(str(error)) from None
        except InvalidCredentials as error:
            raise SignInFailed(str(error), at_once=True) from None

    def _evaluate(self, token: bytes, wall_ms: int) -> bytes:
        exchange = self._exchange
        assert exchange is not None
        try:
            answer = exchange.evaluate(token)
        except NotReady as error:
            raise SignInFailed(str(error), at_once=True) from None
        if exchange.is_complete:
            principal = KafkaPrincipal(
                USER_TYPE, exchange.user, token_authenticated=exchange.is_by_token
            )
            if self._before is not None:
                _check_unchanged(self._before.principal, principal)
            self.result = SignedIn(self.mechanism, principal, self._lifetime_ms(exchange, wall_ms))
            self.stage = Stage.COMPLETE
        return answer

    def _lifetime_ms(self, exchange: ServerMechanism, wall_ms: int) -> int | None:
        limits = []
        if (reauth_ms := self._reauth_ms.get(self.mechanism, 0)) > 0:
            limits.append(reauth_ms)
        if exchange.expires_at_ms is not None:
            limits.append(max(0, exchange.expires_at_ms - wall_ms))
        return min(limits, default=None)


def _check_unchanged(before: KafkaPrincipal, now: KafkaPrincipal) -> None:
    """A token may follow the password of its owner, and the other way round."""
    if (before.type, before.name) != (now.type, now.name):
        raise Refused(
            "Cannot change principals during re-authentication from "
            f"{before.type}.{before.name}: {now.type}.{now.name}"
        )


def _failure(message: str) -> SaslAuthenticateResponse:
    return SaslAuthenticateResponse(
        error_code=ErrorCode.SASL_AUTHENTICATION_FAILED, error_message=message
    )
