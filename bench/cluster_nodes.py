"""Three nodes of one kind on this machine, each a broker and controller."""

from __future__ import annotations

import base64
import os
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from bench.brokers import HOST, Broker, BrokerFailed, Kafka, Ottla, free_port, run_java
from ottla.cli.nodes.folder import FAIL_OVER
from ottla.config.copies import copies

NODES = (1, 2, 3)
# A broker ends with the thread that started it, so these threads stay.
_STARTERS = ThreadPoolExecutor(len(NODES))
_KAFKA = {
    # Kafka notices a dead broker by the end of its session only; Ottla's nodes by its port, too.
    "broker.session.timeout.ms": "1000",
    "share.coordinator.state.topic.replication.factor": "3",
    "share.coordinator.state.topic.min.isr": "2",
}


def _settings(node: OttlaNode | KafkaNode) -> str:
    own = f"PLAINTEXT://{HOST}:{node.port},CONTROLLER://{HOST}:{node.controller_port}"
    lines = {
        "node.id": str(node.number),
        "process.roles": "broker,controller",
        "listeners": own,
        "controller.listener.names": "CONTROLLER",
        "controller.quorum.voters": node.voters,
        "log.dirs": str(node.data),
        **copies(len(NODES)),
        **FAIL_OVER,
        **node.options,
    }
    return "".join(f"{key}={value}\n" for key, value in lines.items())


class OttlaNode(Ottla):
    number = 0
    controller_port = 0
    voters = ""
    cluster = ""

    @property
    def config(self) -> Path:
        return self.folder / "server.properties"

    def prepare(self) -> None:
        self.config.write_text(_settings(self))
        if not (self.data / "meta.properties").exists():
            program = str(Path(sys.executable).parent / "ottla")
            words = ("storage", "format", f"--cluster-id={self.cluster}", "-c", str(self.config))
            done = subprocess.run([program, *words], capture_output=True, text=True)
            if done.returncode:
                raise BrokerFailed(f"formatting {self.data}: {done.stderr}")

    def command(self) -> list[str]:
        program = str(Path(sys.executable).parent / "ottla")
        return [program, "start", "--config", str(self.config)]

    def find_port(self) -> int | None:
        return self.port if super().find_port() else None


class KafkaNode(Kafka):
    JVM = tuple(one.replace("1g", "512m") for one in Kafka.JVM)
    number = 0
    controller_port = 0
    voters = ""
    cluster = ""

    def prepare(self) -> None:
        self.options = _KAFKA | self.options
        self._file.write_text(_settings(self))
        if not (self.data / "meta.properties").exists():
            # In one word: one in 64 of these ids begins with a dash, like an option.
            tool = ("kafka.tools.StorageTool", "format", f"--cluster-id={self.cluster}")
            run_java(self.libs, *tool, "-c", str(self._file))


def start_together(nodes: Iterable[Broker]) -> None:
    """Start nodes at the same time: none is ready before there is a majority."""
    for one in [_STARTERS.submit(node.start) for node in nodes]:
        one.result()


class Trio:
    """`with Trio(...) as trio:` runs three nodes; the caller removes their folders."""

    def __init__(
        self, folder: Path, libs: Path | None, options: Mapping[str, str] | None = None
    ) -> None:
        """Kafka's nodes if `libs` has its jars, else Ottla's."""
        self.name = "Ottla" if libs is None else "Kafka"
        cluster = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        self.nodes: dict[int, OttlaNode | KafkaNode] = {}
        for number in NODES:
            place = folder / f"{self.name}-node{number}"
            node: OttlaNode | KafkaNode
            node = (
                OttlaNode(place, options) if libs is None else KafkaNode(place, options, libs=libs)
            )
            node.name = f"{self.name} node {number}"
            node.number, node.cluster = number, cluster
            node.port, node.controller_port = free_port(), free_port()
            self.nodes[number] = node
        voters = [f"{node.number}@{HOST}:{node.controller_port}" for node in self.nodes.values()]
        for node in self.nodes.values():
            node.voters = ",".join(voters)

    def __enter__(self) -> Trio:
        try:
            self.start(*NODES)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        for node in self.nodes.values():
            node.remove()

    def start(self, *numbers: int) -> None:
        start_together(self.nodes[number] for number in numbers)

    def stop(self, *numbers: int) -> None:
        """Stop them at the same time, as for a restart of all."""
        for number in numbers:
            os.kill(self.nodes[number].pid, signal.SIGTERM)
        for number in numbers:
            self.nodes[number].stop()

    @property
    def address(self) -> str:
        return ",".join(node.address for node in self.nodes.values())

    def cpu_s(self) -> float:
        return sum(node.cpu_s() for node in self._running())

    def rss_bytes(self) -> int:
        return sum(node.rss_bytes() for node in self._running())

    def metadata_bytes(self) -> int:
        """Return the size of the metadata log and its snapshots on one node."""
        folder = self.nodes[1].data / "__cluster_metadata-0"
        files = [*folder.glob("*.log"), *folder.glob("*.checkpoint")]
        return sum(file.stat().st_size for file in files)

    def _running(self) -> list[Broker]:
        return [node for node in self.nodes.values() if node.running]


def await_true(holds: Callable[[], object], within_s: float, what: str) -> None:
    deadline = time.monotonic() + within_s
    while not holds():
        if time.monotonic() > deadline:
            raise TimeoutError(f"not within {within_s:g} s: {what}")
        time.sleep(0.01)
