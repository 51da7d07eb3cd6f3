"""A client's view of a cluster: it bootstraps from any broker, and finds the right broker."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import TypeVar

from ottla.client.errors import Address, ClientError, TopicMissing, Unreachable
from ottla.client.network.addresses import parse_addresses
from ottla.client.network.backoff import Backoff, Pauses, retrying
from ottla.client.network.bootstrap import Bootstrap
from ottla.client.network.credentials import security_of
from ottla.client.network.finding import CoordinatorType, find_coordinators
from ottla.client.network.metadata import Broker, ClusterView, Partition, Topic
from ottla.client.network.metadata_keeper import MetadataKeeper
from ottla.client.network.pool import Pool, Purpose
from ottla.client.settings.common import ClientSettings
from ottla.counters import MetricRegistry
from ottla.network.connection import Connection
from ottla.network.connection_metrics import ConnectionMetrics
from ottla.network.opening import open_connection
from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.runtime.runtime import Runtime

T = TypeVar("T")

NO_TOPICS: tuple[str, ...] = ()


class Cluster:
    """Use as `async with Cluster.of(...) as cluster`. Connections are made when first needed."""

    def __init__(
        self, runtime: Runtime, settings: ClientSettings, bootstrap: Sequence[Address]
    ) -> None:
        self.runtime = runtime
        self.settings = settings
        self.request_timeout_ms = settings.request_timeout_ms
        self.retry_within_ms = settings.default_api_timeout_ms
        self.metrics = MetricRegistry(runtime.clock.now)
        self._connection_metrics = ConnectionMetrics(self.metrics)
        self._security = security_of(settings)
        self._pool = Pool(
            runtime,
            self.dial,
            reconnect_backoff_ms=settings.reconnect_backoff_ms,
            reconnect_backoff_max_ms=settings.reconnect_backoff_max_ms,
            idle_max_ms=settings.connections_max_idle_ms,
        )
        self.metadata = MetadataKeeper(
            runtime,
            self.any_broker,
            start_over=self._pool.retire_all,
            settings=settings,
        )
        self.metadata.on_change(self._retire_moved)
        self._bootstrap = Bootstrap(
            runtime,
            self._pool,
            bootstrap,
            lambda: self.view.brokers,
            returns=settings.metadata_recovery_strategy == "rebootstrap",
        )
        self._places: dict[int, Address] = {}
        self._coordinators: dict[tuple[CoordinatorType, str], Broker] = {}

    @classmethod
    def of(cls, settings: ClientSettings, runtime: Runtime) -> Cluster:
        return cls(runtime, settings, parse_addresses(settings.bootstrap_servers))

    async def __aenter__(self) -> Cluster:
        await self.any_broker()
        return self

    async def __aexit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self.metadata.close()
        self._bootstrap.close()
        self._pool.close()

    # Connections

    async def any_broker(self) -> Connection:
        """Return a connection to any broker: an open one, else through the bootstrap."""
        return await self._bootstrap.any_broker()

    async def broker(self, node_id: int) -> Connection:
        return await self.connection(node_id, "main")

    async def broker_for_fetching(self, node_id: int) -> Connection:
        """Return a separate connection for fetches: responses come in order, so a long poll would
        delay others."""
        return await self.connection(node_id, "fetch")

    async def connection(self, node_id: int, purpose: Purpose = "main") -> Connection:
        found = self._pool.get(node_id, purpose)
        return found or await self._pool.connect(node_id, self._address(node_id), purpose)

    def open_connection(self, node_id: int, purpose: Purpose = "main") -> Connection | None:
        """Return the open connection, if there is one, without opening any."""
        return self._pool.get(node_id, purpose)

    async def controller(self) -> Connection:
        """Return the connection for changes. A broker that is not the controller forwards them."""
        if self.view.controller_id not in self.view.brokers:
            await self.refresh(NO_TOPICS)
        if self.view.controller_id not in self.view.brokers:
            return await self.any_broker()
        try:
            return await self.broker(self.view.controller_id)
        except Unreachable:
            # Another node may be the controller by now; a retry will find it.
            await self.refresh(NO_TOPICS)
            raise

    def _address(self, node_id: int) -> Address:
        known = self.view.brokers.get(node_id)
        if known is None:
            raise KafkaError(
                ErrorCode.LEADER_NOT_AVAILABLE, f"the cluster has no live broker {node_id}"
            )
        return known.host, known.port

    def _retire_moved(self, view: ClusterView) -> None:
        """Close connections to brokers whose address has changed."""
        places = {broker.node_id: (broker.host, broker.port) for broker in view.brokers.values()}
        for node_id, place in places.items():
            if self._places.get(node_id, place) != place:
                self._pool.retire(node_id)
        self._places |= places

    async def dial(self, address: Address) -> Connection:
        """Open a connection outside the pool; the caller must close it."""
        return await open_connection(
            self.runtime,
            address,
            client_id=self.settings.client_id,
            connect_timeout_ms=self.settings.socket_connection_setup_timeout_ms,
            request_timeout_ms=self.request_timeout_ms,
            security=self._security,
            metrics=self._connection_metrics,
        )

    # Coordinators

    async def coordinator(self, kind: CoordinatorType, key: str) -> Connection:
        """Return a connection to the key's coordinator, used only for coordination.

        Makes one attempt. Raises a retriable `KafkaError` if there is no coordinator now.
        """
        found = self._coordinators.get((kind, key))
        if found is None:
            answer = (await self.find_coordinators(kind, [key]))[key]
            if isinstance(answer, KafkaError):
                raise answer
            found = answer
        try:
            return await self._pool.connect(found.node_id, (found.host, found.port), "coordinator")
        except ClientError:
            self.forget_coordinator(kind, key)
            raise

    def forget_coordinator(self, kind: CoordinatorType, key: str) -> None:
        """Call it after NOT_COORDINATOR, COORDINATOR_NOT_AVAILABLE or a lost connection."""
        self._coordinators.pop((kind, key), None)

    async def find_coordinators(
        self, kind: CoordinatorType, keys: Sequence[str]
    ) -> dict[str, Broker | KafkaError]:
        found = await find_coordinators(await self.any_broker(), kind, keys)
        for key, place in found.items():
            if isinstance(place, Broker):
                self._coordinators[kind, key] = place
        nodes = {place.node_id for place in found.values() if isinstance(place, Broker)}
        if not nodes <= self.view.brokers.keys():
            await self.refresh(NO_TOPICS)
        return found

    # Metadata

    @property
    def view(self) -> ClusterView:
        return self.metadata.view

    async def refresh(
        self, topics: Iterable[str] | None = None, *, create_missing: bool = False
    ) -> ClusterView:
        """Request these topics (None: all) and the brokers now, and update `view`."""
        return await self.metadata.refresh(topics, create_missing=create_missing)

    async def topic(self, name: str, *, create_missing: bool = False) -> Topic:
        """Return the topic once each partition has a leader. Raises `TopicMissing` if it does not
        exist."""

        async def attempt() -> Topic:
            topic = (await self.refresh([name], create_missing=create_missing)).topics.get(name)
            if topic is None:
                raise TopicMissing(name)
            for code in (topic.error_code, *(p.error_code for p in topic.partitions)):
                self._raise_for(code, name, create_missing)
            return topic

        return await self.retrying(attempt)

    def _raise_for(self, code: int, topic: str, create_missing: bool) -> None:
        if code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION and not create_missing:
            raise TopicMissing(topic)
        # An offline replica is no reason to wait: the leader serves without it.
        if code not in (ErrorCode.NONE, ErrorCode.REPLICA_NOT_AVAILABLE):
            raise KafkaError(ErrorCode.of(code), f"topic {topic!r}: {ErrorCode.of(code).message}")

    async def partition(self, topic: str, index: int) -> Partition:
        """Return the partition from the known metadata, else request it."""
        known = self.view.topics.get(topic)
        if known is None or not known.partitions:
            known = await self.topic(topic)
        if not 0 <= index < len(known.partitions):
            raise TopicMissing(topic, index)
        return known.partitions[index]

    def topic_id(self, topic: str) -> bytes:
        return self.view.topics[topic].topic_id

    # Retries

    async def retrying(self, attempt: Callable[[], Awaitable[T]], *, resend: bool = True) -> T:
        """Return the first result of `attempt`, which is retried after temporary errors until
        default_api_timeout_ms."""
        return await retrying(
            self.runtime,
            attempt,
            within_ms=self.retry_within_ms,
            resend=resend,
            pauses=self.pauses(),
        )

    def pauses(self) -> Pauses:
        """Return pauses as retry_backoff_ms and retry_backoff_max_ms set them."""
        return Pauses(self.settings.retry_backoff_ms, self.settings.retry_backoff_max_ms)

    def backoff(self, within_ms: int | None = None) -> Backoff:
        limit_ms = self.retry_within_ms if within_ms is None else within_ms
        return Backoff(self.runtime, limit_ms, self.pauses())

    async def by_leader(self, topic: str, partitions: Iterable[int]) -> dict[int, list[int]]:
        """Return the partitions grouped by their leader."""
        groups: dict[int, list[int]] = {}
        for index in partitions:
            leader = (await self.partition(topic, index)).leader
            if leader < 0:
                raise KafkaError(
                    ErrorCode.LEADER_NOT_AVAILABLE, f"{topic}-{index} has no leader now"
                )
            groups.setdefault(leader, []).append(index)
        return groups
