"""The settings of the quorum, from Kafka's `controller.quorum.*`.

controller.quorum.voters             a fixed set of voters, this node perhaps one of them
controller.quorum.bootstrap.servers  the nodes to ask; the voters are in the log or its snapshot
neither                              this node is the only voter
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from ottla.broker.raft.ids import Endpoints, Node, ReplicaKey
from ottla.broker.raft.settings import RaftSettings
from ottla.broker.raft.voters.voters import VoterSet

FETCH_WAIT_MS_MAX = 500
LISTENER_DEFAULT = "CONTROLLER"
"""The name of the controller listener if none is configured."""
_FIRST_UNKNOWN_ID = -2
"""Servers whose ids are unknown are numbered down from here: -1 means no node."""


class Values(Protocol):
    def __getitem__(self, name: str) -> Any: ...


def raft_settings(
    config: Values,
    *,
    node_id: int,
    directory_id: bytes,
    cluster_id: str,
    endpoints: Endpoints,
) -> RaftSettings:
    names = config["controller.listener.names"]
    listener = names[0] if names else LISTENER_DEFAULT
    voters = parse_voters(config["controller.quorum.voters"])
    servers = parse_servers(config["controller.quorum.bootstrap.servers"])
    is_controller = "controller" in config["process.roles"]
    if not voters and not servers and is_controller:
        address = next((each for each in endpoints if each.listener == listener), None)
        voters = [Node(node_id, address.host if address else "", address.port if address else 0)]
    return RaftSettings(
        key=ReplicaKey.of(node_id, directory_id),
        cluster_id=cluster_id,
        listener=listener,
        endpoints=tuple(sorted(endpoints)) if is_controller else (),
        static_voters=VoterSet.static(listener, voters),
        bootstrap=tuple(servers or [voter for voter in voters if voter.id != node_id]),
        can_be_voter=is_controller,
        auto_join=config["controller.quorum.auto.join.enable"],
        election_timeout_ms=config["controller.quorum.election.timeout.ms"],
        fetch_timeout_ms=config["controller.quorum.fetch.timeout.ms"],
        # An idle leader must answer twice before its silence counts.
        fetch_max_wait_ms=min(FETCH_WAIT_MS_MAX, config["controller.quorum.fetch.timeout.ms"] // 2),
        election_backoff_max_ms=config["controller.quorum.election.backoff.max.ms"],
        request_timeout_ms=config["controller.quorum.request.timeout.ms"],
        retry_backoff_ms=config["controller.quorum.retry.backoff.ms"],
        fetch_max_bytes=config["controller.quorum.fetch.max.bytes"],
        fetch_snapshot_max_bytes=config["controller.quorum.fetch.snapshot.max.bytes"],
    )


def parse_voters(texts: Sequence[str]) -> list[Node]:
    """Parse `1@localhost:9093`, one per voter. Raises `ValueError` that names an invalid one."""
    voters = []
    for text in texts:
        voter_id, at, address = text.strip().partition("@")
        if not at or not voter_id.isdigit():
            raise ValueError(f"{text!r} is no voter; write ID@HOST:PORT")
        voters.append(Node(int(voter_id), *parse_address(address)))
    return voters


def parse_servers(texts: Sequence[str]) -> list[Node]:
    return [
        Node(_FIRST_UNKNOWN_ID - index, *parse_address(text.strip()))
        for index, text in enumerate(texts)
    ]


def parse_address(text: str) -> tuple[str, int]:
    host, colon, port = text.rpartition(":")
    if not colon or not port.isdigit() or int(port) > 65535:
        raise ValueError(f"{text!r} is no address; write HOST:PORT")
    return host.removeprefix("[").removesuffix("]"), int(port)
