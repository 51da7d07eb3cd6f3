"""TxnOffsetCommit: offsets that take effect when the transaction commits.

The group's partition must be part of the transaction. A client of protocol 1 has added it
(AddOffsetsToTxn), which is verified here; for a client of protocol 2 (version 5) it is added here.
As with batches, a marker that arrives between question and answer voids the answer: the offsets
would slip into the next transaction, or open one that nobody ends.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from ottla.broker.coordinator.transactions.transaction import Identity
from ottla.broker.replication import verifying
from ottla.broker.server.contract import Handler
from ottla.broker.server.handlers._coordinated import Reply, client
from ottla.broker.storage.producers.checks import NO_SEQUENCE
from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)
from ottla.security.rights import Operation, ResourceType

if TYPE_CHECKING:
    from ottla.broker.coordinator.transactions.service import Verdicts
    from ottla.broker.replication.partition import Partition
    from ottla.broker.server.context import BrokerContext
    from ottla.broker.storage.producers.verification import Verification

LOADING_FROM: Final = 2
ABORTABLE_FROM: Final = 4
PROTOCOL_2_FROM: Final = 5

_COORDINATOR_IS_AWAY: Final = (
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NETWORK_EXCEPTION,
)


def handle(context: BrokerContext, request: TxnOffsetCommitRequest) -> Any:
    try:
        context.require(Operation.WRITE, ResourceType.TRANSACTIONAL_ID, request.transactional_id)
        context.require(Operation.READ, ResourceType.GROUP, request.group_id)
    except KafkaError as error:
        return _refusal(request, error.code)
    refused = _sort_out(context, request)
    if not request.topics:
        return TxnOffsetCommitResponse(topics=refused)
    commit = _Commit(context, request, refused)
    commit.begin()
    return commit.reply.result


class _Commit:
    """A request that the transaction coordinator verifies before the group coordinator handles
    it."""

    def __init__(
        self,
        context: BrokerContext,
        request: TxnOffsetCommitRequest,
        refused: list[TxnOffsetCommitResponseTopic],
    ) -> None:
        self._context = context
        self._request = request
        version = context.api_version
        # The reply does not refer to this commit: a reference cycle of the two would keep the
        # request and its answer in memory until the next garbage collection.
        self.reply = Reply(
            lambda error: _refusal(request, error.code),
            lambda response: _shaped(response, version, refused),
            holds_connection=False,
        )
        self._who = Identity(request.producer_id, request.producer_epoch)
        self._adds = context.api_version >= PROTOCOL_2_FROM
        patience_ms: int = context.services.config["add.partitions.to.txn.retry.backoff.max.ms"]
        self._give_up_s = context.services.runtime.clock.now() + patience_ms / 1000

    def begin(self) -> None:
        request, config = self._request, self._context.services.config
        if not request.group_id:
            self.reply.fail(KafkaError(ErrorCode.INVALID_GROUP_ID))
        elif self._adds or config["transaction.partition.verification.enable"]:
            self._ask()
        else:
            self._commit()

    def _ask(self) -> None:
        services = self._context.services
        groups = services.coordinators.groups
        try:
            partition = groups.hosted(groups.partition_for(self._request.group_id)).partition
            note = verifying.begin_verification(
                partition,
                *(*self._who, NO_SEQUENCE, services.runtime.clock.wall_ms()),
                epochs_grow=self._adds,
            )
        except KafkaError as error:
            self.reply.fail(error)
            return
        if note is None:
            self._commit()  # the transaction is open here
            return
        services.coordinators.transactions.take_part(
            self._request.transactional_id,
            self._who,
            [(partition.topic, partition.index)],
            add=self._adds,
            then=lambda verdicts: self._verified(partition, note, verdicts),
        )

    def _verified(self, partition: Partition, note: Verification, verdicts: Verdicts) -> None:
        (error,) = verdicts.values()
        if error is not ErrorCode.NONE:
            self.reply.fail(KafkaError(self._translated(error)))
        elif not verifying.is_void(partition, note, *self._who):
            self._commit()
        elif self._context.services.runtime.clock.now() < self._give_up_s:
            self._ask()
        else:
            self.reply.fail(
                KafkaError(
                    ErrorCode.CONCURRENT_TRANSACTIONS
                    if self._adds
                    else ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
                )
            )

    def _translated(self, error: ErrorCode) -> ErrorCode:
        """Return the error as a code that producers expect of a group coordinator."""
        if error is ErrorCode.PRODUCER_FENCED:
            return ErrorCode.INVALID_PRODUCER_EPOCH
        if error is ErrorCode.TRANSACTION_ABORTABLE and self._context.api_version < ABORTABLE_FROM:
            return ErrorCode.INVALID_TXN_STATE
        if error in _COORDINATOR_IS_AWAY:
            # The transaction coordinator is not available, but the client asked the group
            # coordinator.
            return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        return error

    def _commit(self) -> None:
        request = self._request
        who = client(self._context)
        self._context.services.coordinators.groups.request(
            request.group_id,
            self.reply,
            lambda shard, now, outbox: shard.commit_offsets_in_transaction(
                request, who, self.reply, now, outbox
            ),
            producer=(request.producer_id, request.producer_epoch),
        )


def _shaped(
    response: TxnOffsetCommitResponse,
    api_version: int,
    refused: list[TxnOffsetCommitResponseTopic],
) -> TxnOffsetCommitResponse:
    if api_version < LOADING_FROM:
        for topic in response.topics:
            for partition in topic.partitions:
                if partition.error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
                    # Old clients would give up.
                    partition.error_code = int(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    known = {topic.name: topic for topic in response.topics}
    for topic in refused:
        if topic.name in known:
            known[topic.name].partitions += topic.partitions
        else:
            response.topics.append(topic)
    return response


def _sort_out(
    context: BrokerContext, request: TxnOffsetCommitRequest
) -> list[TxnOffsetCommitResponseTopic]:
    """Remove partitions that are unknown, or that the client may not read, from the request and
    return their errors."""
    image = context.services.metadata.image
    refused = []
    for topic in request.topics:
        if not context.may(Operation.READ, ResourceType.TOPIC, topic.name):
            indexes = [p.partition_index for p in topic.partitions]
            refused.append(_answer(topic.name, indexes, ErrorCode.TOPIC_AUTHORIZATION_FAILED))
            topic.partitions = []
            continue
        known = image.topics.get(topic.name)
        partitions = {} if known is None else known.partitions
        missing = [
            p.partition_index for p in topic.partitions if p.partition_index not in partitions
        ]
        if missing:
            refused.append(_answer(topic.name, missing, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION))
            topic.partitions = [p for p in topic.partitions if p.partition_index in partitions]
    request.topics = [topic for topic in request.topics if topic.partitions]
    return refused


def _refusal(request: TxnOffsetCommitRequest, error: ErrorCode) -> TxnOffsetCommitResponse:
    return TxnOffsetCommitResponse(
        topics=[
            _answer(topic.name, [p.partition_index for p in topic.partitions], error)
            for topic in request.topics
        ]
    )


def _answer(name: str, indexes: list[int], error: ErrorCode) -> TxnOffsetCommitResponseTopic:
    return TxnOffsetCommitResponseTopic(
        name=name,
        partitions=[
            TxnOffsetCommitResponsePartition(partition_index=index, error_code=int(error))
            for index in indexes
        ],
    )


HANDLER = Handler(on_broker=handle)
