"""Settings of client metrics subscriptions: which clients report which metrics, and how often."""

import re
from collections.abc import Mapping
from typing import Final

from ottla.config.definitions.client_metrics import KEYS as CLIENT_METRICS_KEYS
from ottla.config.errors import ConfigError, Problem, Unknown
from ottla.config.values import IllTyped

_INTERVAL_MS: Final = range(100, 3_600_001)
_MATCHABLE: Final = frozenset(
    {
        "client_id",
        "client_instance_id",
        "client_software_name",
        "client_software_version",
        "client_source_address",
        "client_source_port",
    }
)


def validate_client_metrics(overrides: Mapping[str, str]) -> None:
    """Refuse with `ConfigError` an invalid subscription."""
    problems: list[Problem | Unknown] = []
    for name, text in overrides.items():
        key = CLIENT_METRICS_KEYS.get(name)
        if key is None:
            message = f"Unknown client metrics configuration: {name}"
            problems.append(Unknown(name, text, message))
            continue
        try:
            value = key.parse(text)
        except IllTyped as wrong:
            problems.append(Problem(name, text, str(wrong)))
            continue
        if name == "interval.ms" and value not in _INTERVAL_MS:
            problems.append(Problem(name, text, "expected 100 to 3600000 (one hour)"))
        if name == "match":
            problems += [Problem(name, item, _MATCH) for item in value if not _is_match(item)]
    if problems:
        raise ConfigError(problems)


_MATCH: Final = f"expected parameter=pattern with one of {', '.join(sorted(_MATCHABLE))}"


def _is_match(item: str) -> bool:
    name, equals, pattern = item.partition("=")
    try:
        re.compile(pattern)
    except re.error:
        return False
    return bool(equals) and name.strip() in _MATCHABLE
