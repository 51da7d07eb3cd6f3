"""Distinguishes keys that are known, for plugins, removed, or misspelt."""

from collections.abc import Iterable
from typing import Final

from ottla.config.definitions import BROKER_KEYS
from ottla.config.errors import Unknown
from ottla.config.keys import ConfigKey

_LISTENER_PREFIX: Final = "listener.name."

# Under a listener's prefix these come with a SASL mechanism in front, as in
# `listener.name.internal.plain.sasl.jaas.config`.
_MECHANISM_KEYS: Final = (
    "connections.max.reauth.ms",
    "sasl.jaas.config",
    "sasl.login.callback.handler.class",
    "sasl.login.class",
    "sasl.server.callback.handler.class",
)
_MECHANISM_PREFIXES: Final = ("sasl.kerberos.", "sasl.login.", "sasl.oauthbearer.")

# Kafka passes these on to plugins and does not declare them.
_PLUGIN_KEYS: Final = frozenset({"allow.everyone.if.no.acl.found", "super.users"})
_PLUGIN_PREFIXES: Final = (
    "config.providers.",
    "confluent.",
    "kafka.csv.metrics.",
    "metrics.context.",
    "rlmm.config.",
    "rsm.config.",
)

_REMOVED: Final = frozenset(
    {
        "broker.id.generation.enable",
        "control.plane.listener.name",
        "controlled.shutdown.max.retries",
        "controlled.shutdown.retry.backoff.ms",
        "delegation.token.master.key",
        "inter.broker.protocol.version",
        "leader.imbalance.per.broker.percentage",
        "log.message.downconversion.enable",
        "log.message.format.version",
        "log.message.timestamp.difference.max.ms",
        "offsets.commit.required.acks",
        "reserved.broker.max.id",
    }
)
_REMOVED_PREFIXES: Final = ("password.encoder.", "zookeeper.")


def find_key(name: str) -> ConfigKey | None:
    """Return the declaration of `name`, also under a listener's prefix."""
    if key := BROKER_KEYS.get(name):
        return key
    if is_listener_key(name):
        base = name.removeprefix(_LISTENER_PREFIX).partition(".")[2]
        rest = base.partition(".")[2]
        if rest in _MECHANISM_KEYS or rest.startswith(_MECHANISM_PREFIXES):
            base = rest
        return BROKER_KEYS.get(base)
    return None


def is_listener_key(name: str) -> bool:
    """True if `name` is a key for one listener, as in `listener.name.internal.max.connections`."""
    listener, _, base = name.removeprefix(_LISTENER_PREFIX).partition(".")
    return name.startswith(_LISTENER_PREFIX) and bool(listener and base)


def is_plugin_key(name: str) -> bool:
    return name in _PLUGIN_KEYS or name.startswith(_PLUGIN_PREFIXES)


def unknown_key(name: str, value: str, known: Iterable[str]) -> Unknown:
    """Return why `name` is refused. The message leaves out the value, which may be a misnamed
    password."""
    if name in _REMOVED or name.startswith(_REMOVED_PREFIXES):
        return Unknown(name, value, f"{name} was removed in Kafka 4.0: delete the line")
    from difflib import get_close_matches  # only needed when something is wrong

    near = get_close_matches(name, known, n=1, cutoff=0.75)
    hint = f"did you mean {near[0]}?" if near else "no key of Kafka 4.3 has a name like it"
    return Unknown(name, value, f"Unknown configuration key {name}: {hint}")
