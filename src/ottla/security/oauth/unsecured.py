"""Tokens without a signature, made as the options of a JAAS line say:

org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required
    unsecuredLoginStringClaim_sub="broker" unsecuredLoginListClaim_scope="|read|write";

Anybody can make them; they are for tests.
"""

from __future__ import annotations

import json
import math
from base64 import urlsafe_b64encode
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from ottla.security.oauth.options import BadOption, extensions_of

_PREFIX: Final = "unsecuredLogin"
_STRING: Final = f"{_PREFIX}StringClaim_"
_NUMBER: Final = f"{_PREFIX}NumberClaim_"
_LIST: Final = f"{_PREFIX}ListClaim_"
UNSECURED_EXTENSION: Final = f"{_PREFIX}Extension_"
_LIFETIME: Final = f"{_PREFIX}LifetimeSeconds"
_USER_CLAIM: Final = f"{_PREFIX}PrincipalClaimName"
_LIFETIME_S: Final = "3600"
_RESERVED: Final = ("exp", "iat")


@dataclass(frozen=True, slots=True)
class UnsecuredTokens:
    claims: Mapping[str, Any]
    lifetime_s: int
    extensions: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def parse(cls, options: Mapping[str, str]) -> UnsecuredTokens:
        """Raises `BadOption`, as Kafka's login does."""
        claims = {}
        for option, value in options.items():
            for prefix, read in _CLAIMS:
                name = option.removeprefix(prefix)
                if name in ("", option):
                    continue
                if name in _RESERVED:
                    raise BadOption(option, f"the claim {name} is computed")
                try:
                    claims[name] = read(value)
                except ValueError:
                    raise BadOption(option, "expected a number") from None
        user_claim = options.get(_USER_CLAIM, "").strip() or "sub"
        user = claims.get(user_claim)
        if not isinstance(user, str) or not user.strip():
            raise BadOption(f"{_STRING}{user_claim}", "must say as whom to sign in")
        lifetime = options.get(_LIFETIME, _LIFETIME_S)
        if not (lifetime.isascii() and lifetime.isdigit() and 0 < len(lifetime) <= 10):
            raise BadOption(_LIFETIME, "expected a number of seconds")
        return cls(claims, int(lifetime), extensions_of(options, UNSECURED_EXTENSION))

    def token(self, wall_ms: int) -> str:
        now_s = wall_ms / 1000
        claims = {"exp": now_s + self.lifetime_s, "iat": now_s, **self.claims}
        return f"{_part({'alg': 'none'})}.{_part(claims)}."


def _number(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(text)
    return number


def _elements(text: str) -> list[str]:
    """Split at the first character. As in Kafka, trailing empty elements are dropped, and any empty
    element adds one more at the end."""
    delimiter, rest = text[:1], text[1:]
    if not rest:
        return []
    elements = rest.split(delimiter)
    while elements and not elements[-1]:
        elements.pop()
    has_empty = (
        rest.startswith(delimiter) or rest.endswith(delimiter) or delimiter + delimiter in rest
    )
    return [*elements, ""] if has_empty else elements


_CLAIMS: Final[tuple[tuple[str, Callable[[str], Any]], ...]] = (
    (_STRING, str),
    (_NUMBER, _number),
    (_LIST, _elements),
)


def _part(value: Mapping[str, Any]) -> str:
    text = json.dumps(value, separators=(",", ":"))
    return urlsafe_b64encode(text.encode()).decode().rstrip("=")
