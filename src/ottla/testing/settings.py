"""The settings of the nodes of a test's cluster: their addresses, and short timeouts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from ottla.config.copies import copies

HOST: Final = "127.0.0.1"

# Short timeouts: elections and fencing within a fraction of a second, groups that start at once.
# Few partitions of internal topics: each is a folder with files on every node.
QUICK: Final[Mapping[str, str]] = {
    "broker.heartbeat.interval.ms": "100",
    "broker.session.timeout.ms": "800",
    "controller.quorum.election.backoff.max.ms": "100",
    "controller.quorum.election.timeout.ms": "100",
    "controller.quorum.fetch.timeout.ms": "500",
    "group.consumer.assignment.interval.ms": "0",
    "group.consumer.heartbeat.interval.ms": "200",
    "group.consumer.min.heartbeat.interval.ms": "50",
    "group.consumer.min.session.timeout.ms": "500",
    "group.consumer.session.timeout.ms": "3000",
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "500",
    "log.cleaner.dedupe.buffer.size": "4194304",
    "log.index.size.max.bytes": "131072",
    "offsets.topic.num.partitions": "4",
    "transaction.state.log.num.partitions": "4",
}


def node_settings(
    number: int, controller_ports: Sequence[int], port: int, folder: str, given: Mapping[str, str]
) -> dict[str, str]:
    """Return the settings of node `number` (from 1). Those given by the test take precedence."""
    return {
        "node.id": str(number),
        "log.dirs": folder,
        **_addresses(number, controller_ports, port, given),
        **copies(len(controller_ports)),
        **QUICK,
        **given,
    }


def _addresses(
    number: int, controller_ports: Sequence[int], port: int, given: Mapping[str, str]
) -> dict[str, str]:
    """Return the listeners and voters. A single node has no other controllers; a node that was
    added later is only a broker."""
    name = given.get("security.inter.broker.protocol", "PLAINTEXT")
    own = f"{name}://{HOST}:{port}"
    if len(controller_ports) == 1:
        return {"listeners": own}
    voters = [f"{n}@{HOST}:{place}" for n, place in enumerate(controller_ports, 1)]
    common = {
        "controller.listener.names": "CONTROLLER",
        "controller.quorum.voters": ",".join(voters),
    }
    if number > len(controller_ports):
        return {"process.roles": "broker", "listeners": own, **common}
    both = f"{own},CONTROLLER://{HOST}:{controller_ports[number - 1]}"
    return {"process.roles": "broker,controller", "listeners": both, **common}
