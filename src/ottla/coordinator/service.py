"""All coordinators of a node, and the internal topics they live in."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from ottla.coordinator.group_settings import GroupShardSettings
from ottla.coordinator.group_shard import GroupShard
from ottla.coordinator.runtime import CoordinatorRuntime
from ottla.coordinator.transactions.service import TRANSACTIONS_TOPIC, TransactionService
from ottla.logs import get_logger
from ottla.metadata.delta import MetadataDelta
from ottla.metadata.image import MetadataImage
from ottla.protocol.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from ottla.config.broker import BrokerConfig
    from ottla.controller.controller import Controller
    from ottla.replication.replica_manager import ReplicaManager
    from ottla.runtime.runtime import Runtime

log = get_logger("ottla.coordinator")

GROUPS_TOPIC: Final = "__consumer_offsets"
__all__ = ["GROUPS_TOPIC", "TRANSACTIONS_TOPIC", "Coordinators"]


class Coordinators:
    def __init__(
        self,
        runtime: Runtime,
        replicas: ReplicaManager,
        controller: Controller,
        config: BrokerConfig,
        node_id: int,
    ) -> None:
        self._controller = controller
        self.groups: CoordinatorRuntime[GroupShard] = CoordinatorRuntime(
            runtime,
            replicas,
            node_id=node_id,
            topic=GROUPS_TOPIC,
            make_shard=partial(GroupShard, GroupShardSettings.of(config), runtime.random),
            reply_timeout_ms=config["offsets.commit.timeout.ms"],
        )
        self.transactions = TransactionService(
            runtime, replicas, self.groups, controller, config, node_id
        )

    def metadata_changed(self, delta: MetadataDelta, image: MetadataImage) -> None:
        """To be called after the replica manager has taken the change in."""
        self.groups.metadata_changed(delta, image)
        self.transactions.metadata_changed(delta, image)

    async def ensure_topic(self, name: str, image: MetadataImage) -> None:
        """Create an internal topic that is needed for the first time."""
        if name in image.topics:
            return
        response = await self._controller.auto_create_topics([name])
        error = ErrorCode.of(response.topics[0].error_code)
        if error not in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS):
            message = response.topics[0].error_message or error.message
            log.error("cannot create an internal topic", topic=name, error=message)
            raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, message)

    def close(self) -> None:
        self.transactions.close()
        self.groups.close()
