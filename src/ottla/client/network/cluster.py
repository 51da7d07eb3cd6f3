"""A cluster as a client sees it: found through any broker, asked at the right one."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import TypeVar

from ottla.client.errors import Address, ClientError, TopicMissing, Unreachable
from ottla.client.metrics import Metrics
from ottla.client.network.addresses import parse_addresses
from ottla.client.network.backoff import Backoff, Pauses, retrying
from ottla.client.network.bootstrap import Bootstrap
from ottla.client.network.connection import Connection
from ottla.client.network.finding import CoordinatorType, find_coordinators
from ottla.client.network.metadata import Broker, ClusterView, Partition, Topic
from ottla.client.network.metadata_keeper import MetadataKeeper
from ottla.client.network.network_metrics import NetworkMetrics
from ottla.client.network.opening import open_connection
from ottla.client.network.pool import Pool, Purpose
from ottla.client.network.security import Security
from ottla.client.settings.common import ClientSettings
from ottla.client.values import TopicPartition
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
        self.metrics = Metrics(runtime.clock.now)
        self._network_metrics = NetworkMetrics(self.metrics)
        self._security = Security.of(settings)
        self._pool = Pool(
            runtime,
            self.dial,
            reconnect_backoff_ms=settings.reconnect_backoff_ms,
            reconnect_backoff_max_ms=settings.reconnect_backoff_max_ms,
            idle_max_ms=settings.connections_max_idle_ms,
        )
        self._metadata = MetadataKeeper(
            runtime,
            self.any_broker,
            start_over=self._pool.retire_all,
            settings=settings,
        )
        self._metadata.on_change(self._retire_moved)
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
        self._metadata.close()
        self._bootstrap.close()
        self._pool.close()

    # Connections

    async def any_broker(self) -> Connection:
        """A connection to whichever broker answers: an open one, else through the bootstrap."""
        return await self._bootstrap.any_broker()

    async def broker(self, node_id: int) -> Connection:
        return await self.connection(node_id, "main")

    async def broker_for_fetching(self, node_id: int) -> Connection:
        """A connection of its own: answers come in order, so a long poll would hold up others."""
        return await self.connection(node_id, "fetch")

    async def connection(self, node_id: int, purpose: Purpose = "main") -> Connection:
        found = self._pool.get(node_id, purpose)
        return found or await self._pool.connect(node_id, self._address(node_id), purpose)

    def open_connection(self, node_id: int, purpose: Purpose = "main") -> Connection | None:
        """The open connection, if there is one; nothing is begun."""
        return self._pool.get(node_id, purpose)

    async def controller(self) -> Connection:
        """Where changes go. A broker without the controller's role hands them on itself."""
        if self.view.controller_id not in self.view.brokers:
            await self.refresh(NO_TOPICS)
        if self.view.controller_id not in self.view.brokers:
            return await self.any_broker()
        try:
            return await self.broker(self.view.controller_id)
        except Unreachable:
            # It may be another one by now; whoever tries again finds that out.
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
        """A broker that is somewhere else now is not to be asked where it was."""
        places = {broker.node_id: (broker.host, broker.port) for broker in view.brokers.values()}
        for node_id, place in places.items():
            if self._places.get(node_id, place) != place:
                self._pool.retire(node_id)
        self._places |= places

    async def dial(self, address: Address) -> Connection:
        """A connection that is not kept here: whoever asks for it closes it."""
        return await open_connection(
            self.runtime,
            address,
            client_id=self.settings.client_id,
            connect_timeout_ms=self.settings.socket_connection_setup_timeout_ms,
            request_timeout_ms=self.request_timeout_ms,
            security=self._security,
            metrics=self._network_metrics,
        )

    # Coordinators

    async def coordinator(self, kind: CoordinatorType, key: str) -> Connection:
        """A connection to the broker that coordinates the key, for that purpose alone.

        One attempt: where nobody coordinates it now, a retriable `KafkaError`.
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
        """After NOT_COORDINATOR, COORDINATOR_NOT_AVAILABLE, or a lost connection."""
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
        return self._metadata.view

    @property
    def metadata_failure(self) -> Exception | None:
        """Why the last refresh in the background failed; None if it did not."""
        return self._metadata.failure

    def watch(self, topics: Iterable[str], create_missing: bool = False) -> None:
        """Keep these topics in `view`, fresh; the first answer comes soon, see `on_change`."""
        self._metadata.watch(topics, create_missing=create_missing)

    def unwatch(self, topics: Iterable[str]) -> None:
        self._metadata.unwatch(topics)

    def watch_all(self) -> None:
        """Keep all topics of the cluster in `view`: for subscriptions by pattern."""
        self._metadata.watch_all()

    def unwatch_all(self) -> None:
        """Undo `watch_all`; topics that are watched by name stay so."""
        self._metadata.unwatch_all()

    def request_refresh(self) -> None:
        """Ask anew for all that is watched, soon: many calls make one request."""
        self._metadata.request_refresh()

    def on_change(self, callback: Callable[[ClusterView], None]) -> Callable[[], None]:
        """Call back after each refresh, with the new view; returns what undoes it."""
        return self._metadata.on_change(callback)

    def leader_changed(
        self,
        partition: TopicPartition,
        leader: int,
        leader_epoch: int,
        endpoints: Iterable[Broker] = (),
    ) -> None:
        """A broker named the new leader in its answer: no need to ask for metadata first."""
        self._metadata.leader_changed(partition, leader, leader_epoch, endpoints)

    async def refresh(
        self, topics: Iterable[str] | None = None, *, create_missing: bool = False
    ) -> ClusterView:
        """Ask now for these topics (None: all) and for the brokers; remembered in `view`."""
        return await self._metadata.refresh(topics, create_missing=create_missing)

    async def topic(self, name: str, *, create_missing: bool = False) -> Topic:
        """The topic with a leader for each partition; `TopicMissing` if there is none."""

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
        """The first result of `attempt`, tried again while its errors may pass, until
        default_api_timeout_ms."""
        return await retrying(
            self.runtime,
            attempt,
            within_ms=self.retry_within_ms,
            resend=resend,
            pauses=self.pauses(),
        )

    def pauses(self) -> Pauses:
        """Between attempts, as retry_backoff_ms and retry_backoff_max_ms say."""
        return Pauses(self.settings.retry_backoff_ms, self.settings.retry_backoff_max_ms)

    def backoff(self, within_ms: int | None = None) -> Backoff:
        limit_ms = self.retry_within_ms if within_ms is None else within_ms
        return Backoff(self.runtime, limit_ms, self.pauses())

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
