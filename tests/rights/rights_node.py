"""A node in a thread of the tests, with an authorizer that the tests set and read."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import pytest
from bench.brokers import HOST
from rights_samples import EXISTING, Grant
from rights_transports import Transport, User

import ottla.node
from broker_wire import Wire
from ottla.broker.server.context import NodeContext
from ottla.broker.server.contract import BROKERS, CONTROLLERS
from ottla.broker.server.services import BrokerServices, ControllerServices
from ottla.config.broker import BrokerConfig
from ottla.node import Node
from ottla.protocol.apis import api
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from ottla.runtime.os_runtime import OsRuntime, new_event_loop
from ottla.runtime.ports import free_ports
from ottla.security.principal import KafkaPrincipal
from ottla.security.rights import Operation, ResourceType, Right

T = TypeVar("T")

SETTINGS = {
    "controller.quorum.election.timeout.ms": "300",
    "group.initial.rebalance.delay.ms": "0",
    "log.cleaner.dedupe.buffer.size": "4194304",
    "offsets.topic.num.partitions": "1",
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.num.partitions": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "transaction.two.phase.commit.enable": "true",
}

_IMPLIED = {
    Operation.DESCRIBE: {Operation.READ, Operation.WRITE, Operation.DELETE, Operation.ALTER},
    Operation.DESCRIBE_CONFIGS: {Operation.ALTER_CONFIGS},
}


class GivenRights:
    """An authorizer that allows what the test granted, and notes what it was asked for."""

    def __init__(self, asker: KafkaPrincipal) -> None:
        self._asker = asker
        self._grants: set[Grant] = set()
        self.asked: set[Right] = set()
        self.asked_quietly: set[Right] = set()
        """Of these, a refusal is no event for the audit log."""
        self.allows_all = False

    def give(self, *grants: Grant) -> None:
        """Give these rights instead of all others that the asker had."""
        self._grants = set(grants)

    def _given(self, principal: KafkaPrincipal) -> set[Grant]:
        return self._grants if principal == self._asker else set()

    def allows(
        self,
        context: NodeContext,
        operation: Operation,
        resource_type: ResourceType,
        name: str,
        *,
        quiet: bool = False,
    ) -> bool:
        if context.caller.is_this_node or self.allows_all:
            return True
        (self.asked_quietly if quiet else self.asked).add(Right(operation, resource_type))
        given = self._given(context.caller.principal)
        enough = {operation} | _IMPLIED.get(operation, set())
        return any(Grant(one, resource_type, name) in given for one in enough)

    def allows_on_any(
        self, context: NodeContext, operation: Operation, resource_type: ResourceType
    ) -> bool:
        if context.caller.is_this_node or self.allows_all:
            return True
        self.asked.add(Right(operation, resource_type))
        given = self._given(context.caller.principal)
        return any(grant[:2] == (operation, resource_type) for grant in given)


class NodeWithRights:
    """Asked by the listener of clients (BROKERS) and by that of nodes (CONTROLLERS)."""

    def __init__(
        self,
        node: Node,
        rights: GivenRights,
        loop: asyncio.AbstractEventLoop,
        transport: Transport,
    ) -> None:
        self.rights = rights
        self._transport = transport
        self._node = node
        self._loop = loop
        self._listeners = {BROKERS: node.endpoints[0], CONTROLLERS: node.controller_endpoints[0]}
        self._wires: dict[tuple[str, User], Wire] = {}

    @property
    def node_id(self) -> int:
        return self._node.node_id

    @property
    def cluster_id(self) -> str:
        return self._node.cluster_id

    def topic_id(self, name: str) -> bytes:
        return self.look(lambda: self._node.metadata.image.topics[name].id)

    def ask(self, request: Any, version: int | None = None) -> Any:
        self.rights.allows_all = True
        try:
            asked = api(request.API_KEY).latest_stable if version is None else version
            return self.ask_on(BROKERS, request, asked, User.SUPER)
        finally:
            self.rights.allows_all = False

    def ask_on(self, kind: str, request: Any, version: int, user: User = User.ASKER) -> Any:
        """After a connection was closed the next request opens another."""
        wire = self._wires.get((kind, user))
        if wire is None:
            wire = self._transport.connect(self._listeners[kind], user)
            self._wires[kind, user] = wire
        try:
            return wire.ask(request, version)
        except (AssertionError, OSError):
            self._wires.pop((kind, user)).close()
            raise

    def create(self, *topics: str) -> None:
        request = CreateTopicsRequest(
            topics=[CreatableTopic(name=t, num_partitions=1, replication_factor=1) for t in topics],
            timeout_ms=20_000,
        )
        codes = {topic.error_code for topic in self.ask(request).topics}
        assert codes <= {0, ErrorCode.TOPIC_ALREADY_EXISTS}

    def state(self) -> Any:
        """Return what a refused request may not change."""

        def look() -> Any:
            logs = self._node.log_manager.logs()
            return (
                self._node.metadata.end_offset,
                {
                    (log.topic, log.partition): (log.log_start_offset, log.end_offset)
                    for log in logs
                },
            )

        return self.look(look)

    def look(self, at: Callable[[], T]) -> T:
        """Call a function in the node's thread."""

        async def run() -> T:
            return at()

        return asyncio.run_coroutine_threadsafe(run(), self._loop).result(20)

    def close(self) -> None:
        for wire in self._wires.values():
            wire.close()


@contextmanager
def node_with_rights(folder: Path, transport: Transport) -> Iterator[NodeWithRights]:
    rights = GivenRights(transport.asker)
    with pytest.MonkeyPatch.context() as patch:
        for services in (BrokerServices, ControllerServices):
            patch.setattr(ottla.node, services.__name__, _with_authorizer(services, rights))
        loop = new_event_loop()
        thread = threading.Thread(target=loop.run_forever, name="node-with-rights", daemon=True)
        thread.start()

        def wait(work: Any) -> Any:
            return asyncio.run_coroutine_threadsafe(work, loop).result(60)

        node, runtime = wait(_started(folder, transport))
        there = NodeWithRights(node, rights, loop, transport)
        try:
            there.create(EXISTING)
            yield there
        finally:
            there.close()
            wait(node.stop())
            wait(runtime.close())
            loop.call_soon_threadsafe(loop.stop)
            thread.join()
            loop.close()


def _with_authorizer(services: Callable[..., Any], rights: GivenRights) -> Callable[..., Any]:
    return lambda **fields: services(**{**fields, "authorizer": rights})


async def _started(folder: Path, transport: Transport) -> tuple[Node, OsRuntime]:
    client_port, controller_port = free_ports(2)
    runtime = OsRuntime()
    config = {
        "node.id": "1",
        "process.roles": "broker,controller",
        "log.dirs": str(folder),
        "controller.listener.names": "CONTROLLER",
        "controller.quorum.voters": f"1@{HOST}:{controller_port}",
        **SETTINGS,
        **transport.settings(client_port, controller_port),
    }
    node = Node(runtime, BrokerConfig.parse(config))
    await node.start()
    return node, runtime
