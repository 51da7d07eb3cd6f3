"""Three nodes as processes of their own, each behind two proxies: one for clients and brokers, one
for those who talk to its controller. What goes wrong between them goes wrong in the proxies.
"""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from bench.brokers import HOST, Broker, free_port
from bench.cluster_nodes import NODES, OttlaNode, start_together

from fault_proxy import FaultProxy
from ottla.broker.storage.dirs.meta_properties import MetaProperties, write_meta_properties
from ottla.protocol.uuids import random_uuid, to_text
from ottla.runtime.os_disk import OsDisk


class ClusterNode(OttlaNode):
    """One of the three. What clients and other nodes are told are the ports of its proxies."""

    def __init__(self, number: int, folder: Path, options: Mapping[str, str]) -> None:
        super().__init__(folder, options)
        self.number = number
        self.name = f"node {number}"
        self.port = free_port()
        self.controller_port = free_port()
        self.clients = FaultProxy((HOST, self.port))
        self.controllers = FaultProxy((HOST, self.controller_port))
        self.is_frozen = False

    @property
    def address(self) -> str:
        return self.clients.address

    @property
    def proxies(self) -> tuple[FaultProxy, FaultProxy]:
        return self.clients, self.controllers

    def identify(self, cluster_id: str) -> None:
        self.data.mkdir(parents=True)
        identity = MetaProperties(cluster_id, self.number, random_uuid(random.SystemRandom()))
        write_meta_properties(OsDisk(), str(self.data), identity)

    def prepare(self) -> None:
        self.options["advertised.listeners"] = (
            f"PLAINTEXT://{self.clients.address},CONTROLLER://{self.controllers.address}"
        )
        super().prepare()

    def _refuse(self) -> None:
        """As the port of a process that is gone does."""
        for proxy in self.proxies:
            proxy.refuse()
            proxy.cut()

    def start(self) -> Broker:
        for proxy in self.proxies:
            proxy.accept()
        return super().start()

    def stop(self, number: signal.Signals = signal.SIGTERM) -> int:
        code = super().stop(number)
        self._refuse()
        return code

    def kill(self) -> None:
        super().kill()
        self._refuse()

    def find_port(self) -> int | None:
        return self.port if "ready in" in self.output[self._start_mark :] else None

    def freeze(self) -> None:
        os.kill(self.pid, signal.SIGSTOP)
        self.is_frozen = True

    def thaw(self) -> None:
        if self.is_frozen and self.running:
            os.kill(self.pid, signal.SIGCONT)
        self.is_frozen = False


class ThreeNodes:
    """`with ThreeNodes(folder) as cluster:` they run; afterwards only their data is left."""

    def __init__(self, folder: Path, options: Mapping[str, str] | None = None) -> None:
        self.nodes = {
            number: ClusterNode(number, folder / f"node{number}", options or {}) for number in NODES
        }

    def __enter__(self) -> ThreeNodes:
        cluster_id = to_text(random_uuid(random.SystemRandom()))
        for node in self.nodes.values():
            for proxy in node.proxies:
                proxy.__enter__()
            node.identify(cluster_id)
        voters = [f"{node.number}@{node.controllers.address}" for node in self.nodes.values()]
        for node in self.nodes.values():
            node.voters = ",".join(voters)
        try:
            self.start(*NODES)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        for node in self.nodes.values():
            node.thaw()
            node.kill()
            for proxy in node.proxies:
                proxy.__exit__()

    @property
    def address(self) -> str:
        return ",".join(node.address for node in self.nodes.values())

    def start(self, *numbers: int) -> None:
        start_together(self.nodes[number] for number in numbers)

    def stop(self, number: int) -> None:
        code = self.nodes[number].stop()
        assert code == 0, f"node {number} ended with {code}:\n{self.nodes[number].tail()}"

    def complaints(self) -> list[str]:
        """What nodes have logged that must not happen, whatever is done to them."""
        return [
            f"node {number}: {line}"
            for number, node in self.nodes.items()
            for line in node.output.splitlines()
            if "Traceback" in line or " CRITICAL " in line
        ]


def await_true(holds: Callable[[], bool], what: Callable[[], str], within_s: float) -> None:
    deadline = time.monotonic() + within_s
    while not holds():
        assert time.monotonic() < deadline, f"not within {within_s:g} s: {what()}"
        time.sleep(0.02)
