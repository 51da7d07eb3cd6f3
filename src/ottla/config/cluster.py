"""The node's part in its cluster: its roles, the controllers that vote, and their addresses.

`process.roles`, `controller.quorum.voters` and `controller.quorum.bootstrap.servers` are read and
checked against each other as in Kafka. One thing is easier here: a node with both roles that names
no controllers at all is a cluster of its own.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

from ottla.config.errors import Problem

Values = Mapping[str, Any]

ROLES: Final = frozenset({"broker", "controller"})
_VOTERS: Final = "controller.quorum.voters"
_SERVERS: Final = "controller.quorum.bootstrap.servers"
_ADDRESS: Final = r"(?:\[(?P<ip6>[0-9A-Fa-f:.]+)\]|(?P<host>[\w.-]+)):(?P<port>[0-9]{1,5})"


class Voter(NamedTuple):
    id: int
    host: str
    port: int


def parse_voters(items: tuple[str, ...]) -> tuple[Voter, ...]:
    """Parse `id@host:port` items; raises ValueError with the invalid item."""
    voters = []
    for item in items:
        node_id, at, address = item.partition("@")
        if not at or not node_id.isascii() or not node_id.isdigit():
            raise ValueError(item)
        voters.append(Voter(int(node_id), *parse_address(address)))
    return tuple(voters)


def parse_address(text: str) -> tuple[str, int]:
    """Parse `host:port`; raises ValueError if it is invalid."""
    match = re.fullmatch(_ADDRESS, text.strip())
    if match is None or not 0 < int(match["port"]) <= 65_535:
        raise ValueError(text)
    return match["ip6"] or match["host"], int(match["port"])


def broken_cluster_rules(values: Values) -> Iterator[Problem]:
    yield from _role_problems(values)
    yield from _voter_problems(values)
    for server in values[_SERVERS]:
        try:
            parse_address(server)
        except ValueError:
            yield Problem(_SERVERS, server, "expected host:port, port 1 to 65535")


def _role_problems(values: Values) -> Iterator[Problem]:
    roles = values["process.roles"]
    if "controller" not in roles and not values[_VOTERS] and not values[_SERVERS]:
        expected = f"a node that is only a broker needs {_SERVERS}: where the controllers are"
        yield Problem("process.roles", ",".join(roles), expected)
    elif not values["controller.listener.names"] and (
        set(roles) != ROLES or has_other_controllers(values)
    ):
        expected = "expected the name of the listener by which controllers are reached"
        yield Problem("controller.listener.names", "", expected)


def has_other_controllers(values: Values) -> bool:
    """True if controllers are named besides a single one, which is the node itself."""
    return len(values[_VOTERS]) > 1 or bool(values[_SERVERS])


def _voter_problems(values: Values) -> Iterator[Problem]:
    given = ",".join(values[_VOTERS])
    try:
        voters = parse_voters(values[_VOTERS])
    except ValueError as wrong:
        yield Problem(_VOTERS, str(wrong), "expected id@host:port for each voter")
        return
    ids = [voter.id for voter in voters]
    me = values["node.id"]
    if len(set(ids)) < len(ids):
        yield Problem(_VOTERS, given, "each voter needs an id of its own")
    if voters and "controller" in values["process.roles"] and me not in ids:
        yield Problem(_VOTERS, given, f"must have node.id={me}: this node is a controller")
    if me in ids and "controller" not in values["process.roles"]:
        expected = f"must not have node.id={me}: this node is only a broker (process.roles)"
        yield Problem(_VOTERS, given, expected)
