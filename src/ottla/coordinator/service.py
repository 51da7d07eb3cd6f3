"""All coordinators of a node, and the internal topics they live in."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Final

from ottla.coordinator.controller_calls import AskController
from ottla.coordinator.internal_topics import InternalTopics
from ottla.coordinator.neighbours import Neighbours
from ottla.coordinator.producer_ids import ProducerIds
from ottla.coordinator.runtime import CoordinatorRuntime
from ottla.coordinator.transactions.service import TRANSACTIONS_TOPIC, TransactionService
from ottla.metadata.delta import MetadataDelta
from ottla.metadata.image import MetadataImage

if TYPE_CHECKING:
    from random import Random

    from ottla.config.broker import BrokerConfig
    from ottla.coordinator.group_shard import GroupShard
    from ottla.peers.peers import Peers
    from ottla.replication.replica_manager import ReplicaManager
    from ottla.runtime.runtime import Runtime

GROUPS_TOPIC: Final = "__consumer_offsets"
__all__ = ["GROUPS_TOPIC", "TRANSACTIONS_TOPIC", "Coordinators"]


class Coordinators:
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
        """`ask` reaches the controller; `broker_epoch` tells this broker's present epoch."""
        self._topics = InternalTopics(runtime, config, ask)
        self._neighbours = Neighbours(node_id, config.inter_broker_listener_name)
        self.producer_ids = ProducerIds(
            ask,
            lambda task: runtime.spawn(task, name="get-producer-ids"),
            broker_id=node_id,
            broker_epoch=broker_epoch,
        )
        self.groups: CoordinatorRuntime[GroupShard] = CoordinatorRuntime(
            runtime,
            replicas,
            node_id=node_id,
            topic=GROUPS_TOPIC,
            make_shard=_maker_of_group_shards(config, runtime.random),
            reply_timeout_ms=config["offsets.commit.timeout.ms"],
        )
        self.transactions = TransactionService(
            runtime,
            replicas,
            self.groups,
            config,
            neighbours=self._neighbours,
            peers=peers,
            producer_ids=self.producer_ids,
        )

    def metadata_changed(self, delta: MetadataDelta, image: MetadataImage) -> None:
        """To be called after the replica manager has taken the change in."""
        self._neighbours.image = image
        self._topics.metadata_changed(image)
        self.groups.metadata_changed(delta, image)
        self.transactions.metadata_changed(delta, image)

    async def ensure_topic(self, name: str) -> None:
        """Create an internal topic that is needed for the first time."""
        await self._topics.ensure(name)

    def close(self) -> None:
        self.transactions.close()
        self.groups.close()


def _maker_of_group_shards(config: BrokerConfig, random: Random) -> Callable[[int], GroupShard]:
    """Their code, a tenth of all, is loaded with the first of them: the broker starts without."""
    makers: list[Callable[[int], GroupShard]] = []

    def make(index: int) -> GroupShard:
        if not makers:
            from ottla.coordinator.group_settings import GroupShardSettings
            from ottla.coordinator.group_shard import GroupShard

            makers.append(partial(GroupShard, GroupShardSettings.of(config), random))
        return makers[0](index)

    return make
