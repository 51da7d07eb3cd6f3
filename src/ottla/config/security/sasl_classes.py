"""The Java classes that settings of a SASL listener may name: Kafka's own ones."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from ottla.config.errors import Problem
from ottla.config.security.listener_keys import ListenerKeys
from ottla.config.security.oauth_login import TOKEN_URL
from ottla.security.java_classes import (
    CLIENT_HANDLERS,
    CREDENTIALS_RETRIEVER,
    FETCHED_LOGIN,
    FILE_RETRIEVER,
    KERBEROS_SERVER,
    LOGIN_HANDLERS,
    LOGINS,
    PASSWORD_LOGIN,
    PLAIN_SERVER,
    RETRIEVERS,
    SCRAM_SERVER,
    SERVER_HANDLERS,
    SIGNED_SERVER,
    UNSECURED_SERVER,
    VALIDATORS,
    refusal,
)

_OAUTH: Final = "OAUTHBEARER"
_SERVER: Final = "sasl.server.callback.handler.class"
_LOGIN: Final = "sasl.login.callback.handler.class"
_JWKS: Final = "sasl.oauthbearer.jwks.endpoint.url"
_RETRIEVER: Final = "sasl.oauthbearer.jwt.retriever.class"


def server_problems(keys: ListenerKeys, mechanism: str) -> Iterator[Problem]:
    """Yield what keeps a listener from accepting clients as these classes say."""
    known = {"PLAIN": PLAIN_SERVER, _OAUTH: SERVER_HANDLERS, "GSSAPI": KERBEROS_SERVER}
    built_in = known.get(mechanism, SCRAM_SERVER)
    name, given = _of_mechanism(keys, mechanism, _SERVER)
    if given and given not in built_in:
        yield Problem(name, given, refusal(built_in))
    if mechanism != _OAUTH:
        return
    has_keys = bool(keys.value_for(mechanism, _JWKS))
    if given in SIGNED_SERVER and not has_keys:
        yield Problem(name, given, f"it checks signatures: set {_JWKS}")
    if given == UNSECURED_SERVER and has_keys:
        expected = f"it accepts tokens without a signature: delete it, or {_JWKS}"
        yield Problem(name, given, expected)
    yield from _validator(keys)


def login_problems(keys: ListenerKeys, mechanism: str) -> Iterator[Problem]:
    """Yield what keeps a node from signing in to others as these classes say."""
    built_in = LOGIN_HANDLERS if mechanism == _OAUTH else PASSWORD_LOGIN
    name, given = _of_mechanism(keys, mechanism, _LOGIN)
    if given and given not in built_in:
        yield Problem(name, given, refusal(built_in))
    name, login = _of_mechanism(keys, mechanism, "sasl.login.class")
    if login and login not in LOGINS:
        yield Problem(name, login, refusal(LOGINS))
    client = "sasl.client.callback.handler.class"
    if (handler := keys[client]) and handler not in CLIENT_HANDLERS:
        yield Problem(keys.name(client), handler, refusal(CLIENT_HANDLERS))
    if mechanism != _OAUTH:
        return
    url = keys.value_for(mechanism, TOKEN_URL)
    if given in FETCHED_LOGIN and not url:
        yield Problem(keys.name_for(mechanism, TOKEN_URL), None, "must say where tokens are had")
    yield from _retriever(keys, is_file=bool(url) and url.lower().startswith("file:"))
    yield from _validator(keys)


def _of_mechanism(keys: ListenerKeys, mechanism: str, base: str) -> tuple[str, str | None]:
    """As in Kafka, these count under the prefix of listener and mechanism only."""
    return keys.own_name(f"{mechanism.lower()}.{base}"), keys.of_mechanism(mechanism, base)


def _retriever(keys: ListenerKeys, *, is_file: bool) -> Iterator[Problem]:
    name, given = keys.name_for(_OAUTH, _RETRIEVER), keys.value_for(_OAUTH, _RETRIEVER)
    if given not in RETRIEVERS:
        yield Problem(name, given, refusal(RETRIEVERS))
    elif given == FILE_RETRIEVER and not is_file:
        yield Problem(name, given, f"{TOKEN_URL} must be the address of a file: file:/path")
    elif given == CREDENTIALS_RETRIEVER and is_file:
        yield Problem(name, given, f"{TOKEN_URL} must be an address of https or http")


def _validator(keys: ListenerKeys) -> Iterator[Problem]:
    base = "sasl.oauthbearer.jwt.validator.class"
    given = keys.value_for(_OAUTH, base)
    if given not in VALIDATORS:
        yield Problem(keys.name_for(_OAUTH, base), given, refusal(VALIDATORS))
