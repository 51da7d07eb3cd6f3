"""The interface of the rest of the broker to transactions: those that this broker coordinates, and
those whose partitions it leads."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from ottla.broker.coordinator.runtime import CoordinatorRuntime
from ottla.broker.coordinator.transactions.initializing import check_id
from ottla.broker.coordinator.transactions.local_markers import LocalMarkers
from ottla.broker.coordinator.transactions.markers import MarkerOrder, MarkerWriter
from ottla.broker.coordinator.transactions.remote_inquiries import RemoteInquiries, Verdicts
from ottla.broker.coordinator.transactions.remote_markers import RemoteMarkers
from ottla.broker.coordinator.transactions.settings import transaction_settings
from ottla.broker.coordinator.transactions.shard import TransactionShard
from ottla.broker.coordinator.transactions.transaction import (
    EPOCH_BUMP_FROM,
    Identity,
    TopicPartition,
)
from ottla.broker.metadata.delta import MetadataDelta
from ottla.broker.metadata.image import NO_LEADER, TRANSACTIONS_TOPIC, MetadataImage
from ottla.logs import get_logger
from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnResponse
from ottla.protocol.messages.write_txn_markers import WritableTxnMarker

if TYPE_CHECKING:
    from ottla.broker.coordinator.neighbours import Neighbours
    from ottla.broker.coordinator.producer_ids import ProducerIds
    from ottla.broker.coordinator.shard import Token
    from ottla.broker.peers.peers import Peers
    from ottla.broker.replication.replica_manager import ReplicaManager
    from ottla.config.broker import BrokerConfig
    from ottla.runtime.runtime import Runtime

log = get_logger("ottla.coordinator")

__all__ = ["TransactionService", "Verdicts", "verdicts"]


class TransactionService:
    """`coordinator` runs the shards that this broker leads. `take_part` must be called before an
    append to a partition in a transaction."""

    def __init__(
        self,
        runtime: Runtime,
        replicas: ReplicaManager,
        groups: CoordinatorRuntime[Any],
        config: BrokerConfig,
        *,
        neighbours: Neighbours,
        peers: Peers,
        producer_ids: ProducerIds,
    ) -> None:
        timeout_ms: int = config["request.timeout.ms"]
        self._replicas = replicas
        self._neighbours = neighbours
        self._producer_ids = producer_ids
        self.settings = transaction_settings(config)
        self.coordinator: CoordinatorRuntime[TransactionShard] = CoordinatorRuntime(
            runtime,
            replicas,
            node_id=neighbours.node_id,
            topic=TRANSACTIONS_TOPIC,
            make_shard=self._make_shard,
            unloaded=lambda index: self.markers.forget(index),
            reply_timeout_ms=timeout_ms,
        )
        self.local_markers = LocalMarkers(runtime, replicas, groups, neighbours.node_id, timeout_ms)
        self.markers = MarkerWriter(
            runtime,
            neighbours,
            self.local_markers,
            RemoteMarkers(runtime, peers, neighbours, timeout_ms),
            self._markers_written,
            self._order_again,
        )
        self._inquiries = RemoteInquiries(runtime, peers, neighbours, timeout_ms)

    def metadata_changed(self, delta: MetadataDelta, image: MetadataImage) -> None:
        """Take over a metadata change. Call this after the replica manager, the group coordinator
        and the neighbours have applied it."""
        self.coordinator.metadata_changed(delta, image)
        self.markers.metadata_changed()
        self._inquiries.metadata_changed()

    def close(self) -> None:
        self.markers.close()
        self._inquiries.close()
        self.coordinator.close()

    # --- membership of partitions ---------------------------------------------------------------

    def take_part(
        self,
        transactional_id: str,
        client: Identity,
        partitions: Iterable[TopicPartition],
        *,
        add: bool,
        then: Callable[[Verdicts], object],
    ) -> None:
        """Ask the coordinator whether partitions are part of a client's open transaction; with
        `add`, as clients of protocol 2 expect, add those that are not.

        `then` gets the verdicts, before this returns if possible. Errors are those of the
        coordinator: PRODUCER_FENCED, INVALID_PRODUCER_ID_MAPPING, CONCURRENT_TRANSACTIONS (the last
        transaction is being ended, try again), TRANSACTION_ABORTABLE (not added), and
        NOT_COORDINATOR, COORDINATOR_NOT_AVAILABLE, COORDINATOR_LOAD_IN_PROGRESS, or
        NETWORK_EXCEPTION if another broker coordinates it and does not answer.
        """
        wanted = list(partitions)
        verdict = _Verdict(wanted, then)
        try:
            check_id(transactional_id)
            leader = self._leader_for(transactional_id)
        except KafkaError as error:
            verdict.fail(error)
            return
        if leader != self._neighbours.node_id:
            self._inquiries.ask(leader, transactional_id, client, wanted, add=add, then=then)
        elif add:
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

    def _leader_for(self, transactional_id: str) -> int:
        """Return the broker that coordinates this transactional id."""
        index = self.coordinator.partition_for(transactional_id)
        found = self._neighbours.leadership(TRANSACTIONS_TOPIC, index)
        if found is None or found.leader == NO_LEADER:
            raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        return found.leader

    # --- shards and their markers ---------------------------------------------------------------

    def _make_shard(self, index: int) -> TransactionShard:
        partition = self._replicas.partition(TRANSACTIONS_TOPIC, index)

        def order_markers(transactional_id: str) -> Token:
            return self.markers.order(index, transactional_id)

        return TransactionShard(
            self.settings, partition.leader_epoch, self._producer_ids.take, order_markers
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
            # The next leader of the shard finds the prepared transaction in its log.
            log.info(
                "a transaction was not ended here; the shard's next coordinator ends it",
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
    """Return the answer about one transaction, by partition."""
    (result,) = response.results_by_transaction
    return {
        (topic.name, partition.partition_index): ErrorCode.of(partition.partition_error_code)
        for topic in result.topic_results
        for partition in topic.results_by_partition
    }
