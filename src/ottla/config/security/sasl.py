"""The `sasl.*` keys of one listener, read together."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from ottla.config.errors import ConfigError, Problem
from ottla.config.security.kerberos import KRB5_MODULE, KerberosSettings, kerberos_settings
from ottla.config.security.listener_keys import ListenerKeys
from ottla.config.security.oauth import OauthSettings, oauth_settings
from ottla.config.security.oauth_login import TOKEN_URL, TokenEndpoint, token_endpoint
from ottla.config.security.sasl_classes import login_problems, server_problems
from ottla.security.jaas import BadJaas, parse_jaas
from ottla.security.java_classes import UNSECURED_LOGIN
from ottla.security.oauth.options import BadOption
from ottla.security.oauth.unsecured import UnsecuredTokens
from ottla.security.scram import SCRAM_MECHANISMS

PLAIN: Final = "PLAIN"
OAUTHBEARER: Final = "OAUTHBEARER"
PASSWORD_MECHANISMS: Final = (PLAIN, *SCRAM_MECHANISMS)
GSSAPI: Final = "GSSAPI"
SERVED_MECHANISMS: Final = (*PASSWORD_MECHANISMS, OAUTHBEARER, GSSAPI)
_OTHERS: Final = ", ".join((*PASSWORD_MECHANISMS, OAUTHBEARER))
_HIDDEN: Final = "[hidden]"
_PLAIN_MODULE: Final = "org.apache.kafka.common.security.plain.PlainLoginModule"
_SCRAM_MODULE: Final = "org.apache.kafka.common.security.scram.ScramLoginModule"
_OAUTH_MODULE: Final = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"
_MODULES: Final = {PLAIN: _PLAIN_MODULE, OAUTHBEARER: _OAUTH_MODULE, GSSAPI: KRB5_MODULE}
_USER_PREFIX: Final = "user_"
_JAAS: Final = "sasl.jaas.config"
_JWKS: Final = "sasl.oauthbearer.jwks.endpoint.url"
_REAUTH: Final = "connections.max.reauth.ms"


@dataclass(frozen=True, slots=True)
class Login:
    """How this node signs in to others: with user and password, or with tokens."""

    mechanism: str
    user: str = ""
    password: str = field(default="", repr=False)
    tokens: UnsecuredTokens | TokenEndpoint | None = None
    kerberos: KerberosSettings | None = None


@dataclass(frozen=True, slots=True)
class SaslSettings:
    mechanisms: tuple[str, ...]
    """Those enabled, in the order in which clients are told of them."""
    plain_users: Mapping[str, str] = field(repr=False)
    """User -> password, for PLAIN."""
    receive_bytes_max: int
    reauth_ms: Mapping[str, int] = field(default_factory=dict)
    """Mechanism -> how long a client may stay signed in without signing in again; 0 for ever."""
    oauth: OauthSettings | None = None
    kerberos: KerberosSettings | None = None


def sasl_settings(keys: ListenerKeys) -> SaslSettings:
    """Return the sign-in of a listener; raises `ConfigError` with every problem."""
    enabled = "sasl.enabled.mechanisms"
    mechanisms: tuple[str, ...] = tuple(keys[enabled] or ())
    problems = [
        Problem(keys.name(enabled), name, f"expected some of {', '.join(SERVED_MECHANISMS)}")
        for name in mechanisms
        if name not in SERVED_MECHANISMS
    ]
    for name in mechanisms:
        if name in SERVED_MECHANISMS:
            problems += server_problems(keys, name)
    if not mechanisms:
        problems.append(Problem(keys.name(enabled), None, "a SASL listener needs a mechanism"))
    users: dict[str, str] = {}
    if PLAIN in mechanisms:
        try:
            users = _plain_users(keys)
        except ConfigError as error:
            problems += (one for one in error.problems if isinstance(one, Problem))
    oauth = None
    if OAUTHBEARER in mechanisms:
        try:
            oauth = _oauth(keys)
        except ConfigError as error:
            problems += (one for one in error.problems if isinstance(one, Problem))
    kerberos = None
    if GSSAPI in mechanisms:
        try:
            kerberos = _kerberos(keys)
        except ConfigError as error:
            problems += (one for one in error.problems if isinstance(one, Problem))
    if problems:
        raise ConfigError(problems)
    reauth_ms = {}
    for name in mechanisms:
        own = keys.of_mechanism(name, _REAUTH)
        reauth_ms[name] = keys[_REAUTH] if own is None else own
    received = keys["sasl.server.max.receive.size"]
    return SaslSettings(mechanisms, users, received, reauth_ms, oauth, kerberos)


def login(keys: ListenerKeys, setting: str) -> Login:
    """Return how this node signs in to others by a listener; raises `ConfigError`. `setting` is the
    key that names the mechanism."""
    mechanism = keys[setting]
    if mechanism not in SERVED_MECHANISMS:
        expected = f"expected one of {', '.join(SERVED_MECHANISMS)}"
        raise ConfigError.of(keys.name(setting), mechanism, expected)
    if problems := list(login_problems(keys, mechanism)):
        raise ConfigError(problems)
    if mechanism == OAUTHBEARER:
        return Login(mechanism, tokens=_tokens(keys))
    if mechanism == GSSAPI:
        return Login(mechanism, kerberos=_kerberos(keys))
    options = _options(keys, mechanism, 'username="admin" password="its password"')
    name = keys.own_name(f"{mechanism.lower()}.{_JAAS}")
    user, password = options.get("username"), options.get("password")
    if not (user and password):
        expected = "the node signs in to others with username and password, which are missing"
        raise ConfigError.of(name, _HIDDEN, expected)
    return Login(mechanism, user, password)


def _oauth(keys: ListenerKeys) -> OauthSettings:
    """Unsecured tokens need a JAAS line, so that nobody has them by forgetting a setting."""
    example = 'unsecuredValidatorRequiredScope=""'
    is_needed = not keys.value_for(OAUTHBEARER, _JWKS)
    return oauth_settings(keys, _options(keys, OAUTHBEARER, example, is_needed=is_needed))


def _tokens(keys: ListenerKeys) -> UnsecuredTokens | TokenEndpoint:
    def value(name: str) -> Any:
        return keys.value_for(OAUTHBEARER, name)

    try:
        handler = keys.of_mechanism(OAUTHBEARER, "sasl.login.callback.handler.class")
        if value(TOKEN_URL) and handler != UNSECURED_LOGIN:
            return token_endpoint(value, _options(keys, OAUTHBEARER, "", is_needed=False))
        if value(_JWKS) and handler != UNSECURED_LOGIN:
            expected = (
                f"{_JWKS} accepts signed tokens only: set it, and the client id and secret with "
                "which this node gets them"
            )
            raise BadOption(TOKEN_URL, expected)
        options = _options(keys, OAUTHBEARER, 'unsecuredLoginStringClaim_sub="admin"')
        return UnsecuredTokens.parse(options)
    except BadOption as error:
        if error.name.startswith("sasl."):
            name = keys.name_for(OAUTHBEARER, error.name)
            raise ConfigError.of(name, None, error.reason) from None
        name = keys.own_name(f"oauthbearer.{_JAAS}")
        raise ConfigError.of(name, _HIDDEN, str(error)) from None


def _kerberos(keys: ListenerKeys) -> KerberosSettings:
    example = 'useKeyTab=true storeKey=true keyTab="/kafka.keytab" principal="kafka/host@REALM"'
    line = keys.own_name(f"{GSSAPI.lower()}.{_JAAS}")
    if keys.of_mechanism(GSSAPI, _JAAS) is None:
        expected = f"GSSAPI, the default, needs it, such as {KRB5_MODULE} required {example};"
        raise ConfigError.of(line, None, f"{expected} other mechanisms are {_OTHERS}")
    return kerberos_settings(keys, _options(keys, GSSAPI, example), line)


def _plain_users(keys: ListenerKeys) -> dict[str, str]:
    return {
        option.removeprefix(_USER_PREFIX): value
        for option, value in _options(keys, PLAIN, 'user_alice="her password"').items()
        if option.startswith(_USER_PREFIX)
    }


def _options(
    keys: ListenerKeys, mechanism: str, example: str, *, is_needed: bool = True
) -> Mapping[str, str]:
    """Return the options of the JAAS line of a mechanism."""
    name = keys.own_name(f"{mechanism.lower()}.{_JAAS}")
    module = _MODULES.get(mechanism, _SCRAM_MODULE)
    text = keys.of_mechanism(mechanism, _JAAS)
    if text is None:
        if not is_needed:
            return {}
        raise ConfigError.of(name, None, f"set it, such as {name}={module} required {example};")
    try:
        entry = parse_jaas(text)
    except BadJaas as error:
        raise ConfigError.of(name, _HIDDEN, str(error)) from None
    if entry.module != module:
        raise ConfigError.of(name, _HIDDEN, f"expected the login module {module}")
    return entry.options
