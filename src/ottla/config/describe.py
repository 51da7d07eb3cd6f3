"""DescribeConfigs: the value in force, where it comes from, and its synonyms."""

from collections.abc import Collection, Iterator, Mapping
from enum import IntEnum
from typing import NamedTuple

from ottla.config.broker import BrokerConfig
from ottla.config.definitions import BROKER_KEYS
from ottla.config.definitions.quotas import RUN_TIME_ONLY
from ottla.config.dynamic import is_read_only
from ottla.config.keys import ConfigKey
from ottla.config.names import find_key
from ottla.config.synonyms import BROKER_SYNONYMS, TOPIC_SYNONYMS
from ottla.config.values import IllTyped, value_text

_UNKNOWN_TYPE = 0


class ConfigSource(IntEnum):
    """The source of a value, with its number in the protocol; lower numbers take precedence."""

    TOPIC_CONFIG = 1
    DYNAMIC_BROKER_CONFIG = 2
    DYNAMIC_DEFAULT_BROKER_CONFIG = 3
    STATIC_BROKER_CONFIG = 4
    DEFAULT_CONFIG = 5
    DYNAMIC_BROKER_LOGGER_CONFIG = 6
    CLIENT_METRICS_CONFIG = 7
    GROUP_CONFIG = 8


class ConfigSynonym(NamedTuple):
    """A source that has a value for the key, perhaps under another name."""

    name: str
    value: str | None
    source: ConfigSource


class ConfigEntry(NamedTuple):
    """A key of a resource, as in DescribeConfigs. Sensitive values are None."""

    name: str
    value: str | None
    source: ConfigSource
    read_only: bool
    sensitive: bool
    synonyms: tuple[ConfigSynonym, ...]
    type: int
    doc: str | None

    @property
    def is_default(self) -> bool:
        return self.source is ConfigSource.DEFAULT_CONFIG


def describe_topic(
    overrides: Mapping[str, str], broker: BrokerConfig, names: Collection[str] | None = None
) -> list[ConfigEntry]:
    """Return a topic's settings; `names` limits the answer to those keys."""
    from ottla.config.definitions.topic import KEYS

    entries = []
    for name, key in KEYS.items():
        if not _wanted(name, names) or (key.internal and name not in overrides):
            continue
        synonyms: tuple[ConfigSynonym, ...] = ()
        value = key.default_text
        if name in TOPIC_SYNONYMS:
            strongest = TOPIC_SYNONYMS[name][0].name
            value = value_text(broker[strongest])
            synonyms = _broker_synonyms(strongest, broker)
        if name in overrides:
            value = _shown(key, overrides[name])
            synonyms = (ConfigSynonym(name, value, ConfigSource.TOPIC_CONFIG), *synonyms)
        entries.append(_entry(name, value, synonyms, key))
    return entries


def describe_broker(
    broker: BrokerConfig, names: Collection[str] | None = None
) -> list[ConfigEntry]:
    """Return a broker's settings: all public keys that a file may have, and everything else that
    was set."""
    given = {**broker.explicit, **broker.cluster_default, **broker.per_broker}
    public = [
        name for name, key in BROKER_KEYS.items() if not key.internal and name not in RUN_TIME_ONLY
    ]
    return [
        _broker_entry(name, broker, _broker_synonyms(name, broker))
        for name in dict.fromkeys([*public, *given])
        if _wanted(name, names)
    ]


def describe_cluster_default(
    broker: BrokerConfig, names: Collection[str] | None = None
) -> list[ConfigEntry]:
    """Return the run-time settings for all brokers, which DescribeConfigs lists under an empty
    name."""
    source = ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG
    return [
        _broker_entry(name, broker, _from(source, broker.cluster_default, [name]))
        for name in broker.cluster_default
        if _wanted(name, names)
    ]


def describe_group(
    overrides: Mapping[str, str], broker: BrokerConfig, names: Collection[str] | None = None
) -> list[ConfigEntry]:
    """Return a group's settings, which override those of the broker."""
    from ottla.config.definitions.group import KEYS
    from ottla.config.group import GROUP_SYNONYMS, group_values

    entries = []
    for name, effective in group_values(broker, overrides).items():
        if not _wanted(name, names):
            continue
        value = value_text(effective)
        if name in GROUP_SYNONYMS:
            synonyms = _broker_synonyms(GROUP_SYNONYMS[name], broker)
        else:
            own_default = KEYS[name].default_text
            synonyms = (ConfigSynonym(name, own_default, ConfigSource.DEFAULT_CONFIG),)
        if name in overrides:
            synonyms = (ConfigSynonym(name, value, ConfigSource.GROUP_CONFIG), *synonyms)
        entries.append(_entry(name, value, synonyms, KEYS[name]))
    return entries


def describe_client_metrics(
    overrides: Mapping[str, str], names: Collection[str] | None = None
) -> list[ConfigEntry]:
    """Return a subscription's settings, with defaults for the rest."""
    from ottla.config.definitions.client_metrics import KEYS

    entries = []
    for name, key in KEYS.items():
        if _wanted(name, names):
            value = key.default_text
            own: tuple[ConfigSynonym, ...] = ()
            if name in overrides:
                value = _shown(key, overrides[name])
                own = (ConfigSynonym(name, value, ConfigSource.CLIENT_METRICS_CONFIG),)
            entries.append(_entry(name, value, own, key))
    return entries


def _wanted(name: str, names: Collection[str] | None) -> bool:
    return not names or name in names


def _entry(
    name: str, value: str | None, synonyms: tuple[ConfigSynonym, ...], key: ConfigKey
) -> ConfigEntry:
    source = synonyms[0].source if synonyms else ConfigSource.DEFAULT_CONFIG
    return ConfigEntry(name, value, source, False, key.sensitive, synonyms, key.type, key.doc)


def _broker_entry(
    name: str, broker: BrokerConfig, synonyms: tuple[ConfigSynonym, ...]
) -> ConfigEntry:
    key = find_key(name)
    if key is None:  # a plugin's key may be a password: Kafka hides them all
        source = synonyms[0].source
        return ConfigEntry(
            name, None, source, is_read_only(name), True, synonyms, _UNKNOWN_TYPE, None
        )
    value: str | None
    if name == "broker.id":
        value = str(broker.node_id)
    elif synonyms:
        value = synonyms[0].value
    else:
        # Keys that Ottla has a default for have a value although Kafka has no default.
        value = None if key.sensitive or name in BROKER_SYNONYMS else value_text(broker.get(name))
    source = synonyms[0].source if synonyms else ConfigSource.DEFAULT_CONFIG
    read_only = is_read_only(name)
    doc = None if name in RUN_TIME_ONLY else key.doc
    return ConfigEntry(name, value, source, read_only, key.sensitive, synonyms, key.type, doc)


def _broker_synonyms(name: str, broker: BrokerConfig) -> tuple[ConfigSynonym, ...]:
    """Return all values for a broker key, strongest first.

    As in Kafka, the list begins at the first one with the key's own name: a topic's `retention.ms`
    that comes from `log.retention.hours` counts as default.
    """
    in_line = list(_in_line(_standing_for(name), broker))
    own = next((at for at, synonym in enumerate(in_line) if synonym.name == name), len(in_line))
    return tuple(in_line[own:])


def _in_line(names: list[str], broker: BrokerConfig) -> Iterator[ConfigSynonym]:
    yield from _from(ConfigSource.DYNAMIC_BROKER_CONFIG, broker.per_broker, names)
    yield from _from(ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG, broker.cluster_default, names)
    yield from _from(ConfigSource.STATIC_BROKER_CONFIG, broker.explicit, names)
    for name in names:
        key = BROKER_KEYS.get(name)
        if key is None or name in RUN_TIME_ONLY:
            continue
        if key.default is not None and not key.sensitive:
            yield ConfigSynonym(name, key.default_text, ConfigSource.DEFAULT_CONFIG)


def _from(
    source: ConfigSource, given: Mapping[str, str], names: list[str]
) -> tuple[ConfigSynonym, ...]:
    return tuple(
        ConfigSynonym(name, _shown(find_key(name), given[name]), source)
        for name in names
        if name in given
    )


def _standing_for(name: str) -> list[str]:
    """Return the names under which a key's value may have been given, strongest first."""
    for synonyms in BROKER_SYNONYMS.values():
        names = [synonym.name for synonym in synonyms]
        if name in names and name != "log.flush.scheduler.interval.ms":
            return names
    return [name]


def _shown(key: ConfigKey | None, text: str) -> str | None:
    """Return the text in its canonical form; None if it must not be shown."""
    if key is None or key.sensitive:
        return None
    try:
        return value_text(key.parse(text))
    except IllTyped:
        return text
