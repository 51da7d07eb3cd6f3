"""Where a client, or a node that signs in to others, gets its OAUTHBEARER tokens: from an identity
provider by client credentials, or from a file that somebody else keeps fresh."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

from ottla.config.security.provider_tls import SYSTEM_TLS, ProviderTls, provider_tls
from ottla.security.oauth.options import BadOption, extensions_of

TOKEN_URL: Final = "sasl.oauthbearer.token.endpoint.url"
_CLIENT_ID: Final = "sasl.oauthbearer.client.credentials.client.id"
_CLIENT_SECRET: Final = "sasl.oauthbearer.client.credentials.client.secret"
_SCOPE: Final = "sasl.oauthbearer.scope"
_CONNECT: Final = "sasl.login.connect.timeout.ms"
_READ: Final = "sasl.login.read.timeout.ms"
_EXTENSION: Final = "extension_"
Value: TypeAlias = Callable[[str], Any]
_TIMEOUT_MS: Final = 10_000
"""Java waits for ever, unless told otherwise."""
_SCHEMES: Final = ("file", "http", "https")


@dataclass(frozen=True, slots=True)
class RefreshWindow:
    """When a token is replaced: after a part of its life, which has a random part."""

    factor: float = 0.8
    jitter: float = 0.05
    period_min_ms: int = 60_000
    buffer_ms: int = 300_000
    """What is left of a token's life when it is replaced, at least, if it lives long enough."""


_REFRESH: Final = RefreshWindow()


@dataclass(frozen=True, slots=True)
class TokenEndpoint:
    url: str
    client_id: str = ""
    client_secret: str = field(default="", repr=False)
    scope: str = ""
    urlencodes: bool = False
    connect_ms: int = _TIMEOUT_MS
    read_ms: int = _TIMEOUT_MS
    retry_ms: int = 100
    retry_max_ms: int = 10_000
    refresh: RefreshWindow = _REFRESH
    tls: ProviderTls = SYSTEM_TLS
    extensions: Mapping[str, str] = field(default_factory=dict)

    @property
    def is_file(self) -> bool:
        return self.url.partition(":")[0].lower() == "file"


def token_endpoint(
    value: Value, jaas: Mapping[str, str], *, urlencodes: bool = False
) -> TokenEndpoint:
    """`value` returns the value of a setting by Kafka's name; options of the JAAS line count where
    it returns None. Raises `BadOption`."""
    url = str(value(TOKEN_URL)).strip()
    if url.partition(":")[0].lower() not in _SCHEMES or "@" in url:
        raise BadOption(TOKEN_URL, f"expected an address: {', '.join(_SCHEMES)}, without a user")
    return TokenEndpoint(
        url,
        scope=_text(value, jaas, _SCOPE, "scope"),
        urlencodes=urlencodes,
        connect_ms=value(_CONNECT) or _TIMEOUT_MS,
        read_ms=value(_READ) or _TIMEOUT_MS,
        retry_ms=value("sasl.login.retry.backoff.ms"),
        retry_max_ms=value("sasl.login.retry.backoff.max.ms"),
        refresh=_window(value),
        tls=provider_tls(jaas),
        extensions=extensions_of(jaas, _EXTENSION),
        **_credentials(value, jaas, is_needed=not url.lower().startswith("file:")),
    )


def _credentials(value: Value, jaas: Mapping[str, str], *, is_needed: bool) -> dict[str, str]:
    client_id = _text(value, jaas, _CLIENT_ID, "clientId")
    secret = _text(value, jaas, _CLIENT_SECRET, "clientSecret")
    for name, found in ((_CLIENT_ID, client_id), (_CLIENT_SECRET, secret)):
        if is_needed and not found:
            raise BadOption(name, f"must be set: {TOKEN_URL} gives tokens for it")
    return {"client_id": client_id, "client_secret": secret}


def _text(value: Value, jaas: Mapping[str, str], name: str, option: str) -> str:
    found = value(name)
    return str(jaas.get(option, "") if found is None else found).strip()


def _window(value: Value) -> RefreshWindow:
    return RefreshWindow(
        _within(value, "sasl.login.refresh.window.factor", 0.5, 1.0),
        _within(value, "sasl.login.refresh.window.jitter", 0.0, 0.25),
        int(_within(value, "sasl.login.refresh.min.period.seconds", 0, 900)) * 1000,
        int(_within(value, "sasl.login.refresh.buffer.seconds", 0, 3600)) * 1000,
    )


def _within(value: Value, name: str, low: float, high: float) -> float:
    found: float = value(name)
    if not low <= found <= high:
        raise BadOption(name, f"expected {low:g} to {high:g}, not {found}")
    return found
