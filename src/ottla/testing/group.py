"""All nodes of a test's cluster, in their loop: opened, watched and removed."""

from __future__ import annotations

import asyncio
import errno
import os.path
import random
import shutil
import tempfile
from collections.abc import Callable, Coroutine, Iterable, Mapping
from pathlib import Path
from typing import Any

from ottla.broker.storage.dirs.meta_properties import (
    FILE_NAME,
    MetaProperties,
    write_meta_properties,
)
from ottla.node import Node
from ottla.protocol.uuids import random_uuid, to_text
from ottla.runtime.ports import free_ports
from ottla.testing import cluster_state
from ottla.testing.cluster_state import NotReady
from ottla.testing.nodes import HostedNode, NodeView
from ottla.testing.runtime import UnsyncedDisk
from ottla.testing.security import AUTHORITY_FOLDER, ClusterSecurity, Security
from ottla.testing.settings import node_settings

READY_TIMEOUT_S = 15.0
OPEN_ATTEMPTS_MAX = 3
NODES_MAX = 100


class NodeGroup:
    """A context manager for its folder; call `open` and the other methods in the loop."""

    def __init__(
        self,
        count: int,
        settings: Mapping[str, object],
        by_node: Mapping[int, Mapping[str, object]],
        folder: str | None,
        security: Security | None = None,
    ) -> None:
        check_nodes(count, by_node)
        self._count = count
        self._settings = as_texts(settings)
        self._security_wanted = security
        self.security: ClusterSecurity | None = None
        self._by_node = {number: as_texts(one) for number, one in by_node.items()}
        self._kept_folder = folder
        self._folder = ""
        self._cluster_id = to_text(random_uuid(random.SystemRandom()))
        self._controller_ports: list[int] = []
        self._nodes: dict[int, HostedNode] = {}
        self._changed = asyncio.Event()

    def __enter__(self) -> NodeGroup:
        self._folder = self._kept_folder or tempfile.mkdtemp(prefix="ottla-cluster-")
        if self._security_wanted is not None:
            authority = Path(self._folder, AUTHORITY_FOLDER)
            self.security = ClusterSecurity(self._security_wanted, authority)
            secured = self.security.node_settings(has_controllers=self._count > 1)
            self._settings = secured | self._settings
        return self

    def __exit__(self, *_: object) -> None:
        if self._kept_folder is None:
            shutil.rmtree(self._folder, ignore_errors=True)

    # --- opening and closing --------------------------------------------------------------------

    async def open(self) -> None:
        """Open all nodes at once. The controllers' ports must be known before: if another process
        has taken one meanwhile, other ports are tried."""
        for attempts_left in reversed(range(OPEN_ATTEMPTS_MAX)):
            self._controller_ports = free_ports(self._count)
            for number in range(1, self._count + 1):
                self._nodes[number] = self._new_node(number)
            try:
                await self._all_of(node.start(self._wake_waiters) for node in self._nodes.values())
                await self.wait_ready(READY_TIMEOUT_S)
                break
            except OSError as error:
                await self.close()
                if error.errno != errno.EADDRINUSE or attempts_left == 0:
                    raise
        if self.security is not None and self.security.acls:
            await self.security.add_acls(self.bootstrap_servers)
            await self._until(self._what_has_no_acls, READY_TIMEOUT_S)

    @property
    def bootstrap_servers(self) -> str:
        return ",".join(node.address for node in self.views().values())

    def _new_node(self, number: int) -> HostedNode:
        folder = os.path.join(self._folder, f"node{number}")
        given = self._settings | self._by_node.get(number, {})
        if not os.path.exists(os.path.join(folder, FILE_NAME)):
            disk = UnsyncedDisk()
            disk.make_dirs(folder)
            directory_id = random_uuid(random.SystemRandom())
            identity = MetaProperties(self._cluster_id, number, directory_id)
            write_meta_properties(disk, folder, identity)
        return HostedNode(
            number,
            folder,
            lambda port: node_settings(number, self._controller_ports, port, folder, given),
        )

    async def close(self) -> None:
        """Close all nodes at once, without moving leaders, unless the data is kept."""
        if self._kept_folder is not None:
            await self._all_of(node.stop() for node in self._nodes.values() if node.is_running)
        await self._all_of(node.kill() for node in self._nodes.values())

    def bury(self) -> None:
        for node in self._nodes.values():
            node.bury()

    async def _all_of(self, works: Iterable[Coroutine[Any, Any, None]]) -> None:
        """Run all to their end, then raise the first error."""
        outcomes = await asyncio.gather(*works, return_exceptions=True)
        for outcome in outcomes:
            if isinstance(outcome, BaseException):
                raise outcome

    # --- single nodes ---------------------------------------------------------------------------

    async def start(self, *numbers: int) -> None:
        await self._all_of(self._node(number).start(self._wake_waiters) for number in numbers)

    async def stop(self, number: int) -> None:
        await self._node(number).stop()

    async def kill(self, number: int) -> None:
        await self._node(number).kill()

    def pause(self, number: int) -> None:
        self._node(number).pause()

    def resume(self, number: int) -> None:
        self._node(number).resume()

    async def add_node(self, settings: Mapping[str, object]) -> int:
        if self._count == 1:
            raise ValueError("a single node cannot grow: begin with nodes=2 or more")
        number = max(self._nodes) + 1
        self._by_node[number] = as_texts(settings)
        self._nodes[number] = self._new_node(number)
        await self.start(number)
        return number

    def _node(self, number: int) -> HostedNode:
        if number not in self._nodes:
            raise ValueError(f"there is no node {number}: nodes are {sorted(self._nodes)}")
        return self._nodes[number]

    # --- state ----------------------------------------------------------------------------------

    def views(self) -> dict[int, NodeView]:
        return {number: node.view() for number, node in self._nodes.items()}

    def controller(self) -> int | None:
        return cluster_state.controller(self._started())

    def leader_of(self, topic: str, partition: int) -> int | None:
        return cluster_state.leader_of(self._started(), topic, partition)

    def _started(self) -> dict[int, Node]:
        return {one.number: one.node for one in self._running() if one.node is not None}

    def _running(self) -> list[HostedNode]:
        return [
            node
            for node in self._nodes.values()
            if node.is_running and node.view().state == "running"
        ]

    # --- waiting --------------------------------------------------------------------------------

    async def wait_ready(self, timeout_s: float) -> None:
        await self._until(self._what_is_not_ready, timeout_s)

    async def wait_in_sync(self, timeout_s: float) -> None:
        await self._until(self._what_is_not_in_sync, timeout_s)

    async def _until(self, missing: Callable[[], str | None], timeout_s: float) -> None:
        what = missing()
        try:
            async with asyncio.timeout(timeout_s):
                while what is not None:
                    self._changed.clear()
                    await self._changed.wait()
                    what = missing()
        except TimeoutError:
            raise NotReady(f"not within {timeout_s:g} s: {what}") from None

    def _wake_waiters(self, *_: object) -> None:
        self._changed.set()

    def _what_is_not_ready(self) -> str | None:
        return self._what_is_starting() or cluster_state.not_ready(self._started())

    def _what_is_not_in_sync(self) -> str | None:
        return self._what_is_starting() or cluster_state.not_in_sync(self._started())

    def _what_has_no_acls(self) -> str | None:
        wanted = len(set(self.security.acls)) if self.security is not None else 0
        for number, node in self._started().items():
            if len(node.metadata.image.acls) < wanted:
                return f"node {number} does not know all ACLs"
        return None

    def _what_is_starting(self) -> str | None:
        starting = [str(one.number) for one in self._running() if one.node is None]
        return f"still starting: node {', '.join(starting)}" if starting else None


def check_nodes(count: int, by_node: Mapping[int, object]) -> None:
    if not isinstance(count, int) or not 1 <= count <= NODES_MAX:
        raise ValueError(f"a cluster has 1 to {NODES_MAX} nodes, not {count!r}")
    if unknown := set(by_node) - set(range(1, count + 1)):
        raise ValueError(f"node_settings of {unknown}, but nodes are 1 to {count}")


def as_texts(settings: Mapping[str, object]) -> dict[str, str]:
    """Convert values to strings as in a file: a test may give numbers and booleans."""
    return {
        key: str(value).lower() if isinstance(value, bool) else str(value)
        for key, value in settings.items()
    }
