"""OAUTHBEARER (RFC 7628), the server's side: a token says who the client is, and until when."""

from __future__ import annotations

import json
import re
from base64 import urlsafe_b64decode
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

from ottla.broker.server.sign_in.mechanisms import InvalidCredentials, Refused

if TYPE_CHECKING:
    from ottla.config.security.oauth import OauthSettings

_NAME: Final = r"(?:[\x01-\x2b\x2d-\x3c\x3e-\x7f]|=2C|=3D)+"
_FIRST: Final = re.compile(
    rf"n,(?:a=(?P<authorization_id>{_NAME}))?,\x01"
    r"(?P<pairs>(?:[A-Za-z]+=[\x21-\x7e \t\r\n]+\x01)*)\x01"
)
_AUTH: Final = re.compile(r"(?P<scheme>\w+) +(?P<token>[-_~+/.a-zA-Z0-9]+=*)", re.ASCII)
TOKEN_BYTES_MAX: Final = 64 * 1024
INVALID_TOKEN: Final = "invalid_token"


class InvalidToken(Exception):
    """The reason is for the log. The client is told `status`, and the scope that is missing."""

    def __init__(self, reason: str, status: str = INVALID_TOKEN, scope: str = "") -> None:
        super().__init__(reason)
        self.status = status
        self.scope = scope


class ValidToken(NamedTuple):
    user: str
    expires_at_ms: int


class KeysOfProvider(Protocol):
    def verified(self, token: str) -> Mapping[str, Any]:
        """Return the claims of a token that the provider has signed; raises `InvalidToken`, or
        `NotReady` before its keys are known."""
        ...


class TokenCheck:
    """The tokens that a listener accepts."""

    def __init__(self, settings: OauthSettings, keys: KeysOfProvider | None) -> None:
        self._settings = settings
        self._keys = keys

    def check(self, token: str, wall_ms: int) -> ValidToken:
        """Raises `InvalidToken` or `NotReady`."""
        settings = self._settings
        if self._keys is None:
            claims = _unsecured_claims(token)
        else:
            claims = self._keys.verified(token)
            if claims.get("iss") != settings.issuer:
                raise InvalidToken("it is of another issuer (iss)")
            told = claims.get("aud")
            audiences = told if isinstance(told, list) else [told]
            if not any(one in settings.audiences for one in audiences if isinstance(one, str)):
                raise InvalidToken("it is for somebody else (aud)")
            if "iat" not in claims:
                raise InvalidToken("it does not say when it was issued (iat)")
        expires_at_ms = self._check_times(claims, wall_ms)
        user = claims.get(settings.user_claim)
        if not isinstance(user, str) or not user.strip():
            raise InvalidToken(f"it does not say who it is for ({settings.user_claim})")
        missing = settings.required_scope - _scope(claims.get(settings.scope_claim))
        if missing:
            scope = f"[{', '.join(sorted(settings.required_scope))}]"  # as Java prints a list
            raise InvalidToken("its scope does not suffice", "insufficient_scope", scope)
        return ValidToken(user, expires_at_ms)

    def _check_times(self, claims: Mapping[str, Any], wall_ms: int) -> int:
        skew_ms = self._settings.clock_skew_ms
        expires_at_ms = _time_ms(claims, "exp")
        if expires_at_ms is None:
            raise InvalidToken("it does not say when it expires (exp)")
        if wall_ms - skew_ms >= expires_at_ms:
            raise InvalidToken("it has expired (exp)")
        for name in ("iat", "nbf"):
            begins_at_ms = _time_ms(claims, name)
            if begins_at_ms is None:
                continue
            if begins_at_ms > wall_ms + skew_ms:
                raise InvalidToken(f"it is not valid yet ({name})")
            if begins_at_ms >= expires_at_ms:
                raise InvalidToken(f"it expires before it begins ({name})")
        return expires_at_ms


def _time_ms(claims: Mapping[str, Any], name: str) -> int | None:
    value = claims.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 1e12:
        raise InvalidToken(f"its {name} is no time")
    return int(value * 1000)


def _scope(claim: Any) -> set[str]:
    if isinstance(claim, str):
        return set(claim.split())
    return {one for one in claim if isinstance(one, str)} if isinstance(claim, list) else set()


def _unsecured_claims(token: str) -> Mapping[str, Any]:
    header, dot, rest = token.partition(".")
    body, second_dot, signature = rest.partition(".")
    if not (dot and second_dot) or signature:
        raise InvalidToken("it is no unsecured token: those have two parts and a dot after each")
    if _json(header).get("alg") != "none":
        raise InvalidToken("For unsecured JWTs 'alg' must be 'none'")
    return _json(body)


def _json(part: str) -> dict[str, Any]:
    try:
        found = json.loads(urlsafe_b64decode(part + "=" * (-len(part) % 4)))
    except (ValueError, RecursionError):
        raise InvalidToken("it is not readable") from None
    if not isinstance(found, dict):
        raise InvalidToken("it is not readable")
    return found


class OauthServer:
    def __init__(self, check: TokenCheck, wall_ms: Callable[[], int]) -> None:
        self._check = check
        self._wall_ms = wall_ms
        self._error = ""
        self.user = ""
        self.is_complete = False
        self.expires_at_ms: int | None = None
        self.is_by_token = False

    def evaluate(self, token: bytes) -> bytes:
        if self._error:
            # Clients send one byte now (RFC 7628). Kafka would look at another token; here nobody
            # tries one after the other without a delay and a line in the log.
            raise Refused(self._error)
        value, asked_for = _parse(token)
        try:
            valid = self._check.check(value, self._wall_ms())
        except InvalidToken as error:
            told = {"status": error.status}
            if error.scope:
                told["scope"] = error.scope
            self._error = json.dumps(told, separators=(", ", ":"))
            return self._error.encode()
        self.user = valid.user
        if asked_for not in ("", valid.user):
            raise Refused(
                "Authentication failed: Client requested an authorization id "
                f"({asked_for}) that is different from the token's principal name ({valid.user})"
            )
        self.expires_at_ms = valid.expires_at_ms
        self.is_complete = True
        return b""


def _parse(token: bytes) -> tuple[str, str]:
    """Return the token and the authorization id of the client's first message."""
    if len(token) > TOKEN_BYTES_MAX:
        raise InvalidCredentials(f"a message of {len(token)} bytes")
    match = _FIRST.fullmatch(token.decode("latin-1"))
    if match is None:
        raise InvalidCredentials("Invalid OAUTHBEARER client first message")
    pairs = dict(pair.split("=", 1) for pair in match["pairs"].split("\x01") if pair)
    if "auth" not in pairs:
        raise InvalidCredentials("Invalid OAUTHBEARER client first message: 'auth' not specified")
    auth = _AUTH.fullmatch(pairs["auth"])
    if auth is None:
        raise InvalidCredentials("Invalid OAUTHBEARER client first message: invalid 'auth' format")
    if auth["scheme"].lower() != "bearer":
        raise InvalidCredentials("Invalid scheme in OAUTHBEARER client first message")
    asked_for = (match["authorization_id"] or "").replace("=2C", ",").replace("=3D", "=")
    return auth["token"], asked_for
