"""TxnOffsetCommit: offsets that come into force if the transaction is committed.

The group's partition has to take part in the transaction. A client of protocol 1 has added it
(AddOffsetsToTxn), which is verified here; for one of protocol 2 (version 5) it is added.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from ottla.coordinator.hashing import partition_of
from ottla.coordinator.service import GROUPS_TOPIC
from ottla.coordinator.transactions.transaction import Identity
from ottla.metadata.image import MetadataImage
from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)
from ottla.server.handlers._coordinated import client
from ottla.server.handlers._transactional import ShapedReply

if TYPE_CHECKING:
    from ottla.coordinator.transactions.service import Verdicts
    from ottla.server.context import RequestContext

LOADING_FROM: Final = 2
ABORTABLE_FROM: Final = 4
PROTOCOL_2_FROM: Final = 5

_COORDINATOR_IS_AWAY: Final = (
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NETWORK_EXCEPTION,
)


def handle(context: RequestContext, request: TxnOffsetCommitRequest) -> Any:
    refused = _sort_out(context.node.metadata.image, request)
    if not request.topics:
        return TxnOffsetCommitResponse(topics=refused)
    commit = _Commit(context, request, refused)
    commit.begin()
    return commit.reply.result


class _Commit:
    """One request: verified by the coordinator of its transaction, then up to that of its group."""

    def __init__(
        self,
        context: RequestContext,
        request: TxnOffsetCommitRequest,
        refused: list[TxnOffsetCommitResponseTopic],
    ) -> None:
        self._context = context
        self._request = request
        self._refused = refused
        self.reply = ShapedReply(lambda error: _refusal(request, error.code), self._shaped)

    def begin(self) -> None:
        node, request = self._context.node, self._request
        if not request.group_id:
            self.reply.fail(KafkaError(ErrorCode.INVALID_GROUP_ID))
            return
        version = self._context.api_version
        if (
            version < PROTOCOL_2_FROM
            and not node.config["transaction.partition.verification.enable"]
        ):
            self._commit()
            return
        groups = node.metadata.image.topics.get(GROUPS_TOPIC)
        if groups is None:
            self.reply.fail(KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE))
            return
        where = (GROUPS_TOPIC, partition_of(request.group_id, len(groups.partitions)))
        node.coordinators.transactions.take_part(
            request.transactional_id,
            Identity(request.producer_id, request.producer_epoch),
            [where],
            add=version >= PROTOCOL_2_FROM,
            then=self._verified,
        )

    def _verified(self, verdicts: Verdicts) -> None:
        (error,) = verdicts.values()
        if error is ErrorCode.NONE:
            self._commit()
        else:
            self.reply.fail(KafkaError(self._translated(error)))

    def _translated(self, error: ErrorCode) -> ErrorCode:
        """In words that producers expect of a group coordinator."""
        if error is ErrorCode.PRODUCER_FENCED:
            return ErrorCode.INVALID_PRODUCER_EPOCH
        if error is ErrorCode.TRANSACTION_ABORTABLE and self._context.api_version < ABORTABLE_FROM:
            return ErrorCode.INVALID_TXN_STATE
        if error in _COORDINATOR_IS_AWAY:
            # It is the coordinator of the transaction that is not there, not the one asked.
            return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        return error

    def _commit(self) -> None:
        request = self._request
        who = client(self._context)
        self._context.node.coordinators.groups.request(
            request.group_id,
            self.reply,
            lambda shard, now, outbox: shard.commit_offsets_in_transaction(
                request, who, self.reply, now, outbox
            ),
            producer=(request.producer_id, request.producer_epoch),
        )

    def _shaped(self, response: TxnOffsetCommitResponse) -> TxnOffsetCommitResponse:
        if self._context.api_version < LOADING_FROM:
            for topic in response.topics:
                for partition in topic.partitions:
                    if partition.error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
                        # Clients of that time would give up.
                        partition.error_code = int(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        known = {topic.name: topic for topic in response.topics}
        for topic in self._refused:
            if topic.name in known:
                known[topic.name].partitions += topic.partitions
            else:
                response.topics.append(topic)
        return response


def _sort_out(
    image: MetadataImage, request: TxnOffsetCommitRequest
) -> list[TxnOffsetCommitResponseTopic]:
    """Take what does not exist out of the request, and answer it."""
    refused = []
    for topic in request.topics:
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
