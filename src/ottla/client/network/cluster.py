"""A cluster as a client sees it: found through any broker, asked at the right one."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import TypeVar

from ottla.client.errors import Address, ClientError, NoBrokerReachable, TopicMissing
from ottla.client.network.backoff import retrying
from ottla.client.network.connection import CONNECT_TIMEOUT_MS, REQUEST_TIMEOUT_MS, Connection
from ottla.client.network.metadata import ClusterView, Partition, Topic, view_of
from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.runtime.runtime import Runtime

T = TypeVar("T")

RETRY_WITHIN_MS = 30_000
NO_TOPICS: tuple[str, ...] = ()


class Cluster:
    """Use as `async with Cluster(...) as cluster`. Connections are made when first needed."""

    def __init__(
        self,
        runtime: Runtime,
        bootstrap: Sequence[Address],
        *,
        client_id: str = "ottla",
        connect_timeout_ms: int = CONNECT_TIMEOUT_MS,
        request_timeout_ms: int = REQUEST_TIMEOUT_MS,
        retry_within_ms: int = RETRY_WITHIN_MS,
    ) -> None:
        self.runtime = runtime
        self._bootstrap = list(bootstrap)
        self._client_id = client_id
        self._connect_timeout_ms = connect_timeout_ms
        self.request_timeout_ms = request_timeout_ms
        self.retry_within_ms = retry_within_ms
        self._seed: Connection | None = None
        self._by_node: dict[int, Connection] = {}
        self._for_fetching: dict[int, Connection] = {}
        self._opening = asyncio.Lock()
        self.view = ClusterView(None, -1)

    async def __aenter__(self) -> Cluster:
        await self.any_broker()
        return self

    async def __aexit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        for connection in (self._seed, *self._by_node.values(), *self._for_fetching.values()):
            if connection is not None:
                connection.close()
        self._by_node.clear()
        self._for_fetching.clear()

    # Connections

    async def any_broker(self) -> Connection:
        """A connection to whichever broker answers: an open one, else through the bootstrap."""
        async with self._opening:
            for connection in (self._seed, *self._by_node.values()):
                if connection is not None and not connection.closed:
                    return connection
            self._seed = await self._bootstrapped()
            return self._seed

    async def broker(self, node_id: int) -> Connection:
        return await self._connected(node_id, self._by_node)

    async def broker_for_fetching(self, node_id: int) -> Connection:
        """A connection of its own: answers come in order, so a long poll would hold up others."""
        return await self._connected(node_id, self._for_fetching)

    async def _connected(self, node_id: int, connections: dict[int, Connection]) -> Connection:
        async with self._opening:
            connection = connections.get(node_id)
            if connection is None or connection.closed:
                connection = connections[node_id] = await self._open(self._address(node_id))
            return connection

    async def controller(self) -> Connection:
        """Where changes go. A broker without the controller's role hands them on itself."""
        if self.view.controller_id not in self.view.brokers:
            await self.refresh(NO_TOPICS)
        if self.view.controller_id not in self.view.brokers:
            return await self.any_broker()
        return await self.broker(self.view.controller_id)

    def _address(self, node_id: int) -> Address:
        known = self.view.brokers.get(node_id)
        if known is None:
            raise KafkaError(
                ErrorCode.LEADER_NOT_AVAILABLE, f"the cluster has no live broker {node_id}"
            )
        return known.host, known.port

    async def _bootstrapped(self) -> Connection:
        failures: list[ClientError] = []
        known = [(broker.host, broker.port) for broker in self.view.brokers.values()]
        for address in dict.fromkeys([*self._bootstrap, *known]):
            try:
                return await self._open(address)
            except ClientError as error:
                failures.append(error)
        raise NoBrokerReachable(failures)

    async def _open(self, address: Address) -> Connection:
        return await Connection.open(
            self.runtime,
            address,
            client_id=self._client_id,
            connect_timeout_ms=self._connect_timeout_ms,
            request_timeout_ms=self.request_timeout_ms,
        )

    # Metadata

    async def refresh(
        self, topics: Iterable[str] | None = None, *, create_missing: bool = False
    ) -> ClusterView:
        """Ask anew for these topics (None: all) and for the brokers; remembered in `view`."""
        from ottla.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic

        connection = await self.any_broker()
        version = connection.version_of(MetadataRequest)
        wanted = None
        if topics is not None:
            wanted = [MetadataRequestTopic(name=name) for name in topics]
        request = MetadataRequest(topics=wanted)
        if version >= 4:
            request.allow_auto_topic_creation = create_missing
        view = view_of(await connection.request(request, version=version))
        merged = view.topics if topics is None else {**self.view.topics, **view.topics}
        self.view = ClusterView(view.cluster_id, view.controller_id, view.brokers, merged)
        return view

    async def topic(self, name: str, *, create_missing: bool = False) -> Topic:
        """The topic with a leader for each partition; `TopicMissing` if there is none."""

        async def attempt() -> Topic:
            topic = (await self.refresh([name], create_missing=create_missing)).topics[name]
            for code in (topic.error_code, *(p.error_code for p in topic.partitions)):
                self._raise_for(code, name, create_missing)
            return topic

        return await retrying(self.runtime, attempt, within_ms=self.retry_within_ms)

    def _raise_for(self, code: int, topic: str, create_missing: bool) -> None:
        if code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION and not create_missing:
            raise TopicMissing(topic)
        # A replica that is down is no reason to wait: the leader serves without it.
        if code not in (ErrorCode.NONE, ErrorCode.REPLICA_NOT_AVAILABLE):
            raise KafkaError(ErrorCode.of(code), f"topic {topic!r}: {ErrorCode.of(code).message}")

    async def partition(self, topic: str, index: int) -> Partition:
        """From what is known, else asked for."""
        known = self.view.topics.get(topic)
        if known is None or not known.partitions:
            known = await self.topic(topic)
        if not 0 <= index < len(known.partitions):
            raise TopicMissing(topic, index)
        return known.partitions[index]

    def topic_id(self, topic: str) -> bytes:
        return self.view.topics[topic].topic_id

    # Work

    async def retrying(self, attempt: Callable[[], Awaitable[T]], *, resend: bool = True) -> T:
        return await retrying(self.runtime, attempt, within_ms=self.retry_within_ms, resend=resend)

    async def by_leader(self, topic: str, partitions: Iterable[int]) -> dict[int, list[int]]:
        """The partitions grouped by the broker that leads them."""
        groups: dict[int, list[int]] = {}
        for index in partitions:
            leader = (await self.partition(topic, index)).leader
            if leader < 0:
                raise KafkaError(
                    ErrorCode.LEADER_NOT_AVAILABLE, f"{topic}-{index} has no leader now"
                )
            groups.setdefault(leader, []).append(index)
        return groups
