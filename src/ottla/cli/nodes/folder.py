"""The data folder of `ottla start --nodes`, in which the next start finds the same cluster.

    nodes.properties        the cluster's id, its voters, ports that were picked, retired brokers
    node1.properties ...    the settings of each node, rewritten by every start
    node1/ ...              the data of each node

The nodes of the first start are its voters (the first five, if there are more). Nodes that are
added later are brokers only: the voters must not depend on how many nodes are started. A retired
node is no longer a broker; if it is a voter it stays one.

`nodes.properties` may change while the cluster runs (`ottla cluster add-node` and `retire` do it):
`ottla start --nodes` notices it and follows.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from ottla.broker.storage.dirs.meta_properties import FILE_NAME as META_NAME
from ottla.broker.storage.dirs.meta_properties import MetaProperties, write_meta_properties
from ottla.config.copies import copies
from ottla.config.properties import PropertiesError, parse_properties
from ottla.protocol.uuids import random_uuid, to_text
from ottla.runtime.os_disk import OsDisk
from ottla.runtime.ports import free_ports, is_free
from ottla.runtime.private_file import write_private

FILE_NAME: Final = "nodes.properties"
HOST: Final = "127.0.0.1"
EVERYWHERE: Final = frozenset({"", "0.0.0.0", "[::]"})
VOTERS_MAX: Final = 5

# A killed node is noticed within half a second: it misses heartbeats, and its ports refuse
# connections. The session timeout of brokers and the quorum's fetch timeout are Kafka's: a silent
# node may be alive on a busy machine. See docs/cluster.md for how these add up.
FAIL_OVER: Final[Mapping[str, str]] = {
    "broker.heartbeat.interval.ms": "200",
    "broker.session.timeout.ms": "9000",
    "controller.quorum.election.backoff.max.ms": "200",
    "controller.quorum.election.timeout.ms": "400",
    "controller.quorum.fetch.timeout.ms": "2000",
}

DECIDED: Final = frozenset(
    {
        *("node.id", "broker.id", "process.roles", "listeners", "advertised.listeners"),
        *("controller.listener.names", "controller.quorum.voters"),
        *("controller.quorum.bootstrap.servers", "log.dir", "log.dirs", "metadata.log.dir"),
    }
)
"""Settings that have a different value on every node."""


class FolderUnusable(Exception):
    """The data folder does not fit the options; the message is for the user."""


@dataclass(frozen=True)
class NodesFolder:
    path: Path
    cluster_id: str
    controller_ports: tuple[int, ...]
    """The controller ports of the voters, which are nodes 1, 2, 3, ..."""
    ports: tuple[int, ...]
    """Client ports by node; the last ones that were used."""
    retired: frozenset[int] = frozenset()

    @property
    def count(self) -> int:
        return len(self.ports)

    @property
    def brokers(self) -> list[int]:
        return [number for number in range(1, self.count + 1) if number not in self.retired]

    @property
    def running(self) -> list[int]:
        """The nodes to start: brokers, and voters that were brokers."""
        return [
            number
            for number in range(1, self.count + 1)
            if number not in self.retired or self.votes(number)
        ]

    def votes(self, number: int) -> bool:
        return number <= len(self.controller_ports)

    def node_folder(self, number: int) -> Path:
        return self.path / f"node{number}"

    def config_file(self, number: int) -> Path:
        return self.path / f"node{number}.properties"

    def save(self) -> None:
        lines = [
            "# Kept by `ottla start --nodes`. The nodes of this folder, and who of them votes.",
            f"cluster.id={self.cluster_id}",
            f"controller.ports={','.join(map(str, self.controller_ports))}",
            f"ports={','.join(map(str, self.ports))}",
            f"retired={','.join(map(str, sorted(self.retired)))}",
            "",
        ]
        OsDisk().replace_bytes(str(self.path / FILE_NAME), "\n".join(lines).encode())


def client_addresses(folder: NodesFolder) -> str:
    """Return the addresses of its brokers for clients, as a list for --bootstrap."""
    return ",".join(_client_address(folder, number) for number in folder.brokers)


def _client_address(folder: NodesFolder, number: int) -> str:
    """Return a node's address: the host is in its file, or this machine if there is none."""
    host = ""
    file = folder.config_file(number)
    try:
        found = parse_properties(file.read_text(encoding="utf-8"), str(file))
        host = found["listeners"].split(",")[0].partition("://")[2].rpartition(":")[0]
    except (OSError, KeyError, PropertiesError):
        pass
    return f"{HOST if host in EVERYWHERE else host}:{folder.ports[number - 1]}"


def is_nodes_folder(path: Path) -> bool:
    return (path / FILE_NAME).exists()


def read(path: Path) -> NodesFolder:
    file = path / FILE_NAME
    try:
        found = parse_properties(file.read_text(encoding="utf-8"), str(file))
        return NodesFolder(
            path,
            found["cluster.id"],
            _numbers(found["controller.ports"]),
            _numbers(found["ports"]),
            frozenset(_numbers(found.get("retired", ""))),
        )
    except (KeyError, ValueError, PropertiesError) as error:
        raise FolderUnusable(f"{file} is damaged ({error!r}): restore it from a copy") from None


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(int(one) for one in text.split(",") if one)


def with_another(folder: NodesFolder) -> NodesFolder:
    """Add a broker, also for later starts."""
    port = folder.ports[-1] + 1
    port = port if port < 65_536 and is_free(port) else free_ports(1)[0]
    grown = replace(folder, ports=(*folder.ports, port))
    _identify(grown, grown.count)
    grown.save()
    return grown


def without(folder: NodesFolder, number: int) -> NodesFolder:
    """Remove a broker, also for later starts."""
    if number not in folder.brokers:
        raise FolderUnusable(f"{folder.path} has no broker {number}; it has {folder.brokers}")
    if len(folder.brokers) == 1:
        raise FolderUnusable(f"broker {number} is the last one")
    fewer = replace(folder, retired=folder.retired | {number})
    fewer.save()
    return fewer


def prepare(path: Path, count: int, first_port: int) -> NodesFolder:
    """Read or create the folder for this many nodes. No node may run in it."""
    if (path / META_NAME).exists():
        raise FolderUnusable(
            f"{path} is the data folder of a single node: start it without --nodes, or choose "
            "another folder with --data"
        )
    path.mkdir(parents=True, exist_ok=True)
    if is_nodes_folder(path):
        folder = _again(read(path), count)
    else:
        voters = free_ports(min(count, VOTERS_MAX))
        cluster_id = to_text(random_uuid(random.SystemRandom()))
        folder = NodesFolder(path, cluster_id, tuple(voters), ())
    folder = replace(folder, ports=_client_ports(folder, count, first_port))
    folder.save()
    for number in range(1, count + 1):
        _identify(folder, number)
    return folder


def _again(folder: NodesFolder, count: int) -> NodesFolder:
    if count < folder.count:
        raise FolderUnusable(
            f"{folder.path} holds {folder.count} nodes: give --nodes {folder.count} (or more), or "
            "choose another folder with --data"
        )
    taken = [port for port in folder.controller_ports if not is_free(port)]
    others = iter(free_ports(len(taken)))
    ports = tuple(next(others) if port in taken else port for port in folder.controller_ports)
    return replace(folder, controller_ports=ports)


def _client_ports(folder: NodesFolder, count: int, first_port: int) -> tuple[int, ...]:
    """Return consecutive ports from the first; for port 0 the last ones used, or any free ones."""
    if first_port:
        return tuple(range(first_port, first_port + count))
    known = [port for port in folder.ports if is_free(port)]
    known = known if len(known) == folder.count else []
    return tuple(known + free_ports(count - len(known)))


def _identify(folder: NodesFolder, number: int) -> None:
    """Write to which cluster the node's folder belongs. Nodes that find an empty folder would each
    create a cluster of their own."""
    place = folder.node_folder(number)
    place.mkdir(exist_ok=True)
    if not (place / META_NAME).exists():
        directory_id = random_uuid(random.SystemRandom())
        identity = MetaProperties(folder.cluster_id, number, directory_id)
        write_meta_properties(OsDisk(), str(place), identity)


def write_settings(
    folder: NodesFolder, host: str, given: Mapping[str, str]
) -> Sequence[dict[str, str]]:
    """Return the settings of every node, and write them to its file."""
    told = []
    for number in range(1, folder.count + 1):
        settings = node_settings(folder, number, host, given)
        text = "".join(f"{key}={_escaped(value)}\n" for key, value in settings.items())
        head = "# Written by every `ottla start --nodes`: changes here are lost.\n"
        write_private(folder.config_file(number), (head + text).encode())
        told.append(settings)
    return told


def node_settings(
    folder: NodesFolder, number: int, host: str, given: Mapping[str, str]
) -> dict[str, str]:
    shown = f"[{host}]" if ":" in host else host
    # Clients and brokers share one listener.
    name = given.get("security.inter.broker.protocol", "PLAINTEXT")
    listeners = f"{name}://{shown}:{folder.ports[number - 1]}"
    roles = ["broker"]
    if folder.votes(number):
        controller = f"CONTROLLER://{HOST}:{folder.controller_ports[number - 1]}"
        is_broker = number not in folder.retired
        roles = ["broker", "controller"] if is_broker else ["controller"]
        listeners = f"{listeners},{controller}" if is_broker else controller
    voters = (f"{n}@{HOST}:{port}" for n, port in enumerate(folder.controller_ports, 1))
    return {
        "node.id": str(number),
        "process.roles": ",".join(roles),
        "listeners": listeners,
        "controller.listener.names": "CONTROLLER",
        "controller.quorum.voters": ",".join(voters),
        "log.dirs": str(folder.node_folder(number)),
        **copies(len(folder.brokers)),
        **FAIL_OVER,
        **given,
    }


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\")
