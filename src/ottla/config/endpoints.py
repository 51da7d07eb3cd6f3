"""Resolves which listeners this node serves, and what it advertises."""

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from ottla.config.cluster import has_other_controllers
from ottla.config.errors import ConfigError, Problem, Unknown
from ottla.config.listeners import (
    Listener,
    default_advertised,
    implied_protocols,
    is_everywhere,
    listener_conflicts,
    parse_listeners,
    parse_protocol_map,
)

PLAINTEXT: Final = "PLAINTEXT"


class Endpoints(NamedTuple):
    """`served` are for clients and brokers, `controllers` for nodes that talk to this
    controller."""

    served: tuple[Listener, ...]
    controllers: tuple[Listener, ...]
    advertised: tuple[Listener, ...]
    advertised_controllers: tuple[Listener, ...]
    protocols: Mapping[str, str]
    """The security protocol of each listener name, also of those of other nodes."""


def resolve_endpoints(values: Mapping[str, Any], given: Mapping[str, str]) -> Endpoints:
    """Read the listener keys together; raises `ConfigError` with every problem."""
    listeners = parse_listeners("listeners", ",".join(values["listeners"]))
    if "listeners" in given:  # the parsed list has lost duplicates
        listeners = parse_listeners("listeners", given["listeners"])
    controller_names = {name.upper() for name in values["controller.listener.names"] or ()}
    served = tuple(item for item in listeners if item.name not in controller_names)
    controllers = tuple(item for item in listeners if item.name in controller_names)
    problems: list[Problem | Unknown] = [
        Problem("listeners", ",".join(map(str, listeners)), conflict)
        for conflict in listener_conflicts(listeners)
    ]
    problems += _role_problems(served, controllers, values)
    key = "listener.security.protocol.map"
    protocols = implied_protocols(parse_protocol_map(values[key]), controller_names, key in given)
    problems += _protocol_problems(listeners, protocols)
    advertised = default_advertised(served)
    advertised_controllers = default_advertised(controllers)
    if (text := given.get("advertised.listeners")) is not None:
        told = parse_listeners("advertised.listeners", text)
        advertised = tuple(item for item in told if item.name not in controller_names)
        problems += _advertised_problems(advertised, served)
        own = {item.name: item for item in told if item.name in controller_names}
        advertised_controllers = tuple(own.get(c.name, c) for c in advertised_controllers)
    if served:
        problems += _inter_broker_problems(advertised, values, given)
    if problems:
        raise ConfigError(problems)
    return Endpoints(served, controllers, advertised, advertised_controllers, protocols)


def _role_problems(
    served: tuple[Listener, ...], controllers: tuple[Listener, ...], values: Mapping[str, Any]
) -> list[Problem]:
    """Check that each role has listeners of its own, and no others."""
    roles = values["process.roles"]
    given = ",".join(map(str, served + controllers))
    if "broker" in roles and not served:
        expected = "at least one listener must not be in controller.listener.names"
        return [Problem("listeners", given, expected)]
    if "broker" not in roles and served:
        expected = "a node that is only a controller has the listeners of controller.listener.names"
        return [Problem("listeners", given, expected)]
    if "controller" not in roles and controllers:
        expected = "a node that is only a broker has no listener of controller.listener.names"
        return [Problem("listeners", given, expected)]
    names = values["controller.listener.names"]
    if names and "controller" in roles and not controllers and has_other_controllers(values):
        expected = f"the controller needs its listener too: {names[0]}://host:port"
        return [Problem("listeners", given, expected)]
    return []


def _protocol_problems(
    listeners: tuple[Listener, ...], protocols: Mapping[str, str]
) -> list[Problem]:
    return [
        Problem(
            "listeners",
            str(listener),
            f"{listener.name} must have a protocol in listener.security.protocol.map",
        )
        for listener in listeners
        if listener.name not in protocols
    ]


def _advertised_problems(
    advertised: tuple[Listener, ...], served: tuple[Listener, ...]
) -> list[Problem]:
    key = "advertised.listeners"
    names = [listener.name for listener in served]
    problems = []
    if served and not advertised:
        problems.append(Problem(key, None, "expected at least one listener for clients"))
    if len({item.name for item in advertised}) < len(advertised):
        all_of_them = ",".join(map(str, advertised))
        problems.append(Problem(key, all_of_them, "each listener needs a name of its own"))
    for listener in advertised:
        if is_everywhere(listener.host):
            expected = "no client can connect to all interfaces, give an address that is reachable"
            problems.append(Problem(key, str(listener), expected))
        if listener.name not in names:
            expected = f"the name must be one of those in listeners: {', '.join(names)}"
            problems.append(Problem(key, str(listener), expected))
    return problems


def _inter_broker_problems(
    advertised: tuple[Listener, ...], values: Mapping[str, Any], given: Mapping[str, str]
) -> list[Problem]:
    name, protocol = values["inter.broker.listener.name"], values["security.inter.broker.protocol"]
    if name is not None:
        if "security.inter.broker.protocol" in given:
            key = "security.inter.broker.protocol"
            return [Problem(key, protocol, "cannot be set with inter.broker.listener.name")]
        if name.upper() not in (listener.name for listener in advertised):
            known = ", ".join(listener.name for listener in advertised)
            return [Problem("inter.broker.listener.name", name, f"expected one of {known}")]
    elif protocol != PLAINTEXT and protocol not in (listener.name for listener in advertised):
        expected = "no listener has this name: name one in inter.broker.listener.name instead"
        return [Problem("security.inter.broker.protocol", protocol, expected)]
    return []
