"""All coordinators of a node, and their internal topics."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cached_property
from typing import TYPE_CHECKING

from ottla.broker.coordinator.controller_calls import AskController
from ottla.broker.coordinator.internal_topics import InternalTopics
from ottla.broker.coordinator.neighbours import Neighbours
from ottla.broker.coordinator.producer_ids import ProducerIds
from ottla.broker.metadata.delta import MetadataDelta
from ottla.broker.metadata.image import (
    EMPTY_IMAGE,
    GROUPS_TOPIC,
    TRANSACTIONS_TOPIC,
    MetadataImage,
)

if TYPE_CHECKING:
    from random import Random

    from ottla.broker.coordinator.group_settings import GroupShardSettings
    from ottla.broker.coordinator.group_shard import GroupShard
    from ottla.broker.coordinator.runtime import CoordinatorRuntime
    from ottla.broker.coordinator.transactions.service import TransactionService
    from ottla.broker.peers.peers import Peers
    from ottla.broker.replication.replica_manager import ReplicaManager
    from ottla.config.broker import BrokerConfig
    from ottla.runtime.runtime import Runtime


class Coordinators:
    """The coordinators of groups and of transactions are created on first use, or when their topic
    exists. Importing their code would slow down the start of a broker that has neither."""

    def __init__(
        self,
        runtime: Runtime,
        replicas: ReplicaManager,
        config: BrokerConfig,
        *,
        node_id: int,
        ask: AskController,
        peers: Peers,
        broker_epoch: Callable[[], int],
    ) -> None:
        """`ask` sends a request to the controller; `broker_epoch` returns this broker's epoch."""
        self._runtime = runtime
        self._replicas = replicas
        self._config = config
        self._peers = peers
        self._image = EMPTY_IMAGE
        self._is_closed = False
        self._topics = InternalTopics(runtime, config, ask)
        self._neighbours = Neighbours(node_id, config.inter_broker_listener_name)
        self.producer_ids = ProducerIds(
            ask,
            lambda task: runtime.spawn(task, name="get-producer-ids"),
            broker_id=node_id,
            broker_epoch=broker_epoch,
        )
        self._created: list[CoordinatorRuntime[GroupShard] | TransactionService] = []
        """In the order in which they follow the metadata."""

    @cached_property
    def groups(self) -> CoordinatorRuntime[GroupShard]:
        from ottla.broker.coordinator.runtime import CoordinatorRuntime

        groups: CoordinatorRuntime[GroupShard] = CoordinatorRuntime(
            self._runtime,
            self._replicas,
            node_id=self._neighbours.node_id,
            topic=GROUPS_TOPIC,
            make_shard=lambda index: self._make_group_shard(self._runtime.random, index),
            reply_timeout_ms=self._config["offsets.commit.timeout.ms"],
        )
        self._add(groups)
        return groups

    @cached_property
    def transactions(self) -> TransactionService:
        from ottla.broker.coordinator.transactions.service import TransactionService

        transactions = TransactionService(
            self._runtime,
            self._replicas,
            self.groups,
            self._config,
            neighbours=self._neighbours,
            peers=self._peers,
            producer_ids=self.producer_ids,
        )
        self._add(transactions)
        return transactions

    def _add(self, coordinator: CoordinatorRuntime[GroupShard] | TransactionService) -> None:
        self._created.append(coordinator)
        if self._is_closed:
            coordinator.close()
        elif self._image is not EMPTY_IMAGE:
            coordinator.metadata_changed(MetadataDelta(), self._image)

    def metadata_changed(self, delta: MetadataDelta, image: MetadataImage) -> None:
        """Take over a metadata change. Call this after the replica manager has applied it."""
        self._image = self._neighbours.image = image
        self._topics.metadata_changed(image)
        for coordinator in list(self._created):
            coordinator.metadata_changed(delta, image)
        if GROUPS_TOPIC in image.topics:
            _ = self.groups
        if TRANSACTIONS_TOPIC in image.topics:
            _ = self.transactions

    def group_shards(self) -> Iterable[GroupShard]:
        """Return the shards of groups that this broker coordinates; raises `KafkaError` while one
        of them is loading."""
        if GROUPS_TOPIC not in self._image.topics:
            return []
        return [shard for _, shard in self.groups.shards()]

    async def ensure_topic(self, name: str) -> None:
        """Create an internal topic if it does not exist, and wait for it."""
        await self._topics.ensure(name)

    def close(self) -> None:
        self._is_closed = True
        for coordinator in reversed(self._created):
            coordinator.close()

    @cached_property
    def group_settings(self) -> GroupShardSettings:
        """Created on first use, because importing the code of groups, a tenth of all code, would
        slow down the start."""
        from ottla.broker.coordinator.group_settings import GroupShardSettings

        return GroupShardSettings.of(self._config)

    def _make_group_shard(self, random: Random, index: int) -> GroupShard:
        from ottla.broker.coordinator.group_shard import GroupShard

        return GroupShard(self.group_settings, random, index)
