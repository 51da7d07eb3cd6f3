"""One quorum of two kinds: an unmodified controller of Apache Kafka among controllers of Ottla."""

from __future__ import annotations

import asyncio
import contextlib
import subprocess
from collections.abc import Awaitable, Callable, Iterator, Mapping
from pathlib import Path

import pytest

from ottla.broker.metadata.formatting import write_first_features
from ottla.broker.metadata.log import MetadataLog
from ottla.broker.storage.dirs.meta_properties import MetaProperties, write_meta_properties
from ottla.config.broker import BrokerConfig
from ottla.node import Node
from ottla.runtime.os_runtime import OsRuntime, run
from ottla.runtime.ports import free_ports

CLUSTER_ID = "TxF4Pg9wTTyHSTiNHco7gg"
OURS = (1, 2)
KAFKA = 3
NEVER_MS = "3600000"
STANDS_NEVER = {
    "controller.quorum.election.timeout.ms": NEVER_MS,
    "controller.quorum.fetch.timeout.ms": NEVER_MS,
}
WITHIN_S = 60

pytestmark = pytest.mark.ottla_only


class MixedQuorum:
    """Voters 1 and 2 are Ottla's, voter 3 is Kafka's; all of them controllers only."""

    def __init__(self, folder: Path, libs: Path) -> None:
        self.folder = folder
        self.libs = libs
        self.ports = dict(zip((*OURS, KAFKA), free_ports(3), strict=True))
        self.nodes: dict[int, Node] = {}

    def settings(self, node_id: int, more: Mapping[str, str]) -> dict[str, str]:
        voters = [f"{i}@127.0.0.1:{port}" for i, port in self.ports.items()]
        return {
            "node.id": str(node_id),
            "process.roles": "controller",
            "listeners": f"CONTROLLER://127.0.0.1:{self.ports[node_id]}",
            "controller.listener.names": "CONTROLLER",
            "controller.quorum.voters": ",".join(voters),
            "log.dirs": str(self.folder / str(node_id)),
            **more,
        }

    @contextlib.contextmanager
    def kafka(self, more: Mapping[str, str]) -> Iterator[None]:
        file = self.folder / "kafka.properties"
        settings = self.settings(KAFKA, more)
        file.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
        java = ["java", "-Xmx256m", "-cp", f"{self.libs}/*"]
        formatting = ["kafka.tools.StorageTool", "format", "-t", CLUSTER_ID, "-c", str(file)]
        subprocess.run([*java, *formatting], check=True, capture_output=True, timeout=60)
        with (self.folder / "kafka.log").open("w") as output:
            process = subprocess.Popen(
                [*java, "kafka.Kafka", str(file)], stdout=output, stderr=output
            )
        try:
            yield
        finally:
            process.kill()
            process.wait()

    async def start(self, runtime: OsRuntime, more: Mapping[str, str]) -> None:
        for node_id in OURS:
            folder = str(self.folder / str(node_id))
            runtime.disk.make_dirs(folder)
            identity = MetaProperties(CLUSTER_ID, node_id, bytes([node_id]) * 16)
            write_meta_properties(runtime.disk, folder, identity)
            levels = {"metadata.version": 30, "transaction.version": 2}
            write_first_features(runtime.disk, folder, levels, now_ms=1)
            config = BrokerConfig.parse(self.settings(node_id, more))
            self.nodes[node_id] = Node(runtime, config)
        async with asyncio.timeout(WITHIN_S):
            await asyncio.gather(*(node.start() for node in self.nodes.values()))

    async def stop(self) -> None:
        for node in self.nodes.values():
            await node.stop()

    @property
    def logs(self) -> list[MetadataLog]:
        return [node.metadata for node in self.nodes.values()]

    async def until(self, condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(WITHIN_S):
            while not condition():  # noqa: ASYNC110  # what changes is in another process
                await asyncio.sleep(0.05)


def in_quorum(
    quorum: MixedQuorum, ours: Mapping[str, str], story: Callable[[], Awaitable[None]]
) -> None:
    async def main(runtime: OsRuntime) -> None:
        try:
            await quorum.start(runtime, ours)
            await story()
        finally:
            await quorum.stop()

    run(main)


def test_kafka_follows_a_leader_of_ottla(tmp_path: Path, kafka_libs: Path) -> None:
    quorum = MixedQuorum(tmp_path, kafka_libs)

    async def story() -> None:
        # Kafka registers itself with the active controller once it has read the log.
        await quorum.until(lambda: all(KAFKA in log.image.controllers for log in quorum.logs))
        (leader,) = [log for log in quorum.logs if log.is_leader]
        await quorum.until(lambda: progress(leader, KAFKA) == leader.end_offset)

    with quorum.kafka(STANDS_NEVER):
        in_quorum(quorum, {}, story)


def progress(log: MetadataLog, node_id: int) -> int | None:
    """How far a voter is, as the leader knows it."""
    from ottla.broker.raft.states.leader import Leader

    state = log.quorum.core.state
    assert isinstance(state, Leader)
    (voter,) = [voter for voter in state.voters if voter.key.id == node_id]
    return voter.end_offset


def test_ottla_follows_a_leader_of_kafka(tmp_path: Path, kafka_libs: Path) -> None:
    quorum = MixedQuorum(tmp_path, kafka_libs)

    async def story() -> None:
        assert all(log.leader_id == KAFKA for log in quorum.logs)
        await quorum.until(
            lambda: all({1, 2, 3} <= log.image.controllers.keys() for log in quorum.logs)
        )
        # A controller of Kafka writes twice a second even if there is nothing to say.
        before = quorum.logs[0].high_watermark
        await quorum.until(lambda: all(log.image.offset > before + 3 for log in quorum.logs))
        assert all(log.image.features["metadata.version"] == 30 for log in quorum.logs)

    with quorum.kafka({}):
        in_quorum(quorum, STANDS_NEVER, story)
