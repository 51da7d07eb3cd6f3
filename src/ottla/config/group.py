"""Settings of single groups, within the broker's bounds."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from ottla.config.broker import BrokerConfig
from ottla.config.definitions.group import KEYS as GROUP_KEYS
from ottla.config.errors import ConfigError, Problem, Unknown
from ottla.config.values import IllTyped

# These have no broker key, only a default of their own.
_OWN_DEFAULTS: Final = frozenset(
    {"share.auto.offset.reset", "share.isolation.level", "share.renew.acknowledge.enable"}
)
GROUP_SYNONYMS: Final = {name: f"group.{name}" for name in GROUP_KEYS if name not in _OWN_DEFAULTS}


def group_values(broker: BrokerConfig, overrides: Mapping[str, str]) -> dict[str, Any]:
    """Return the settings of a group: its own override the broker's; raises `ConfigError`."""
    values = {
        name: broker[GROUP_SYNONYMS[name]] if name in GROUP_SYNONYMS else key.default
        for name, key in GROUP_KEYS.items()
    }
    return values | _parsed(overrides)


def validate_group_overrides(overrides: Mapping[str, str], broker: BrokerConfig) -> None:
    """Refuse with `ConfigError` settings that are unknown, invalid or beyond the broker's
    bounds."""
    given = _parsed(overrides)
    problems = [*_beyond_bounds(given, broker), *_timeouts(group_values(broker, overrides))]
    if problems:
        raise ConfigError(problems)


def _parsed(overrides: Mapping[str, str]) -> dict[str, Any]:
    values: dict[str, Any] = {}
    problems: list[Problem | Unknown] = []
    for name, text in overrides.items():
        key = GROUP_KEYS.get(name)
        if key is None:
            problems.append(Unknown(name, text, f"Unknown group config name: {name}"))
            continue
        try:
            values[name] = key.parse(text)
        except IllTyped as wrong:
            problems.append(Problem(name, text, str(wrong)))
    if problems:
        raise ConfigError(problems)
    return values


def _beyond_bounds(given: Mapping[str, Any], broker: BrokerConfig) -> Iterator[Problem]:
    for name, value in given.items():
        protocol, _, rest = name.partition(".")
        rest = rest.removeprefix("num.")  # the bound of num.standby.replicas lacks the num
        least = broker.get(f"group.{protocol}.min.{rest}")
        most = broker.get(f"group.{protocol}.max.{rest}")
        if least is not None and value < least:
            bound = f"group.{protocol}.min.{rest}"
            yield Problem(name, str(value), f"must be greater than or equal to {bound} ({least})")
        if most is not None and value > most:
            bound = f"group.{protocol}.max.{rest}"
            yield Problem(name, str(value), f"must be less than or equal to {bound} ({most})")


def _timeouts(values: Mapping[str, Any]) -> Iterator[Problem]:
    for protocol in ("consumer", "share", "streams"):
        session, heartbeat = f"{protocol}.session.timeout.ms", f"{protocol}.heartbeat.interval.ms"
        if values[session] <= values[heartbeat]:
            expected = f"must be greater than {heartbeat} ({values[heartbeat]})"
            yield Problem(session, str(values[session]), expected)
