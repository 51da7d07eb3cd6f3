"""Checks of changes at run time, beyond those of the file: Kafka's rules of dynamic settings."""

from collections.abc import Collection, Iterable, Iterator
from typing import Final

from ottla.config.broker import BrokerConfig
from ottla.config.definitions import tls
from ottla.config.errors import ConfigError, Unknown
from ottla.config.names import find_key

_THREADS: Final = (
    "background.threads",
    "num.io.threads",
    "num.network.threads",
    "num.recovery.threads.per.data.dir",
    "num.replica.fetchers",
    "remote.log.manager.copier.thread.pool.size",
    "remote.log.manager.expiration.thread.pool.size",
    "remote.log.manager.follower.thread.pool.size",
    "remote.log.reader.threads",
)
_CONNECTION_LIMITS: Final = ("max.connections", "max.connection.creation.rate")
_CHANGEABLE_OF_LISTENERS: Final = frozenset({*_CONNECTION_LIMITS, "num.network.threads"})


def check_reconfiguration(now: BrokerConfig, then: BrokerConfig, told: Collection[str]) -> None:
    """Refuse with `ConfigError` a change from `now` to `then`. `told` are the names of the
    listeners that the broker is registered with, which clients and other brokers use."""
    # Unknown names pass, as in Kafka, for plugins.
    problems = [one for one in then.ignored if one not in now.ignored and find_key(one.key)]
    if not problems:
        problems = [
            *_threads(now, then),
            *_connections(now, then),
            *_listeners(then, told),
            *_existing_listeners(now, then),
        ]
    if problems:
        raise ConfigError(problems)


def changes_tls(now: BrokerConfig, then: BrokerConfig, names: Iterable[str]) -> bool:
    """True if a change of these keys makes a listener use other TLS settings, or makes it read its
    files again."""
    if then.tls_listeners != now.tls_listeners:
        return True
    prefixes = tuple(f"listener.name.{name.lower()}.ssl." for name in then.tls_listeners)
    return any(name.startswith(prefixes) for name in names)


def _existing_listeners(now: BrokerConfig, then: BrokerConfig) -> Iterator[Unknown]:
    """Refuse what a listener reads only when it is opened, such as how its clients sign in."""
    names = {listener.name for listener in now.listeners}
    for name in sorted(names & {listener.name for listener in then.listeners}):
        prefix = f"listener.name.{name.lower()}."
        before, after = _fixed(now, prefix), _fixed(then, prefix)
        for key in sorted(before.keys() | after.keys()):
            if before.get(key) != after.get(key):
                reason = (
                    f"Configs cannot be updated dynamically for existing listener {name}, restart "
                    f"broker or create a new listener for update: {key}"
                )
                yield Unknown(key, None, reason)


def _fixed(config: BrokerConfig, prefix: str) -> dict[str, str]:
    given = {**config.explicit, **config.cluster_default, **config.per_broker}
    return {
        name: text
        for name, text in given.items()
        if name.startswith(prefix)
        and (base := name.removeprefix(prefix)) not in tls.KEYS
        and base not in _CHANGEABLE_OF_LISTENERS
    }


def _threads(now: BrokerConfig, then: BrokerConfig) -> Iterator[Unknown]:
    for name in _THREADS:
        before, after = now[name], then[name]
        failed = f"Dynamic thread count update validation failed for {name}={after}"
        if after < before // 2:
            reason = f"{failed}, value should be at least half the current value {before}"
            yield Unknown(name, str(after), reason)
        if after > before * 2:
            reason = f"{failed}, value should not be greater than double the current value {before}"
            yield Unknown(name, str(after), reason)
    name = "log.cleaner.threads"
    before, after = now[name], then[name]
    if after < 1 <= before:
        yield Unknown(name, str(after), "Log cleaner threads should be at least 1")
    elif after < before // 2:
        reason = "Log cleaner threads cannot be reduced to less than half the current value"
        yield Unknown(name, str(after), f"{reason} {before}")
    if after > before * 2:
        reason = "Log cleaner threads cannot be increased to more than double the current value"
        yield Unknown(name, str(after), f"{reason} {before}")


def _connections(now: BrokerConfig, then: BrokerConfig) -> Iterator[Unknown]:
    for name in _CONNECTION_LIMITS:
        if then[name] != now[name] and then[name] <= 0:
            yield Unknown(name, str(then[name]), f"Invalid {name} {then[name]}")


def _listeners(then: BrokerConfig, told: Collection[str]) -> Iterator[Unknown]:
    names = [listener.name for listener in then.listeners]
    if not set(told) <= set(names):
        reason = (
            f"Advertised listeners {sorted(told)} must be a subset of listeners {names}; to remove "
            "one that clients know, start the broker once with advertised.listeners that leave it "
            "out, and then change listeners"
        )
        yield Unknown("listeners", ",".join(names), reason)
