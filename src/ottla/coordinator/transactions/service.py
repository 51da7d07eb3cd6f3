"""The transaction coordinator as the rest of the broker sees it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from ottla.coordinator.runtime import Answer, CoordinatorRuntime
from ottla.coordinator.transactions.markers import LocalMarkers, MarkerOrder, MarkerWriter
from ottla.coordinator.transactions.producer_ids import ProducerIds
from ottla.coordinator.transactions.settings import transaction_settings
from ottla.coordinator.transactions.shard import TransactionShard
from ottla.coordinator.transactions.transaction import (
    EPOCH_BUMP_FROM,
    Identity,
    TopicPartition,
)
from ottla.logs import get_logger
from ottla.metadata.delta import MetadataDelta
from ottla.metadata.image import MetadataImage
from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnResponse
from ottla.protocol.messages.write_txn_markers import WritableTxnMarker

if TYPE_CHECKING:
    from ottla.config.broker import BrokerConfig
    from ottla.controller.controller import Controller
    from ottla.coordinator.shard import Token
    from ottla.replication.replica_manager import ReplicaManager
    from ottla.runtime.runtime import Runtime

log = get_logger("ottla.coordinator")

TRANSACTIONS_TOPIC: Final = "__transaction_state"

Verdicts: TypeAlias = Mapping[TopicPartition, ErrorCode]
"""For each partition NONE, if it takes part in the transaction, or why it does not."""


class TransactionService:
    """`coordinator` runs the shards that this broker leads. `take_part` is for those who are about
    to append to a partition in the name of a transaction."""

    def __init__(
        self,
        runtime: Runtime,
        replicas: ReplicaManager,
        groups: CoordinatorRuntime[Any],
        controller: Controller,
        config: BrokerConfig,
        node_id: int,
    ) -> None:
        self._replicas = replicas
        self._settings = transaction_settings(config)
        self.producer_ids = ProducerIds(
            controller.next_producer_id,
            lambda task: runtime.spawn(task, name="get-producer-ids"),
        )
        self.coordinator: CoordinatorRuntime[TransactionShard] = CoordinatorRuntime(
            runtime,
            replicas,
            node_id=node_id,
            topic=TRANSACTIONS_TOPIC,
            make_shard=self._make_shard,
            reply_timeout_ms=config["request.timeout.ms"],
        )
        self.local_markers = LocalMarkers(runtime, replicas, groups, node_id)
        self.markers = MarkerWriter(
            runtime, self.local_markers, self._markers_written, self._order_again
        )

    def metadata_changed(self, delta: MetadataDelta, image: MetadataImage) -> None:
        """To be called after the replica manager and the group coordinator took the change in."""
        self.markers.image = image
        self.coordinator.metadata_changed(delta, image)

    def close(self) -> None:
        self.markers.close()
        self.coordinator.close()

    # --- taking part ----------------------------------------------------------------------------

    def take_part(
        self,
        transactional_id: str,
        client: Identity,
        partitions: Iterable[TopicPartition],
        *,
        add: bool,
        then: Callable[[Verdicts], object],
    ) -> None:
        """Ask the coordinator whether partitions take part in the open transaction of a client;
        with `add`, as clients of protocol 2 expect, those that do not are made to.

        `then` gets the verdicts, before this returns if that is possible. Errors are those of the
        coordinator: PRODUCER_FENCED, INVALID_PRODUCER_ID_MAPPING, CONCURRENT_TRANSACTIONS (the
        last transaction is being ended, try again), TRANSACTION_ABORTABLE (not added), and
        NOT_COORDINATOR, COORDINATOR_NOT_AVAILABLE, COORDINATOR_LOAD_IN_PROGRESS.
        """
        wanted = list(partitions)
        verdict = _Verdict(wanted, then)
        if add:
            self.coordinator.request(
                transactional_id,
                verdict,
                lambda shard, now, outbox: shard.add_partitions(
                    transactional_id, client, wanted, EPOCH_BUMP_FROM, verdict, now, outbox
                ),
            )
        else:
            self.coordinator.request(
                transactional_id,
                verdict,
                lambda shard, now, outbox: shard.verify_partitions(
                    transactional_id, client, wanted, verdict, outbox
                ),
            )

    async def add_partitions(
        self, transactional_id: str, client: Identity, partitions: Iterable[TopicPartition]
    ) -> Verdicts:
        """Let partitions take part, as a client of protocol 2 expects of its first batch."""
        return await self._taken_part(transactional_id, client, partitions, add=True)

    async def verify(
        self, transactional_id: str, client: Identity, partitions: Iterable[TopicPartition]
    ) -> Verdicts:
        """Whether partitions were added by a client of protocol 1."""
        return await self._taken_part(transactional_id, client, partitions, add=False)

    async def _taken_part(
        self,
        transactional_id: str,
        client: Identity,
        partitions: Iterable[TopicPartition],
        *,
        add: bool,
    ) -> Verdicts:
        answer = Answer()
        self.take_part(transactional_id, client, partitions, add=add, then=answer.resolve)
        verdicts: Verdicts = await answer.future
        return verdicts

    # --- shards and their markers ---------------------------------------------------------------

    def _make_shard(self, index: int) -> TransactionShard:
        self.markers.forget(index)
        partition = self._replicas.partition(TRANSACTIONS_TOPIC, index)

        def order_markers(transactional_id: str) -> Token:
            return self.markers.order(index, transactional_id)

        return TransactionShard(
            self._settings, partition.leader_epoch, self.producer_ids.take, order_markers
        )

    def _markers_written(
        self, order: MarkerOrder, marker: WritableTxnMarker, partitions: list[TopicPartition]
    ) -> None:
        marked = Identity(marker.producer_id, marker.producer_epoch)
        self._run(
            order,
            lambda shard, now, outbox: shard.markers_written(
                order.transactional_id, marked, partitions, now, outbox
            ),
        )

    def _order_again(self, order: MarkerOrder) -> None:
        self._run(
            order,
            lambda shard, now, outbox: shard.order_again(order.transactional_id, outbox),
        )

    def _run(self, order: MarkerOrder, step: Callable[[TransactionShard, Any, Any], None]) -> None:
        try:
            self.coordinator.run(order.shard_index, step)
        except KafkaError as error:
            # Whoever leads the shard next finds the prepared transaction in its log.
            log.info(
                "the end of a transaction is left to another coordinator",
                transactional_id=order.transactional_id,
                error=str(error),
            )


class _Verdict:
    """The token of `take_part`."""

    __slots__ = ("_partitions", "_then", "resolved")

    def __init__(
        self, partitions: Iterable[TopicPartition], then: Callable[[Verdicts], object]
    ) -> None:
        self._partitions = partitions
        self._then = then
        self.resolved = False

    def resolve(self, response: AddPartitionsToTxnResponse) -> None:
        if not self.resolved:
            self.resolved = True
            self._then(verdicts(response))

    def fail(self, error: KafkaError) -> None:
        if not self.resolved:
            self.resolved = True
            self._then(dict.fromkeys(self._partitions, error.code))


def verdicts(response: AddPartitionsToTxnResponse) -> Verdicts:
    """The answer about one transaction, by partition."""
    (result,) = response.results_by_transaction
    return {
        (topic.name, partition.partition_index): ErrorCode.of(partition.partition_error_code)
        for topic in result.topic_results
        for partition in topic.results_by_partition
    }
