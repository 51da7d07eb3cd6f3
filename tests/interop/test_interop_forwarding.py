"""Requests that a broker of one kind forwards to a controller of the other, in envelopes."""

from __future__ import annotations

import asyncio
import contextlib
import subprocess
from collections.abc import Awaitable, Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from ottla.broker.metadata.formatting import write_first_features
from ottla.broker.peers.connected import ConnectedPeers
from ottla.broker.peers.peers import PeerError
from ottla.broker.server.contract import CONTROLLERS
from ottla.broker.storage.dirs.meta_properties import MetaProperties, write_meta_properties
from ottla.config.broker import BrokerConfig
from ottla.node import Node
from ottla.protocol.apis import ApiKey
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from ottla.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from ottla.protocol.schema import Message
from ottla.runtime.os_runtime import OsRuntime, run
from ottla.runtime.ports import free_ports

CLUSTER_ID = "TxF4Pg9wTTyHSTiNHco7gg"
CONTROLLER_ID, BROKER_ID = 1, 2
WITHIN_S = 60
CLIENT_ID = "an application"

pytestmark = pytest.mark.ottla_only


class Pair:
    """A controller and a broker, each of its kind."""

    def __init__(self, folder: Path, libs: Path) -> None:
        self.folder = folder
        self.libs = libs
        self.controller_port, self.broker_port = free_ports(2)
        self.nodes: list[Node] = []

    def settings(self, node_id: int) -> dict[str, str]:
        is_broker = node_id == BROKER_ID
        port = self.broker_port if is_broker else self.controller_port
        return {
            "node.id": str(node_id),
            "process.roles": "broker" if is_broker else "controller",
            "listeners": f"{'PLAINTEXT' if is_broker else 'CONTROLLER'}://127.0.0.1:{port}",
            "controller.listener.names": "CONTROLLER",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
            "controller.quorum.voters": f"{CONTROLLER_ID}@127.0.0.1:{self.controller_port}",
            "log.dirs": str(self.folder / str(node_id)),
            "offsets.topic.replication.factor": "1",
        }

    @contextlib.contextmanager
    def kafka(self, node_id: int) -> Iterator[None]:
        file = self.folder / "kafka.properties"
        lines = (f"{key}={value}\n" for key, value in self.settings(node_id).items())
        file.write_text("".join(lines))
        java = ["java", "-Xmx256m", "-cp", f"{self.libs}/*"]
        formatting = ["kafka.tools.StorageTool", "format", "-t", CLUSTER_ID, "-c", str(file)]
        if node_id == CONTROLLER_ID:
            formatting += ["--feature", "share.version=0", "--feature", "streams.version=0"]
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

    async def start(self, runtime: OsRuntime, node_id: int) -> Node:
        folder = str(self.folder / str(node_id))
        runtime.disk.make_dirs(folder)
        identity = MetaProperties(CLUSTER_ID, node_id, bytes([node_id]) * 16)
        write_meta_properties(runtime.disk, folder, identity)
        levels = {"metadata.version": 30, "transaction.version": 2}
        write_first_features(runtime.disk, folder, levels, now_ms=1)
        node = Node(runtime, BrokerConfig.parse(self.settings(node_id)))
        self.nodes.append(node)
        async with asyncio.timeout(WITHIN_S):
            await node.start()
        return node

    async def stop(self) -> None:
        for node in self.nodes:
            await node.stop()

    async def ask(self, client: ConnectedPeers, request: Message) -> Any:
        """The broker's answer, as soon as it serves."""
        async with asyncio.timeout(WITHIN_S):
            while True:
                with contextlib.suppress(PeerError):
                    return await client.post(
                        "127.0.0.1", self.broker_port, request, timeout_ms=10_000
                    )
                await asyncio.sleep(0.1)


def run_pair(pair: Pair, story: Callable[[OsRuntime, ConnectedPeers], Awaitable[None]]) -> None:
    async def main(runtime: OsRuntime) -> None:
        client = ConnectedPeers(runtime, client_id=CLIENT_ID)
        try:
            await story(runtime, client)
        finally:
            client.close()
            await pair.stop()

    run(main)


def creation(name: str) -> CreateTopicsRequest:
    topic = CreatableTopic(name=name, num_partitions=1, replication_factor=1)
    return CreateTopicsRequest(topics=[topic], timeout_ms=10_000)


def codes(answer: Any) -> Mapping[str, ErrorCode]:
    return {topic.name: ErrorCode.of(topic.error_code) for topic in answer.topics}


def test_a_broker_of_kafka_forwards_to_a_controller_of_ottla(
    tmp_path: Path, kafka_libs: Path
) -> None:
    pair = Pair(tmp_path, kafka_libs)

    async def story(runtime: OsRuntime, client: ConnectedPeers) -> None:
        controller = await pair.start(runtime, CONTROLLER_ID)
        route = controller.server.dispatchers[CONTROLLERS].find(ApiKey.CREATE_TOPICS, 7)
        seen: list[Any] = []
        handle = route.handle

        def watched(context: Any, request: Any) -> Any:
            seen.append(context)
            return handle(context, request)

        route.handle = watched
        with pair.kafka(BROKER_ID):
            answer = await pair.ask(client, creation("made"))
            assert codes(answer) == {"made": ErrorCode.NONE}
            again = await pair.ask(client, creation("made"))
            assert codes(again) == {"made": ErrorCode.TOPIC_ALREADY_EXISTS}
            assert "made" in controller.metadata.image.topics
            await pair.ask(client, MetadataRequest(topics=[MetadataRequestTopic(name="asked")]))
            async with asyncio.timeout(WITHIN_S):
                while "asked" not in controller.metadata.image.topics:  # noqa: ASYNC110
                    await asyncio.sleep(0.05)
        assert {str(context.caller.principal) for context in seen} == {"User:ANONYMOUS"}
        assert {context.caller.host for context in seen} == {"127.0.0.1"}
        assert [context.client_id for context in seen] == [CLIENT_ID] * len(seen)

    run_pair(pair, story)


def test_a_broker_of_ottla_forwards_to_a_controller_of_kafka(
    tmp_path: Path, kafka_libs: Path
) -> None:
    pair = Pair(tmp_path, kafka_libs)

    async def story(runtime: OsRuntime, client: ConnectedPeers) -> None:
        with pair.kafka(CONTROLLER_ID):
            broker = await pair.start(runtime, BROKER_ID)
            answer = await pair.ask(client, creation("made"))
            assert codes(answer) == {"made": ErrorCode.NONE}
            assert "made" in broker.metadata.image.topics
            again = await pair.ask(client, creation("made"))
            assert codes(again) == {"made": ErrorCode.TOPIC_ALREADY_EXISTS}
            await pair.stop()
            pair.nodes.clear()

    run_pair(pair, story)
