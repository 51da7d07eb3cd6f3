"""The `sasl.*` keys of one listener, read together."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from ottla.config.errors import ConfigError, Problem
from ottla.config.security.listener_keys import ListenerKeys
from ottla.security.jaas import BadJaas, parse_jaas
from ottla.security.scram import SCRAM_MECHANISMS

PLAIN: Final = "PLAIN"
SERVED_MECHANISMS: Final = (PLAIN, *SCRAM_MECHANISMS)
_HIDDEN: Final = "[hidden]"
_PLAIN_MODULE: Final = "org.apache.kafka.common.security.plain.PlainLoginModule"
_USER_PREFIX: Final = "user_"
_JAAS: Final = "sasl.jaas.config"


@dataclass(frozen=True, slots=True)
class SaslSettings:
    mechanisms: tuple[str, ...]
    """Those enabled, in the order in which clients are told of them."""
    plain_users: Mapping[str, str] = field(repr=False)
    """User -> password, for PLAIN."""
    receive_bytes_max: int


def sasl_settings(keys: ListenerKeys) -> SaslSettings:
    """Return the sign-in of a listener; raises `ConfigError` with every problem."""
    enabled = "sasl.enabled.mechanisms"
    mechanisms: tuple[str, ...] = tuple(keys[enabled] or ())
    problems = [
        Problem(keys.name(enabled), name, f"expected some of {', '.join(SERVED_MECHANISMS)}")
        for name in mechanisms
        if name not in SERVED_MECHANISMS
    ]
    if not mechanisms:
        problems.append(Problem(keys.name(enabled), None, "a SASL listener needs a mechanism"))
    users: dict[str, str] = {}
    if PLAIN in mechanisms:
        try:
            users = _plain_users(keys)
        except ConfigError as error:
            problems += (one for one in error.problems if isinstance(one, Problem))
    if problems:
        raise ConfigError(problems)
    return SaslSettings(mechanisms, users, keys["sasl.server.max.receive.size"])


def _plain_users(keys: ListenerKeys) -> dict[str, str]:
    name = keys.own_name(f"plain.{_JAAS}")
    text = keys.of_mechanism(PLAIN, _JAAS)
    if text is None:
        example = f'{_PLAIN_MODULE} required user_alice="her password";'
        raise ConfigError.of(name, None, f"PLAIN needs its users: {name}={example}")
    try:
        entry = parse_jaas(text)
    except BadJaas as error:
        raise ConfigError.of(name, _HIDDEN, str(error)) from None
    if entry.module != _PLAIN_MODULE:
        raise ConfigError.of(name, _HIDDEN, f"expected the login module {_PLAIN_MODULE}")
    return {
        option.removeprefix(_USER_PREFIX): value
        for option, value in entry.options.items()
        if option.startswith(_USER_PREFIX)
    }
