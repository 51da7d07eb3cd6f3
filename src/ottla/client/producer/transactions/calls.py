"""The requests of a transactional producer, each retried until it has a final response.

A coordinator may move, load, be restarted, or still be ending the last transaction: then the
request is retried at the current coordinator. All of these requests may be repeated, because the
coordinator recognizes them. The number of attempts is not limited here: callers limit the time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from typing import Any, Final, NamedTuple, TypeVar

from ottla.client.errors import ConnectionLost, RequestTimedOut, Unreachable
from ottla.client.network.backoff import Pauses
from ottla.client.network.cluster import Cluster
from ottla.client.network.finding import CoordinatorType
from ottla.client.producer.sending.identity import NOBODY, Identity
from ottla.client.producer.transactions.protocol import (
    ADDING_MAX,
    GROUP_MEMBERS_FROM,
    PROTOCOL_1,
    init_version,
    protocol_of,
    version_of,
)
from ottla.client.producer.transactions.verdicts import Verdict, verdict_on_request
from ottla.client.values import GroupMetadata, OffsetAndMetadata, TopicPartition
from ottla.network.connection import Connection
from ottla.protocol.errors import ErrorCode, KafkaError

T = TypeVar("T")

BUSY_PAUSE_MS: Final = 20
"""The coordinator ends a transaction within milliseconds; the next need not wait longer."""


class Described(NamedTuple):
    """The coordinator's state of a transactional id."""

    state: str
    identity: Identity


class TransactionCalls:
    def __init__(self, cluster: Cluster, transactional_id: str) -> None:
        self._cluster = cluster
        self._id = transactional_id
        self.protocol = PROTOCOL_1
        """The newest transaction protocol, as of the last request to the coordinator."""
        self.trouble: Exception | None = None
        """The error of the last attempt."""

    # Requests to the coordinator of the transaction

    async def init_producer_id(
        self,
        timeout_ms: int,
        *,
        renew: Identity = NOBODY,
        two_phase: bool = False,
        keep_prepared: bool = False,
    ) -> tuple[Identity, Identity]:
        """Return the identity of a new instance, or the next one after `renew`, and that of the
        open transaction that was found and kept."""
        from ottla.protocol.messages.init_producer_id import InitProducerIdRequest

        async def attempt(connection: Connection) -> tuple[Identity, Identity]:
            version = init_version(connection, renewing=renew.known, two_phase=two_phase)
            request = InitProducerIdRequest(
                transactional_id=self._id, transaction_timeout_ms=timeout_ms
            )
            if renew.known:
                request.producer_id, request.producer_epoch = renew.producer_id, renew.epoch
            if two_phase:
                request.enable2_pc, request.keep_prepared_txn = True, keep_prepared
            answer = await connection.request(request, version=version)
            if keep_prepared and answer.error_code == ErrorCode.UNSUPPORTED_VERSION:
                raise KafkaError(
                    ErrorCode.UNSUPPORTED_VERSION,
                    "the brokers cannot leave a prepared transaction to a new producer (Kafka 4.3 "
                    "cannot yet): end it with Admin.commit_prepared() or abort_prepared()",
                )
            _raise_for(answer.error_code)
            ongoing = Identity(answer.ongoing_txn_producer_id, answer.ongoing_txn_producer_epoch)
            return Identity(answer.producer_id, answer.producer_epoch), ongoing

        return await self._of_transaction(attempt)

    async def add_partitions(
        self, identity: Identity, partitions: Collection[TopicPartition]
    ) -> None:
        from ottla.protocol.messages.add_partitions_to_txn import (
            AddPartitionsToTxnRequest,
            AddPartitionsToTxnTopic,
        )

        topics = [
            AddPartitionsToTxnTopic(name=name, partitions=indexes)
            for name, indexes in _by_topic(partitions).items()
        ]

        async def attempt(connection: Connection) -> None:
            request = AddPartitionsToTxnRequest(
                v3_and_below_transactional_id=self._id,
                v3_and_below_producer_id=identity.producer_id,
                v3_and_below_producer_epoch=identity.epoch,
                v3_and_below_topics=topics,
            )
            version = min(connection.version_of(request), ADDING_MAX)
            answer = await connection.request(request, version=version)
            _raise_worst(
                (f"{topic.name}-{one.partition_index}", one.partition_error_code)
                for topic in answer.results_by_topic_v3_and_below
                for one in topic.results_by_partition
            )

        await self._of_transaction(attempt)

    async def add_offsets(self, identity: Identity, group_id: str) -> None:
        from ottla.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest

        async def attempt(connection: Connection) -> None:
            request = AddOffsetsToTxnRequest(
                transactional_id=self._id,
                producer_id=identity.producer_id,
                producer_epoch=identity.epoch,
                group_id=group_id,
            )
            _raise_for((await connection.request(request)).error_code)

        await self._of_transaction(attempt)

    async def end(
        self, identity: Identity, *, commit: bool, protocol: int | None = None
    ) -> Identity:
        """End the transaction, and return the producer's next identity: protocol 2 changes it. If
        `protocol` is None, use the cluster's."""
        from ottla.protocol.messages.end_txn import EndTxnRequest

        async def attempt(connection: Connection) -> Identity:
            request = EndTxnRequest(
                transactional_id=self._id,
                producer_id=identity.producer_id,
                producer_epoch=identity.epoch,
                committed=commit,
            )
            version = version_of(connection, request, protocol or protocol_of(connection))
            answer = await connection.request(request, version=version)
            _raise_for(answer.error_code)
            following = Identity(answer.producer_id, answer.producer_epoch)
            return following if following.known else identity

        return await self._of_transaction(attempt)

    async def describe(self) -> Described | None:
        """Return None if the coordinator does not know the id."""
        from ottla.protocol.messages.describe_transactions import DescribeTransactionsRequest

        async def attempt(connection: Connection) -> Described | None:
            request = DescribeTransactionsRequest(transactional_ids=[self._id])
            (found,) = (await connection.request(request)).transaction_states
            if found.error_code == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND:
                return None
            _raise_for(found.error_code)
            return Described(
                found.transaction_state, Identity(found.producer_id, found.producer_epoch)
            )

        return await self._of_transaction(attempt)

    # Requests to the coordinator of a group

    async def commit_offsets(
        self,
        identity: Identity,
        offsets: Mapping[TopicPartition, OffsetAndMetadata],
        group: GroupMetadata,
        protocol: int,
    ) -> None:
        from ottla.protocol.messages.txn_offset_commit import TxnOffsetCommitRequest

        async def attempt(connection: Connection) -> None:
            request = TxnOffsetCommitRequest(
                transactional_id=self._id,
                group_id=group.group_id,
                producer_id=identity.producer_id,
                producer_epoch=identity.epoch,
                topics=_offset_topics(offsets),
            )
            version = version_of(connection, request, protocol)
            if version >= GROUP_MEMBERS_FROM:
                request.generation_id = group.generation_id
                request.member_id = group.member_id
                request.group_instance_id = group.group_instance_id
            answer = await connection.request(request, version=version)
            _raise_worst(
                (f"{topic.name}-{one.partition_index}", one.error_code)
                for topic in answer.topics
                for one in topic.partitions
            )

        await self._until_answered(CoordinatorType.GROUP, group.group_id, attempt)

    # Retries

    async def _of_transaction(self, attempt: Callable[[Connection], Awaitable[T]]) -> T:
        async def noting(connection: Connection) -> T:
            self.protocol = protocol_of(connection)
            return await attempt(connection)

        return await self._until_answered(CoordinatorType.TRANSACTION, self._id, noting)

    async def _until_answered(
        self, kind: CoordinatorType, key: str, attempt: Callable[[Connection], Awaitable[T]]
    ) -> T:
        pauses = self._cluster.pauses()
        busy = Pauses(BUSY_PAUSE_MS, self._cluster.settings.retry_backoff_ms)
        while True:
            wait = pauses
            try:
                return await attempt(await self._cluster.coordinator(kind, key))
            except KafkaError as error:
                verdict = verdict_on_request(error.code)
                if verdict not in (Verdict.AGAIN, Verdict.ELSEWHERE):
                    raise
                # A group coordinator that cannot store offsets in time may have been replaced.
                if verdict is Verdict.ELSEWHERE or error.code is ErrorCode.REQUEST_TIMED_OUT:
                    self._cluster.forget_coordinator(kind, key)
                if error.code is ErrorCode.CONCURRENT_TRANSACTIONS:
                    wait = busy
                self.trouble = error
            except (ConnectionLost, RequestTimedOut, Unreachable) as error:
                self._cluster.forget_coordinator(kind, key)
                self.trouble = error
            await asyncio.sleep(wait.next_s(self._cluster.runtime.random))


def _raise_for(code: int, what: str = "") -> None:
    if code:
        error = ErrorCode.of(code)
        raise KafkaError(error, f"{what}: {error.message}" if what else None)


_GRAVITY: Final = (Verdict.FATAL, Verdict.RENEW, Verdict.ABORT, Verdict.ELSEWHERE, Verdict.AGAIN)


def _raise_worst(answers: Iterable[tuple[str, int]]) -> None:
    """Raise the gravest error of several partitions."""
    errors = [(what, ErrorCode.of(code)) for what, code in answers if code]
    if errors:
        what, code = min(errors, key=_gravity)
        _raise_for(code, what)


def _gravity(error: tuple[str, ErrorCode]) -> tuple[int, bool]:
    # "Not attempted" only says that there is another error.
    _, code = error
    return _GRAVITY.index(verdict_on_request(code)), code is ErrorCode.OPERATION_NOT_ATTEMPTED


def _by_topic(partitions: Iterable[TopicPartition]) -> dict[str, list[int]]:
    topics: dict[str, list[int]] = {}
    for topic, index in sorted(partitions):
        topics.setdefault(topic, []).append(index)
    return topics


def _offset_topics(offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> list[Any]:
    from ottla.protocol.messages.txn_offset_commit import (
        TxnOffsetCommitRequestPartition,
        TxnOffsetCommitRequestTopic,
    )

    def row(partition: TopicPartition) -> TxnOffsetCommitRequestPartition:
        found = offsets[partition]
        return TxnOffsetCommitRequestPartition(
            partition_index=partition.partition,
            committed_offset=found.offset,
            committed_leader_epoch=found.leader_epoch,
            committed_metadata=found.metadata,
        )

    return [
        TxnOffsetCommitRequestTopic(
            name=name, partitions=[row(TopicPartition(name, index)) for index in indexes]
        )
        for name, indexes in _by_topic(offsets).items()
    ]
