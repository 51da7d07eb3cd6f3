"""A token as its holder sees it. Only the broker can tell whether it is genuine."""

from __future__ import annotations

import json
import re
from base64 import urlsafe_b64decode
from dataclasses import dataclass, field
from typing import Any, Final

TOKEN_BYTES_MAX: Final = 64 * 1024
_TOKEN: Final = re.compile(r"([\w-]+)\.([\w-]+)\.([\w-]+)", re.ASCII)
_TIME_S_MAX: Final = 1e12


class BadToken(ValueError):
    """The message shows nothing of the token."""


@dataclass(frozen=True, slots=True)
class HeldToken:
    text: str = field(repr=False)
    issued_at_ms: int | None
    expires_at_ms: int

    @classmethod
    def parse(cls, text: str) -> HeldToken:
        """Raises `BadToken`. As in Kafka, a token needs three parts and a time of expiry."""
        if len(text) > TOKEN_BYTES_MAX:
            raise BadToken(f"it has more than {TOKEN_BYTES_MAX} bytes")
        match = _TOKEN.fullmatch(text)
        if match is None:
            raise BadToken("it is no JWT, which has three parts with dots between them")
        claims = _claims(match[2])
        expires_at_ms = _time_ms(claims, "exp")
        if expires_at_ms is None:
            raise BadToken("it does not say when it expires (exp)")
        return cls(text, _time_ms(claims, "iat"), expires_at_ms)


def _claims(part: str) -> dict[str, Any]:
    try:
        claims = json.loads(urlsafe_b64decode(part + "=" * (-len(part) % 4)))
    except (ValueError, RecursionError):
        claims = None
    if not isinstance(claims, dict):
        raise BadToken("its claims are not readable")
    return claims


def _time_ms(claims: dict[str, Any], name: str) -> int | None:
    value = claims.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise BadToken(f"its {name} is no time")
    if not 0 <= value < _TIME_S_MAX:
        raise BadToken(f"its {name} is no time")
    return int(value * 1000)
