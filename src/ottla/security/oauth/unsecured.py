"""Tokens without a signature, made as the options of a JAAS line say:

org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required
    unsecuredLoginStringClaim_sub="broker" unsecuredLoginListClaim_scope="|read|write";

Anybody can make them; they are for tests.
"""

from __future__ import annotations

import json
import math
from base64 import urlsafe_b64encode
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

_PREFIX: Final = "unsecuredLogin"
_STRING: Final = f"{_PREFIX}StringClaim_"
_NUMBER: Final = f"{_PREFIX}NumberClaim_"
_LIST: Final = f"{_PREFIX}ListClaim_"
EXTENSION: Final = f"{_PREFIX}Extension_"
_LIFETIME: Final = f"{_PREFIX}LifetimeSeconds"
_USER_CLAIM: Final = f"{_PREFIX}PrincipalClaimName"
_LIFETIME_S: Final = "3600"
_RESERVED: Final = ("exp", "iat")


class BadOption(ValueError):
    """An option of a JAAS line that cannot be used. The message begins with its name."""


@dataclass(frozen=True, slots=True)
class UnsecuredTokens:
    claims: Mapping[str, Any]
    lifetime_s: int

    @classmethod
    def parse(cls, options: Mapping[str, str]) -> UnsecuredTokens:
        """Raises `BadOption`, as Kafka's login does."""
        claims = {}
        for option, value in options.items():
            for prefix, read in ((_STRING, str), (_NUMBER, _number), (_LIST, _elements)):
                name = option.removeprefix(prefix)
                if name not in ("", option):
                    if name in _RESERVED:
                        raise BadOption(f"{option}: the claim {name} is computed")
                    claims[name] = read(value)
        user_claim = options.get(_USER_CLAIM, "").strip() or "sub"
        user = claims.get(user_claim)
        if not isinstance(user, str) or not user.strip():
            raise BadOption(f"{_STRING}{user_claim}: must say as whom to sign in")
        lifetime = options.get(_LIFETIME, _LIFETIME_S)
        if not (lifetime.isascii() and lifetime.isdigit() and 0 < len(lifetime) <= 10):
            raise BadOption(f"{_LIFETIME}: expected a number of seconds")
        return cls(claims, int(lifetime))

    def token(self, wall_ms: int) -> str:
        now_s = wall_ms / 1000
        claims = {"exp": now_s + self.lifetime_s, "iat": now_s, **self.claims}
        return f"{_part({'alg': 'none'})}.{_part(claims)}."


def _number(text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise BadOption(f"{_NUMBER}*: {text!r} is no number")
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


def _part(value: Mapping[str, Any]) -> str:
    text = json.dumps(value, separators=(",", ":"))
    return urlsafe_b64encode(text.encode()).decode().rstrip("=")
