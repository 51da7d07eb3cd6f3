"""How a listener checks OAUTHBEARER tokens: those that a provider has signed, or unsecured ones."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from ottla.config.errors import ConfigError
from ottla.config.security.listener_keys import ListenerKeys
from ottla.config.security.provider_tls import SYSTEM_TLS, ProviderTls, provider_tls
from ottla.security.oauth.options import BadOption

_JWKS: Final = "sasl.oauthbearer.jwks.endpoint.url"
_LINE: Final = "oauthbearer.sasl.jaas.config"
_MECHANISM: Final = "OAUTHBEARER"
_OPTION: Final = "unsecuredValidator"
URL_SCHEMES: Final = ("file", "http", "https")


@dataclass(frozen=True, slots=True)
class ProviderKeys:
    """Where the keys of the provider are, and how often they are read."""

    url: str
    refresh_ms: int
    retry_ms: int
    retry_max_ms: int
    tls: ProviderTls = SYSTEM_TLS


@dataclass(frozen=True, slots=True)
class OauthSettings:
    keys: ProviderKeys | None
    """None: unsecured tokens, which anybody can make."""
    audiences: tuple[str, ...] = ()
    issuer: str = ""
    clock_skew_ms: int = 0
    scope_claim: str = "scope"
    user_claim: str = "sub"
    required_scope: frozenset[str] = field(default_factory=frozenset)


def oauth_settings(keys: ListenerKeys, jaas_options: Mapping[str, str]) -> OauthSettings:
    """Raises `ConfigError`. `jaas_options` are those of the JAAS line."""

    def value(name: str) -> Any:
        return keys.value_for(_MECHANISM, name)

    url = value(_JWKS)
    if not url:
        return _unsecured(keys, jaas_options)
    if url.partition(":")[0].lower() not in URL_SCHEMES:
        name = keys.name_for(_MECHANISM, _JWKS)
        raise ConfigError.of(name, url, f"expected {', '.join(URL_SCHEMES)}")
    issuer, audiences = "sasl.oauthbearer.expected.issuer", "sasl.oauthbearer.expected.audience"
    for name in (issuer, audiences):
        if not value(name):
            expected = "must be set: a token that the provider made for somebody else is no sign-in"
            raise ConfigError.of(keys.name_for(_MECHANISM, name), None, expected)
    try:
        tls = provider_tls(jaas_options)
    except BadOption as error:
        raise ConfigError.of(keys.own_name(_LINE), None, str(error)) from None
    return OauthSettings(
        ProviderKeys(
            url,
            value("sasl.oauthbearer.jwks.endpoint.refresh.ms"),
            value("sasl.oauthbearer.jwks.endpoint.retry.backoff.ms"),
            value("sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms"),
            tls,
        ),
        tuple(value(audiences)),
        value(issuer),
        value("sasl.oauthbearer.clock.skew.seconds") * 1000,
        value("sasl.oauthbearer.scope.claim.name"),
        value("sasl.oauthbearer.sub.claim.name"),
    )


def _unsecured(keys: ListenerKeys, options: Mapping[str, str]) -> OauthSettings:
    skew = options.get(f"{_OPTION}AllowableClockSkewMs", "0")
    if not (skew.isascii() and skew.isdigit()):
        raise ConfigError.of(
            keys.own_name(_LINE), skew, f"{_OPTION}AllowableClockSkewMs is a number"
        )
    return OauthSettings(
        None,
        clock_skew_ms=int(skew),
        scope_claim=options.get(f"{_OPTION}ScopeClaimName", "scope"),
        user_claim=options.get(f"{_OPTION}PrincipalClaimName", "sub"),
        required_scope=frozenset(options.get(f"{_OPTION}RequiredScope", "").split()),
    )
