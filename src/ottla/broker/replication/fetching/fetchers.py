"""Assigns partitions to fetchers: a few for each leader."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING
from zlib import crc32

from ottla.broker.replication.fetching.fetch_settings import FetchSettings

if TYPE_CHECKING:
    from ottla.broker.peers.peers import Peers
    from ottla.broker.replication.cluster_view import ClusterView
    from ottla.broker.replication.fetching.fetcher import Fetcher
    from ottla.broker.replication.partition import Partition
    from ottla.broker.replication.throttle import ReplicationThrottle
    from ottla.config.broker import BrokerConfig
    from ottla.protocol.errors import KafkaError
    from ottla.runtime.runtime import Runtime


class Fetchers:
    """Fetchers are kept when they have nothing to copy: there are only as many as brokers times
    lanes."""

    def __init__(
        self,
        runtime: Runtime,
        view: ClusterView,
        peers: Peers,
        config: BrokerConfig,
        throttle: ReplicationThrottle,
        dir_failed: Callable[[KafkaError], object],
    ) -> None:
        self._runtime = runtime
        self._view = view
        self._peers = peers
        self._throttle = throttle
        self._dir_failed = dir_failed
        self._fetchers: dict[tuple[int, int], Fetcher] = {}
        self._of: dict[Partition, Fetcher] = {}
        self.configure(config)

    def configure(self, config: BrokerConfig) -> None:
        self._settings = FetchSettings.of(config)
        self._lanes: int = config["num.replica.fetchers"]

    def follow(self, partition: Partition) -> None:
        """Copy the partition from its present leader only."""
        self.leave(partition)
        if partition.leader_id < 0 or partition.leader_id == self._view.node_id:
            return
        lane = (crc32(partition.topic_id) + partition.index) % self._lanes
        place = (partition.leader_id, lane)
        fetcher = self._fetchers.get(place)
        if fetcher is None:
            fetcher = self._fetchers[place] = self._fetcher(*place)
        self._of[partition] = fetcher
        fetcher.follow(partition)

    def leave(self, partition: Partition) -> None:
        fetcher = self._of.pop(partition, None)
        if fetcher is not None:
            fetcher.leave(partition.topic_id, partition.index)

    def forget_brokers(self, known: Callable[[int], bool]) -> None:
        """Close the fetchers of brokers that are no longer registered."""
        for place in [place for place in self._fetchers if not known(place[0])]:
            self._fetchers.pop(place).close()

    def close(self) -> None:
        for fetcher in self._fetchers.values():
            fetcher.close()
        self._fetchers.clear()
        self._of.clear()

    def _fetcher(self, leader_id: int, lane: int) -> Fetcher:
        # Imported now: the start of a single broker, which follows nobody, is faster without it.
        from ottla.broker.replication.fetching.fetcher import Fetcher

        return Fetcher(
            self._runtime,
            self._view,
            self._peers,
            leader_id,
            lane,
            lambda: self._settings,
            self._throttle,
            self._dir_failed,
        )
