"""OffsetCommit and TxnOffsetCommit: checks, records, and the result for each partition."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ottla.broker.coordinator.offsets.store import (
    NO_EXPIRY,
    NO_TRANSACTION,
    CommittedOffset,
    OffsetStore,
)
from ottla.broker.coordinator.outbox import Now, Outbox
from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from ottla.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)
from ottla.protocol.uuids import ZERO_UUID

if TYPE_CHECKING:
    from ottla.broker.coordinator.group import PartitionCheck

BROKER_DECIDES: Final = -1
"""The retention time sent by a client that leaves it to the broker."""
INT64_MAX: Final = (1 << 63) - 1
_RECORD_BYTES: Final = 64
"""About the size of a committed offset without names and metadata."""
_OK: Final = int(ErrorCode.NONE)
_TOO_LARGE: Final = int(ErrorCode.OFFSET_METADATA_TOO_LARGE)


def commit(
    store: OffsetStore,
    request: OffsetCommitRequest,
    *,
    metadata_bytes_max: int,
    now: Now,
    outbox: Outbox,
    check: PartitionCheck | None = None,
) -> OffsetCommitResponse:
    """Commit the offsets of a request; the caller has checked that its sender may."""
    retention_ms = request.retention_time_ms
    expire_ms = NO_EXPIRY
    if retention_ms != BROKER_DECIDES:
        expire_ms = min(now.wall_ms + retention_ms, INT64_MAX)
    response = OffsetCommitResponse()
    for topic in request.topics:
        answers = []
        for partition in topic.partitions:
            index = partition.partition_index
            error = _OK
            if check is not None:
                error = int(check(topic.name, topic.topic_id, index) or _OK)
            if not error and _too_long(partition.committed_metadata, metadata_bytes_max):
                error = _TOO_LARGE
            if not error:
                offset = _offset(store, partition, now, expire_ms, topic.topic_id)
                store.commit(request.group_id, topic.name, index, offset, outbox)
            answers.append(OffsetCommitResponsePartition(partition_index=index, error_code=error))
        response.topics.append(
            OffsetCommitResponseTopic(name=topic.name, topic_id=topic.topic_id, partitions=answers)
        )
    return response


def commit_in_transaction(
    store: OffsetStore,
    request: TxnOffsetCommitRequest,
    *,
    metadata_bytes_max: int,
    now: Now,
    outbox: Outbox,
    check: PartitionCheck | None = None,
) -> TxnOffsetCommitResponse:
    """Like `commit`, but the offsets are pending until the transaction ends."""
    assert request.producer_id != NO_TRANSACTION
    outbox.producer = (request.producer_id, request.producer_epoch)
    response = TxnOffsetCommitResponse()
    for topic in request.topics:
        answers = []
        for partition in topic.partitions:
            index = partition.partition_index
            error = _OK
            if check is not None:
                error = int(check(topic.name, ZERO_UUID, index) or _OK)
            if not error and _too_long(partition.committed_metadata, metadata_bytes_max):
                error = _TOO_LARGE
            if not error:
                offset = _offset(store, partition, now, NO_EXPIRY, ZERO_UUID)
                place = (request.group_id, topic.name, index)
                store.commit(*place, offset, outbox, request.producer_id)
            answers.append(
                TxnOffsetCommitResponsePartition(partition_index=index, error_code=error)
            )
        response.topics.append(TxnOffsetCommitResponseTopic(name=topic.name, partitions=answers))
    return response


def check_size(request: OffsetCommitRequest | TxnOffsetCommitRequest, bytes_max: int) -> None:
    """Refuse offsets that do not fit into one batch, before anything is changed. Kafka answers the
    same."""
    group_size = len(request.group_id)
    size = 0
    for topic in request.topics:
        size += len(topic.partitions) * (group_size + len(topic.name) + _RECORD_BYTES)
        for partition in topic.partitions:
            if metadata := partition.committed_metadata:
                size += len(metadata if metadata.isascii() else metadata.encode())
    if size > bytes_max:
        raise KafkaError(
            ErrorCode.UNKNOWN_SERVER_ERROR,
            f"the offsets take {size} bytes, and {bytes_max} fit into one batch",
        )


def _too_long(metadata: str | None, bytes_max: int) -> bool:
    # Kafka counts UTF-16 code units here, although the setting is named after bytes.
    if metadata is None or 2 * len(metadata) <= bytes_max:
        return False
    return len(metadata.encode("utf-16-le", "surrogatepass")) // 2 > bytes_max


def _offset(
    store: OffsetStore,
    partition: OffsetCommitRequestPartition | TxnOffsetCommitRequestPartition,
    now: Now,
    expire_ms: int,
    topic_id: bytes,
) -> CommittedOffset:
    return CommittedOffset(
        partition.committed_offset,
        partition.committed_leader_epoch,
        partition.committed_metadata or "",
        now.wall_ms,
        expire_ms,
        topic_id,
        store.next_order(),
    )
