"""The messages that a follower sends to its leader."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchTopic,
    ForgottenTopic,
    ReplicaState,
)
from ottla.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)

if TYPE_CHECKING:
    from ottla.broker.replication.fetching.fetch_session import Key, Position, SessionRequest
    from ottla.broker.replication.fetching.fetch_settings import FetchSettings
    from ottla.broker.replication.partition import Partition

LATEST: Final = -1
EARLIEST: Final = -2


def fetch_request(
    request: SessionRequest, settings: FetchSettings, wait_ms: int, node_id: int, broker_epoch: int
) -> FetchRequest:
    topics: dict[bytes, FetchTopic] = {}
    for key, position in request.named.items():
        topic = topics.get(key[0])
        if topic is None:
            topic = topics[key[0]] = FetchTopic(topic_id=key[0])
        topic.partitions.append(_named(key, position, settings.partition_bytes_max))
    forgotten: dict[bytes, ForgottenTopic] = {}
    for topic_id, index in request.forgotten:
        forgotten.setdefault(topic_id, ForgottenTopic(topic_id=topic_id)).partitions.append(index)
    return FetchRequest(
        replica_state=ReplicaState(replica_id=node_id, replica_epoch=broker_epoch),
        max_wait_ms=wait_ms,
        min_bytes=settings.bytes_min,
        max_bytes=settings.response_bytes_max,
        session_id=request.session_id,
        session_epoch=request.epoch,
        topics=list(topics.values()),
        forgotten_topics_data=list(forgotten.values()),
    )


def _named(key: Key, position: Position, bytes_max: int) -> FetchPartition:
    return FetchPartition(
        partition=key[1],
        current_leader_epoch=position.leader_epoch,
        fetch_offset=position.offset,
        last_fetched_epoch=position.last_epoch,
        log_start_offset=position.log_start_offset,
        partition_max_bytes=bytes_max,
    )


def ends_request(partition: Partition, node_id: int, *, latest: bool) -> ListOffsetsRequest:
    return ListOffsetsRequest(
        replica_id=node_id,
        isolation_level=0,
        topics=[
            ListOffsetsTopic(
                name=partition.topic,
                partitions=[
                    ListOffsetsPartition(
                        partition_index=partition.index,
                        current_leader_epoch=partition.leader_epoch,
                        timestamp=LATEST if latest else EARLIEST,
                    )
                ],
            )
        ],
    )


class LeaderEnds(NamedTuple):
    """Start and end offset of a leader's log."""

    start_offset: int
    end_offset: int

    @classmethod
    def read(cls, earliest: Any, latest: Any) -> LeaderEnds:
        return cls(_offset(earliest), _offset(latest))


def _offset(response: Any) -> int:
    answer = response.topics[0].partitions[0]
    if answer.error_code:
        raise KafkaError(ErrorCode.of(answer.error_code))
    return int(answer.offset)
