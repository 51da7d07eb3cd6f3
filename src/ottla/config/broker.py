"""The broker's settings: Kafka's defaults, then the file, then settings made at run time."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from ottla.config.authorization import (
    AUTHORIZER_KEYS,
    EARLY_KEY,
    Authorization,
    authorization_of,
    authorization_problems,
    early_listener_problems,
)
from ottla.config.cluster import Voter, parse_address, parse_voters
from ottla.config.definitions import BROKER_KEYS, sasl, tls
from ottla.config.endpoints import Endpoints, resolve_endpoints
from ottla.config.errors import ConfigError, Problem, Unknown
from ottla.config.keys import ConfigKey
from ottla.config.listeners import (
    SASL_PROTOCOLS,
    TLS_PROTOCOLS,
    Listener,
    both_local,
    is_everywhere,
    is_this_machine,
    parse_listeners,
)
from ottla.config.names import find_key, is_listener_key, is_plugin_key, unknown_key
from ottla.config.rules import ALL_LOG_DIRS, broken_rules, parse_ip_overrides
from ottla.config.security.listener_keys import ListenerKeys
from ottla.config.synonyms import BROKER_SYNONYMS
from ottla.config.updates import READ_ONLY
from ottla.config.values import IllTyped

if TYPE_CHECKING:
    from ottla.config.security.sasl import Login, SaslSettings
    from ottla.runtime.tls.settings import TlsSettings

# Kafka requires these from its user; a single node has defaults for them.
_OWN_DEFAULTS: Final[dict[str, Any]] = {
    "node.id": 1,
    "process.roles": ("broker", "controller"),
    "controller.listener.names": (),
}
LISTENER_KEYS: Final = frozenset({"listeners", "listener.security.protocol.map"})
"""The keys of listeners that may change while the broker runs."""
_HIDDEN: Final = "[hidden]"
_BROKER_MECHANISM: Final = "sasl.mechanism.inter.broker.protocol"
_CONTROLLER_MECHANISM: Final = "sasl.mechanism.controller.protocol"
_NOTHING: Final[Mapping[str, str]] = {}


class BrokerConfig:
    """Typed values by Kafka's names: `config["log.segment.bytes"]`. Immutable.

    Synonyms are resolved under the strongest name, so that `config["log.retention.ms"]` has a value
    even if only `log.retention.hours` was given.

    It is one thing: each property answers a question about the same immutable values, such as
    which listeners have TLS, so that nobody else has to know how keys depend on each other.
    """

    __slots__ = ("_endpoints", "_values", "cluster_default", "explicit", "ignored", "per_broker")

    def __init__(
        self,
        explicit: Mapping[str, str],
        values: dict[str, Any],
        endpoints: Endpoints,
        *,
        cluster_default: Mapping[str, str] = _NOTHING,
        per_broker: Mapping[str, str] = _NOTHING,
        ignored: tuple[Problem | Unknown, ...] = (),
    ) -> None:
        self.explicit = explicit
        self.cluster_default = cluster_default
        self.per_broker = per_broker
        self.ignored = ignored
        self._values = values
        self._endpoints = endpoints

    @classmethod
    def parse(
        cls, given: Mapping[str, str], where: Mapping[str, str] | None = None
    ) -> BrokerConfig:
        """Check everything, and raise one `ConfigError` with all problems. `where` has the file and
        line of a key (see `Properties`), for the message."""
        places = where if where is not None else getattr(given, "where", None)
        explicit = dict(given)
        values, problems = _typed(explicit)
        for name, other in (("broker.id", "node.id"), ("node.id", "broker.id")):
            if name in values and other not in explicit:
                explicit[other], values[other] = explicit[name], values[name]
        resolved = _resolved(values)
        problems += broken_rules(resolved)
        try:
            endpoints = resolve_endpoints(resolved, explicit)
        except ConfigError as wrong:
            raise ConfigError([*problems, *wrong.problems], places) from None
        config = cls(explicit, resolved, endpoints)
        problems += config.security_problems()
        problems += authorization_problems(resolved, explicit)
        problems += early_listener_problems(resolved, endpoints.served)
        if problems:
            raise ConfigError(problems, places)
        return config

    def with_dynamic(
        self, cluster_default: Mapping[str, str], per_broker: Mapping[str, str]
    ) -> BrokerConfig:
        """Return the same file's config with these run-time settings on top; those of the broker
        override those for all.

        Stored settings never keep a broker from running: values that are invalid or do not fit
        together are left out and listed in `ignored`.
        """
        own, own_problems = _typed(_changeable(per_broker))
        common, common_problems = _typed(_changeable(cluster_default))
        static, _ = _typed(self.explicit)
        values = _resolved(static | common | own)
        ignored = (*common_problems, *own_problems)
        if rules := broken_rules(values):
            values, ignored = _resolved(static), (*ignored, *rules)
        endpoints = self._endpoints
        if own.keys() & LISTENER_KEYS or self.per_broker.keys() & LISTENER_KEYS:
            try:
                endpoints = resolve_endpoints(values, {**self.explicit, **_changeable(per_broker)})
            except ConfigError as wrong:
                ignored = (*ignored, *wrong.problems)
        config = BrokerConfig(
            self.explicit,
            values,
            endpoints,
            cluster_default=dict(cluster_default),
            per_broker=dict(per_broker),
            ignored=ignored,
        )
        config.ignored += tuple(config.security_problems())
        return config

    def __getitem__(self, name: str) -> Any:
        return self._values[name]

    def get(self, name: str, default: Any = None) -> Any:
        return self._values.get(name, default)

    def __contains__(self, name: object) -> bool:
        return name in self._values

    @property
    def node_id(self) -> int:
        return int(self._values["node.id"])

    @property
    def listeners(self) -> tuple[Listener, ...]:
        """The listeners to open for clients and other brokers."""
        return self._endpoints.served

    @property
    def exposed_listeners(self) -> tuple[Listener, ...]:
        """The listeners, also of the controller, that other machines can reach and that have
        neither TLS nor sign-in; none if ACLs keep out who did not sign in."""
        if self.authorization is not None and not self.authorization.trusts_anonymous:
            return ()
        return tuple(
            listener
            for listener in (*self.listeners, *self.controller_listeners)
            if self.protocol_of(listener.name) == "PLAINTEXT" and not is_this_machine(listener.host)
        )

    @property
    def unopened_listeners(self) -> tuple[Listener, ...]:
        """Listeners of the file or the command line that a stored `listeners` replaces."""
        if "listeners" not in self.per_broker or "listeners" not in self.explicit:
            return ()
        opened = {*self.listeners, *self.controller_listeners}
        given = parse_listeners("listeners", self.explicit["listeners"])
        return tuple(listener for listener in given if listener not in opened)

    @property
    def tls_listeners(self) -> tuple[str, ...]:
        """The names of the listeners with TLS: those of this node, and the one by which it reaches
        controllers."""
        names = [*self._own_listeners, self.controller_listener_name]
        return tuple(name for name in dict.fromkeys(names) if self.has_tls(name))

    @property
    def _own_listeners(self) -> tuple[str, ...]:
        return tuple(one.name for one in (*self.listeners, *self.controller_listeners))

    @property
    def controller_listener_name(self) -> str:
        """The listener by which nodes reach controllers; empty if none is named."""
        return next((name.upper() for name in self._values["controller.listener.names"]), "")

    def protocol_of(self, listener: str) -> str:
        """Return the security protocol of a listener, of this node or of others."""
        return self._endpoints.protocols.get(listener, "PLAINTEXT")

    @property
    def sasl_listeners(self) -> tuple[str, ...]:
        """The names of this node's listeners whose clients sign in."""
        return tuple(name for name in self._own_listeners if self.has_sasl(name))

    def is_secured(self, listener: str) -> bool:
        return self.has_tls(listener) or self.has_sasl(listener)

    def has_tls(self, listener: str) -> bool:
        return self.protocol_of(listener) in TLS_PROTOCOLS

    def has_sasl(self, listener: str) -> bool:
        return self.protocol_of(listener) in SASL_PROTOCOLS

    def tls_of(self, listener: str) -> TlsSettings:
        """Return the TLS settings of a listener; raises `ConfigError`."""
        from ottla.config.security.tls import tls_settings

        keys = self._keys_of(listener, tls.KEYS)
        settings = tls_settings(keys, is_server=listener in self._own_listeners)
        if self.has_sasl(listener) and "ssl.client.auth" not in keys:
            # Clients sign in: as in Kafka, only the listener's own key asks for certificates, too.
            settings = replace(settings, client_auth="none")
        return settings

    def sasl_of(self, listener: str) -> SaslSettings:
        """Return how clients of a listener sign in; raises `ConfigError`."""
        from ottla.config.security.sasl import sasl_settings

        return sasl_settings(self._keys_of(listener, sasl.KEYS))

    def login_of(self, listener: str) -> Login | None:
        """Return how this node signs in to others by a listener; None if that asks for no sign-in.
        Raises `ConfigError`."""
        if not self.has_sasl(listener):
            return None
        from ottla.config.security.sasl import login
        from ottla.security.scram import SCRAM_MECHANISMS

        keys = self._keys_of(listener, sasl.KEYS)
        # A node that is only a controller reaches nobody by the listener of brokers.
        of_controllers = listener == self.controller_listener_name
        setting = _CONTROLLER_MECHANISM if of_controllers else _BROKER_MECHANISM
        mechanism = keys[setting]
        if of_controllers and self.is_controller and mechanism in SCRAM_MECHANISMS:
            expected = "PLAIN: controllers elect a leader before they can know the users of SCRAM"
            raise ConfigError.of(setting, mechanism, expected)
        found = login(keys, setting)
        if listener in self._own_listeners and mechanism not in keys["sasl.enabled.mechanisms"]:
            expected = "must be included in sasl.enabled.mechanisms when nodes sign in by it"
            raise ConfigError.of(setting, mechanism, expected)
        return found

    @property
    def _listeners_to_others(self) -> tuple[str, ...]:
        """The names of the listeners by which this node reaches other nodes."""
        try:
            if self.is_alone:
                return ()
        except ValueError:  # the rules of the quorum's keys report it
            return ()
        own = [self.inter_broker_listener_name] if self.is_broker else []
        names = dict.fromkeys([*own, self.controller_listener_name])
        return tuple(name for name in names if name)

    def _keys_of(self, listener: str, keys: Mapping[str, ConfigKey]) -> ListenerKeys:
        given = (self.per_broker, self.cluster_default, self.explicit)
        return ListenerKeys(listener, keys, self._values, given)

    def security_problems(self) -> list[Problem | Unknown]:
        """Return what keeps listeners from having the TLS or the sign-in that they are to have,
        and this node from signing in to others."""
        problems: dict[Problem | Unknown, None] = {}
        checks: tuple[tuple[tuple[str, ...], Callable[[str], object]], ...] = (
            (self.tls_listeners, self.tls_of),
            (self.sasl_listeners, self.sasl_of),
            (self._listeners_to_others, self.login_of),
        )
        for names, read in checks:
            for name in names:
                try:
                    read(name)
                except ConfigError as error:
                    problems |= dict.fromkeys(error.problems)
        return list(problems)

    @property
    def authorization(self) -> Authorization | None:
        """The settings of the authorizer; None without one: everybody may do everything."""
        return authorization_of(self._values, self.explicit)

    @property
    def controllers_start_early(self) -> bool:
        """True if the listeners of this controller are served before the ACLs are loaded."""
        early = self._values[EARLY_KEY]
        if early is None or self.authorization is None:
            return True
        names = {name.upper() for name in early}
        return all(listener.name in names for listener in self.controller_listeners)

    @property
    def controller_listeners(self) -> tuple[Listener, ...]:
        """The listeners to open for other controllers and for brokers that ask this one."""
        return self._endpoints.controllers

    @property
    def advertised_controller_listeners(self) -> tuple[Listener, ...]:
        return self._endpoints.advertised_controllers

    @property
    def is_broker(self) -> bool:
        return "broker" in self._values["process.roles"]

    @property
    def is_controller(self) -> bool:
        return "controller" in self._values["process.roles"]

    @property
    def voters(self) -> tuple[Voter, ...]:
        """The controllers that vote, if the configuration names them."""
        return parse_voters(self._values["controller.quorum.voters"])

    @property
    def bootstrap_controllers(self) -> tuple[tuple[str, int], ...]:
        """The addresses to ask for the controllers, if these are not named one by one."""
        servers = self._values["controller.quorum.bootstrap.servers"]
        return tuple(map(parse_address, servers))

    @property
    def is_alone(self) -> bool:
        """True if this node is a cluster of its own, by its configuration: it has both roles, and
        names no other controller."""
        if not (self.is_broker and self.is_controller):
            return False
        if any(voter.id != self.node_id for voter in self.voters):
            return False
        own = [(listener.host, listener.port) for listener in self.controller_listeners]
        return all(
            any(
                port == own_port
                and (
                    is_everywhere(own_host) or own_host in ("", host) or both_local(own_host, host)
                )
                for own_host, own_port in own
            )
            for host, port in self.bootstrap_controllers
        )

    @property
    def advertised_listeners(self) -> tuple[Listener, ...]:
        """The listeners that clients are told. An empty host means the machine's name, port 0 the
        port that the listener of the same name got; the node fills them in."""
        return self._endpoints.advertised

    @property
    def inter_broker_listener_name(self) -> str:
        """The listener by which brokers reach each other. If it is not configured: the one named
        like the protocol, and if there is none, the first."""
        named = self._values["inter.broker.listener.name"]
        name = str(named or self._values["security.inter.broker.protocol"]).upper()
        told = [listener.name for listener in self.advertised_listeners]
        return name if name in told or not told else told[0]

    @property
    def log_dirs(self) -> tuple[str, ...]:
        return tuple(map(_plain_path, self._values["log.dirs"] or self._values["log.dir"]))

    @property
    def cordoned_log_dirs(self) -> tuple[str, ...]:
        """Log dirs that take no new partitions, with `*` resolved to all of them."""
        cordoned = self._values["cordoned.log.dirs"] or ()
        return self.log_dirs if ALL_LOG_DIRS in cordoned else tuple(map(_plain_path, cordoned))

    @property
    def metadata_log_dir(self) -> str:
        return _plain_path(str(self._values["metadata.log.dir"] or self.log_dirs[0]))

    @property
    def max_connections_by_ip(self) -> dict[str, int]:
        """Limits for single addresses that differ from `max.connections.per.ip`."""
        return parse_ip_overrides(self._values["max.connections.per.ip.overrides"])

    def connection_rate_of(self, listener: str) -> int:
        """The most connections per second that clients may open on a listener."""
        return self._limit_of(listener, "max.connection.creation.rate")

    def max_connections_of(self, listener: str) -> int:
        """The most connections that a listener may have."""
        return self._limit_of(listener, "max.connections")

    def _limit_of(self, listener: str, key: str) -> int:
        return int(self._keys_of(listener, {key: BROKER_KEYS[key]})[key])

    def heeds(self, name: str) -> bool:
        """True if a key of a single listener has an effect: `listener.name.internal.ssl.*`."""
        of_tls = [f"listener.name.{one.lower()}.ssl." for one in self.tls_listeners]
        of_connections = {
            f"listener.name.{one.name.lower()}.{key}"
            for one in self.listeners
            for key in ("max.connection.creation.rate", "max.connections")
        }
        if name.startswith(tuple(of_tls)) or name in of_connections:
            return True
        to_others = filter(self.has_sasl, self._listeners_to_others)
        for listener in (*self.sasl_listeners, *to_others):
            base = name.removeprefix(f"listener.name.{listener.lower()}.")
            if base != name and (base in sasl.KEYS or base.partition(".")[2] in sasl.KEYS):
                return True
        return False

    def unused_warnings(self) -> list[str]:
        """Return warnings about settings in the file that have no effect, one sentence each, to be
        logged once at start."""
        return list(_warnings(self))


def _plain_path(path: str) -> str:
    """Remove trailing slashes, so that paths can be compared."""
    return path.rstrip("/") or "/"


def _typed(given: Mapping[str, str]) -> tuple[dict[str, Any], list[Problem | Unknown]]:
    """Return the values of the valid keys, and the problems of the others. Keys of plugins and of
    single listeners are checked, but left out of the values."""
    values: dict[str, Any] = {}
    problems: list[Problem | Unknown] = []
    for name, text in given.items():
        key = find_key(name)
        if key is None:
            if not is_plugin_key(name):
                problems.append(unknown_key(name, text, BROKER_KEYS))
            continue
        try:
            value = key.parse(text)
        except IllTyped as wrong:
            problems.append(Problem(name, _HIDDEN if key.sensitive else text, str(wrong)))
        else:
            if name in BROKER_KEYS:
                values[name] = value
    return values, problems


def _changeable(given: Mapping[str, str]) -> dict[str, str]:
    """Return the settings without the keys that only a restart can change, in case any were
    stored."""
    return {
        name: text
        for name, text in given.items()
        if (key := BROKER_KEYS.get(name)) is None or key.update_mode != READ_ONLY
    }


_DEFAULTS: Final[dict[str, Any]] = {
    name: key.default for name, key in BROKER_KEYS.items()
} | _OWN_DEFAULTS


def _resolved(values: dict[str, Any]) -> dict[str, Any]:
    """Return all values, with defaults, and with synonyms resolved under the strongest name."""
    resolved = _DEFAULTS | values
    for name, synonyms in BROKER_SYNONYMS.items():
        for synonym in synonyms:
            if (value := resolved[synonym.name]) is not None:
                resolved[name] = value * synonym.factor
                break
    if resolved["log.retention.ms"] < 0:
        resolved["log.retention.ms"] = -1  # any negative number of hours means for ever
    return resolved


def _warnings(config: BrokerConfig) -> Iterator[str]:
    unused, foreign = [], []
    for name in sorted(config.explicit):
        key = find_key(name)
        if is_listener_key(name) and key is not None and key.used and config.heeds(name):
            continue
        if name in AUTHORIZER_KEYS and config.authorization is not None:
            continue
        if is_plugin_key(name) or is_listener_key(name):
            foreign.append(name)
        elif key is not None and not key.used:
            unused.append(name)
    if unused:
        yield f"These settings have no effect yet: {', '.join(unused)}"
    if foreign:
        yield f"These settings of plugins or single listeners have no effect: {', '.join(foreign)}"
