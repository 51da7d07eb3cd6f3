"""Several brokers that answer as a test tells them to, and agree on what the cluster looks like."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from typing import Any

from scripted_broker import ScriptedBroker, negotiating

from ottla.protocol.apis import ApiKey
from ottla.protocol.errors import ErrorCode
from ottla.protocol.headers import RequestHeader
from ottla.protocol.messages.describe_cluster import DescribeClusterResponse
from ottla.protocol.messages.find_coordinator import Coordinator, FindCoordinatorResponse
from ottla.protocol.messages.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)

Hook = Callable[[int, RequestHeader, Any, asyncio.StreamWriter], Awaitable[bool]]
"""From (node id, header, request, writer) to whether it has answered."""


class ScriptedCluster:
    """`async with ScriptedCluster(2) as cluster`; nodes 1, 2, ... at `cluster.places`."""

    def __init__(
        self, count: int = 1, *, versions: dict[int, tuple[int, int]] | None = None
    ) -> None:
        self.topics: dict[str, MetadataResponseTopic] = {}
        self.coordinators: dict[str, int] = {}
        self.places: dict[int, tuple[str, int]] = {}
        self.asked: list[tuple[int, ApiKey, Any]] = []
        """Each request but ApiVersions: (node id, API, request)."""
        self.hook: Hook | None = None
        self.brokers = {
            node_id: ScriptedBroker(negotiating(self._answers_of(node_id)), versions)
            for node_id in range(1, count + 1)
        }
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> ScriptedCluster:
        for node_id, broker in self.brokers.items():
            self.places[node_id] = await self._stack.enter_async_context(broker)
        return self

    async def __aexit__(self, *details: Any) -> None:
        await self._stack.aclose()

    @property
    def bootstrap(self) -> str:
        return ",".join(f"{host}:{port}" for host, port in self.places.values())

    def count(self, api: ApiKey) -> int:
        return sum(1 for _, asked, _ in self.asked if asked is api)

    def topic(self, name: str, leaders: list[int], *, epoch: int = 0, number: int = 1) -> None:
        """A topic whose partitions have these leaders; another `number` is another topic id."""
        self.topics[name] = MetadataResponseTopic(
            name=name,
            topic_id=number.to_bytes(16, "big"),
            partitions=[
                MetadataResponsePartition(
                    partition_index=index,
                    leader_id=leader,
                    leader_epoch=epoch,
                    error_code=0 if leader >= 0 else ErrorCode.LEADER_NOT_AVAILABLE,
                    replica_nodes=[max(leader, 1)],
                    isr_nodes=[max(leader, 1)],
                    offline_replicas=[],
                )
                for index, leader in enumerate(leaders)
            ],
        )

    def _answers_of(self, node_id: int) -> Any:
        async def answer(
            broker: ScriptedBroker, header: RequestHeader, request: Any, writer: Any
        ) -> None:
            self.asked.append((node_id, ApiKey(header.api_key), request))
            if self.hook is not None and await self.hook(node_id, header, request, writer):
                return
            broker.send(writer, header, self._answer(header, request))

        return answer

    def _answer(self, header: RequestHeader, request: Any) -> Any:
        if header.api_key == ApiKey.METADATA:
            return self.metadata(request)
        if header.api_key == ApiKey.FIND_COORDINATOR:
            return self._coordinators(header, request)
        return DescribeClusterResponse(cluster_id="scripted")

    def metadata(self, request: Any) -> MetadataResponse:
        names = list(self.topics)
        if request.topics is not None:
            names = [topic.name for topic in request.topics]
        return MetadataResponse(
            brokers=[
                MetadataResponseBroker(node_id=node_id, host=host, port=port)
                for node_id, (host, port) in self.places.items()
            ],
            cluster_id="scripted",
            controller_id=1,
            topics=[self.topics.get(name) or _missing(name) for name in names],
        )

    def _coordinators(self, header: RequestHeader, request: Any) -> FindCoordinatorResponse:
        if header.api_version < 4:
            found = self._coordinator(request.key)
            return FindCoordinatorResponse(
                error_code=found.error_code, node_id=found.node_id, host=found.host, port=found.port
            )
        keys = request.coordinator_keys
        return FindCoordinatorResponse(coordinators=[self._coordinator(key) for key in keys])

    def _coordinator(self, key: str) -> Coordinator:
        node_id = self.coordinators.get(key)
        if node_id is None:
            code = ErrorCode.COORDINATOR_NOT_AVAILABLE
            return Coordinator(key=key, node_id=-1, host="", port=-1, error_code=code)
        host, port = self.places[node_id]
        return Coordinator(key=key, node_id=node_id, host=host, port=port)


def _missing(name: str) -> MetadataResponseTopic:
    return MetadataResponseTopic(
        name=name, error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, partitions=[]
    )
