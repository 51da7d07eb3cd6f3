"""Which broker settings an administrator may change while the broker runs."""

import re
from collections.abc import Iterator, Mapping
from typing import Final

from ottla.config.definitions import BROKER_KEYS
from ottla.config.errors import ConfigError, Problem, Unknown
from ottla.config.keys import ConfigKey
from ottla.config.names import find_key, is_listener_key
from ottla.config.updates import PER_BROKER, READ_ONLY
from ottla.config.values import IllTyped

# Kafka changes these for single listeners only, so that no other listener loses its certificates.
_PER_LISTENER: Final = r"ssl\.(key\.password|(keystore|truststore)\..+)"
# Dynamic in Kafka; here the sockets are opened once.
_FIXED_HERE: Final = frozenset({"listeners", "listener.security.protocol.map"})


def validate_broker_overrides(overrides: Mapping[str, str], *, cluster_default: bool) -> None:
    """Refuses with `ConfigError` what cannot change at run time, either for all brokers
    (`cluster_default`) or for one. Names nobody knows pass, as Kafka lets them, for plugins."""
    problems = list(_problems(overrides, cluster_default))
    if problems:
        raise ConfigError(problems)


def _problems(overrides: Mapping[str, str], cluster_default: bool) -> Iterator[Problem | Unknown]:
    for name, text in overrides.items():
        key = find_key(name)
        if key is None:
            continue
        if refusal := _refusal(name, key, cluster_default):
            yield Unknown(name, text, f"{refusal}: {name}")
            continue
        try:
            key.parse(text)
        except IllTyped as wrong:
            yield Problem(name, "[hidden]" if key.sensitive else text, str(wrong))


def _refusal(name: str, key: ConfigKey, cluster_default: bool) -> str | None:
    for_listener = is_listener_key(name)
    if not for_listener:
        if key.update_mode == READ_ONLY or name in _FIXED_HERE:
            return "Cannot be changed while the broker runs, only in its file"
        if re.fullmatch(_PER_LISTENER, name):
            return "Can be changed for single listeners only (listener.name.<name>.<key>)"
    if cluster_default and key.update_mode in (
        (PER_BROKER, READ_ONLY) if for_listener else (PER_BROKER,)
    ):
        return "Cannot be set for all brokers at once, name a broker"
    return None


def is_read_only(name: str) -> bool:
    """Whether a restart is needed to change `name`, as DescribeConfigs tells it."""
    key = BROKER_KEYS.get(name)
    return key is None or key.update_mode == READ_ONLY or name in _FIXED_HERE
