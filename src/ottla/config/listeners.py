"""Addresses to serve and to advertise: `NAME://host:port`, separated by commas."""

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import Final, NamedTuple

from ottla.config.errors import ConfigError, Problem

# Compiled when first needed, because the broker imports this module at every start.
_ENDPOINT: Final = (
    r"(?P<name>[A-Za-z0-9_.-]+)://(?:\[(?P<ip6>[0-9A-Fa-f:.]+(?:%[\w.-]+)?)\]|(?P<host>[\w.%-]*))"
    r":(?P<port>[0-9]{1,5})"
)
_PORT_MAX: Final = 65_535
_EVERYWHERE: Final = ("0.0.0.0", "::")

SECURITY_PROTOCOLS: Final = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
"""In the order of their numbers in the protocol."""
TLS_PROTOCOLS: Final = frozenset({"SSL", "SASL_SSL"})
SASL_PROTOCOLS: Final = frozenset({"SASL_PLAINTEXT", "SASL_SSL"})


class Listener(NamedTuple):
    """An address. An empty host means every interface in `listeners`, and the machine's own name in
    `advertised.listeners`; port 0 is a free port, known once the listener is open."""

    name: str
    host: str
    port: int

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.name}://{host}:{self.port}"


def parse_listeners(key: str, text: str) -> tuple[Listener, ...]:
    """Return the addresses in `text`; raises `ConfigError` naming `key` for each invalid one."""
    found: list[Listener] = []
    problems: list[Problem] = []
    for item in filter(None, map(str.strip, text.split(","))):
        match = re.fullmatch(_ENDPOINT, item)
        if match is None or int(match["port"]) > _PORT_MAX:
            problems.append(Problem(key, item, "expected NAME://host:port, port 0 to 65535"))
        else:
            host = match["ip6"] or match["host"]
            found.append(Listener(match["name"].upper(), host, int(match["port"])))
    if problems:
        raise ConfigError(problems)
    return tuple(found)


def listener_conflicts(listeners: Iterable[Listener]) -> Iterator[str]:
    """Yield what keeps these from being served together: a name or a port used twice."""
    by_name: dict[str, list[Listener]] = defaultdict(list)
    by_port: dict[int, list[Listener]] = defaultdict(list)
    for listener in listeners:
        by_name[listener.name].append(listener)
        if listener.port:
            by_port[listener.port].append(listener)
    for name, same in by_name.items():
        if len(same) > 1:
            yield f"each listener needs a name of its own, {name} is there {len(same)} times"
    for port, same in by_port.items():
        if len(same) > 1 and sorted(map(_ip_version, same)) != [4, 6]:
            yield (
                f"each listener needs a port of its own, {port} is there {len(same)} times "
                "(only an IPv4 and an IPv6 address may share one)"
            )


def _ip_version(listener: Listener) -> int:
    """Return 4 or 6; 0 for names and for every interface."""
    if ":" in listener.host:
        return 6
    return 4 if listener.host.replace(".", "").isdigit() else 0


def default_advertised(listeners: Iterable[Listener]) -> tuple[Listener, ...]:
    """Return the advertised listeners if `advertised.listeners` is not set."""
    return tuple(
        listener._replace(host="") if is_everywhere(listener.host) else listener
        for listener in listeners
    )


def is_everywhere(host: str) -> bool:
    """True if `host` means all interfaces, to which no client can connect."""
    return host in _EVERYWHERE


def is_this_machine(host: str) -> bool:
    """True if only programs on this machine can connect to `host`."""
    return host in ("localhost", "::1") or host.startswith("127.")


def both_local(one: str, other: str) -> bool:
    """True if both hosts are names of this machine for itself."""
    return is_this_machine(one) and is_this_machine(other)


def parse_protocol_map(text: str) -> dict[str, str]:
    """Return listener name -> security protocol; raises `ConfigError`."""
    protocols: dict[str, str] = {}
    for item in filter(None, map(str.strip, text.split(","))):
        name, colon, protocol = item.rpartition(":")
        if not colon or protocol.strip().upper() not in SECURITY_PROTOCOLS:
            raise ConfigError.of(
                "listener.security.protocol.map",
                item,
                f"expected NAME:PROTOCOL with one of {', '.join(SECURITY_PROTOCOLS)}",
            )
        protocols[name.strip().upper()] = protocol.strip().upper()
    return protocols


def implied_protocols(
    protocols: Mapping[str, str], controllers: Iterable[str], map_given: bool
) -> dict[str, str]:
    """Return the protocols. If the user has set no map, controller listeners are plain text."""
    if map_given:
        return dict(protocols)
    return dict.fromkeys(controllers, "PLAINTEXT") | dict(protocols)
