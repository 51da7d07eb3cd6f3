"""The broker settings that may change while the broker runs."""

import re
from collections.abc import Iterator, Mapping
from typing import Final

from ottla.config.authorization import (
    AUTHORIZER_KEYS,
    BUILDER_KEY,
    principal_builder_problems,
)
from ottla.config.definitions import BROKER_KEYS
from ottla.config.errors import ConfigError, Problem, Unknown
from ottla.config.keys import ConfigKey
from ottla.config.names import find_key, is_listener_key
from ottla.config.updates import PER_BROKER, READ_ONLY
from ottla.config.values import IllTyped

_NOT_DYNAMIC: Final = "Cannot update these configs dynamically"
# Kafka changes these for single listeners only, so that no other listener loses its certificates.
_PER_LISTENER: Final = r"ssl\.(key\.password|(keystore|truststore)\..+)"


def validate_broker_overrides(overrides: Mapping[str, str], *, cluster_default: bool) -> None:
    """Refuse with `ConfigError` settings that cannot change at run time, either for all brokers
    (`cluster_default`) or for one. Unknown names pass, as in Kafka, for plugins."""
    problems = list(_problems(overrides, cluster_default))
    if problems:
        raise ConfigError(problems)


def _problems(overrides: Mapping[str, str], cluster_default: bool) -> Iterator[Problem | Unknown]:
    refused: dict[str, list[str]] = {}
    ill_typed: list[Problem] = []
    for name, text in overrides.items():
        key = find_key(name)
        if key is None:
            if name in AUTHORIZER_KEYS:
                # Kafka stores them, and they never have an effect.
                refused.setdefault(_NOT_DYNAMIC, []).append(name)
            continue
        if refusal := _refusal(name, key, cluster_default):
            refused.setdefault(refusal, []).append(name)
            continue
        if key.name == BUILDER_KEY:
            ill_typed += principal_builder_problems({name: text})
            continue
        try:
            key.parse(text)
        except IllTyped as wrong:
            ill_typed.append(Problem(name, "[hidden]" if key.sensitive else text, str(wrong)))
    for refusal, names in refused.items():
        yield Unknown(names[0], overrides[names[0]], f"{refusal}: [{', '.join(names)}]")
    yield from ill_typed


def _refusal(name: str, key: ConfigKey, cluster_default: bool) -> str | None:
    for_listener = is_listener_key(name)
    if not for_listener:
        if key.update_mode == READ_ONLY:
            return _NOT_DYNAMIC
        if re.fullmatch(_PER_LISTENER, name):
            return (
                "These security configs can be dynamically updated only per-listener using the "
                "listener prefix"
            )
    if cluster_default and key.update_mode in (
        (PER_BROKER, READ_ONLY) if for_listener else (PER_BROKER,)
    ):
        return "Cannot update these configs at default cluster level, broker id must be specified"
    return None


def is_read_only(name: str) -> bool:
    """True if `name` can only be changed by a restart, for DescribeConfigs."""
    key = BROKER_KEYS.get(name)
    return key is None or key.update_mode == READ_ONLY
