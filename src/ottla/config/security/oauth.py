"""How a listener checks OAUTHBEARER tokens: those that a provider has signed, or unsecured ones."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from ottla.config.errors import ConfigError
from ottla.config.security.listener_keys import ListenerKeys

_JWKS: Final = "sasl.oauthbearer.jwks.endpoint.url"
_OPTION: Final = "unsecuredValidator"
URL_SCHEMES: Final = ("file", "http", "https")


@dataclass(frozen=True, slots=True)
class ProviderKeys:
    """Where the keys of the provider are, and how often they are read."""

    url: str
    refresh_ms: int
    retry_ms: int
    retry_max_ms: int


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
    """Raises `ConfigError`. `jaas_options` are those of the JAAS line, for unsecured tokens."""
    url = keys[_JWKS]
    if not url:
        return _unsecured(keys, jaas_options)
    if url.partition("://")[0] not in URL_SCHEMES:
        raise ConfigError.of(keys.name(_JWKS), url, f"expected {', '.join(URL_SCHEMES)}")
    issuer, audiences = "sasl.oauthbearer.expected.issuer", "sasl.oauthbearer.expected.audience"
    for name in (issuer, audiences):
        if not keys[name]:
            expected = "must be set: a token that the provider made for somebody else is no sign-in"
            raise ConfigError.of(keys.name(name), None, expected)
    return OauthSettings(
        ProviderKeys(
            url,
            keys["sasl.oauthbearer.jwks.endpoint.refresh.ms"],
            keys["sasl.oauthbearer.jwks.endpoint.retry.backoff.ms"],
            keys["sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms"],
        ),
        tuple(keys[audiences]),
        keys[issuer],
        keys["sasl.oauthbearer.clock.skew.seconds"] * 1000,
        keys["sasl.oauthbearer.scope.claim.name"],
        keys["sasl.oauthbearer.sub.claim.name"],
    )


def _unsecured(keys: ListenerKeys, options: Mapping[str, str]) -> OauthSettings:
    skew = options.get(f"{_OPTION}AllowableClockSkewMs", "0")
    if not (skew.isascii() and skew.isdigit()):
        name = keys.own_name("oauthbearer.sasl.jaas.config")
        raise ConfigError.of(name, skew, f"{_OPTION}AllowableClockSkewMs is a number")
    return OauthSettings(
        None,
        clock_skew_ms=int(skew),
        scope_claim=options.get(f"{_OPTION}ScopeClaimName", "scope"),
        user_claim=options.get(f"{_OPTION}PrincipalClaimName", "sub"),
        required_scope=frozenset(options.get(f"{_OPTION}RequiredScope", "").split()),
    )
