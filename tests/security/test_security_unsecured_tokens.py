"""Unsecured tokens: what a JAAS line says is in them, and a listener reads them."""

from __future__ import annotations

import json
from base64 import urlsafe_b64decode
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.broker.server.sign_in.oauth import TokenCheck
from ottla.config.security.oauth import OauthSettings
from ottla.security.oauth.unsecured import UnsecuredTokens

NOW_MS = 1_700_000_000_500


def claims_of(token: str) -> dict[str, Any]:
    header, body, signature = token.split(".")
    assert signature == ""
    assert json.loads(urlsafe_b64decode(header + "==")) == {"alg": "none"}
    claims: dict[str, Any] = json.loads(urlsafe_b64decode(body + "=="))
    return claims


def test_a_token_has_the_claims_of_the_jaas_line() -> None:
    tokens = UnsecuredTokens.parse(
        {
            "unsecuredLoginStringClaim_sub": 'ann "é"',
            "unsecuredLoginNumberClaim_level": "7",
            "unsecuredLoginListClaim_scope": "|read|write",
            "unsecuredLoginLifetimeSeconds": "60",
            "unsecuredValidatorRequiredScope": "read",
        }
    )
    assert claims_of(tokens.token(NOW_MS)) == {
        "exp": NOW_MS / 1000 + 60,
        "iat": NOW_MS / 1000,
        "sub": 'ann "é"',
        "level": 7.0,
        "scope": ["read", "write"],
    }


@pytest.mark.parametrize(
    ("text", "elements"),
    [
        ("", []),
        ("|", []),
        ("|a", ["a"]),
        ("|a|b", ["a", "b"]),
        ("|a|", ["a", ""]),
        ("||a", ["", "a", ""]),
        (".a..b", ["a", "", "b", ""]),
    ],
)
def test_lists_are_split_as_kafka_does(text: str, elements: list[str]) -> None:
    options = {"unsecuredLoginStringClaim_sub": "a", "unsecuredLoginListClaim_x": text}
    assert UnsecuredTokens.parse(options).claims["x"] == elements


@given(st.text(min_size=1).filter(str.strip), st.integers(1, 10**6))
def test_a_listener_accepts_every_token_for_its_lifetime(user: str, lifetime_s: int) -> None:
    options = {"unsecuredLoginStringClaim_sub": user}
    options["unsecuredLoginLifetimeSeconds"] = str(lifetime_s)
    token = UnsecuredTokens.parse(options).token(NOW_MS)
    valid = TokenCheck(OauthSettings(None), None).check(token, NOW_MS)
    assert valid.user == user
    assert abs(valid.expires_at_ms - NOW_MS - 1000 * lifetime_s) <= 1
