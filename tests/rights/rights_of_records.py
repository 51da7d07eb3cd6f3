"""Samples of requests that write, read and find records, and of those that find topics."""

from __future__ import annotations

import time
from typing import Any

from rights_of_groups import TRANSACTION_KEY, find_coordinator
from rights_samples import (
    ALTER,
    BROKER_ONLY,
    CLUSTER_ACTION,
    CONTROLLER_ONLY,
    CREATE,
    DELETE,
    DESCRIBE,
    EXISTING,
    READ,
    TOPIC,
    TRANSACTION,
    WRITE,
    Grant,
    Sample,
    World,
    on_cluster,
)

from ottla.protocol.apis import ApiKey
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.api_versions import ApiVersionsRequest
from ottla.protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from ottla.protocol.messages.describe_cluster import DescribeClusterRequest
from ottla.protocol.messages.describe_producers import DescribeProducersRequest
from ottla.protocol.messages.describe_producers import TopicRequest as ProducersOf
from ottla.protocol.messages.describe_topic_partitions import (
    DescribeTopicPartitionsRequest,
    TopicRequest,
)
from ottla.protocol.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchTopic,
    ReplicaState,
)
from ottla.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from ottla.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from ottla.protocol.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from ottla.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from ottla.records.builder import build_batch
from ottla.records.record import Record

WRITTEN = "written"
TRUNCATED = "truncated"
TOPIC_REFUSED = ErrorCode.TOPIC_AUTHORIZATION_FAILED
BY_NAME = 12
"""The last version of Produce and of Fetch that names topics."""
CLUSTER_RIGHTS_UPTO = 10
BROKERS, CONTROLLERS = 1, 2


def batch(*, transactional: bool = False) -> bytes:
    record = Record(0, int(time.time() * 1000), None, b"value")
    if not transactional:
        return build_batch([record])
    return build_batch(
        [record], producer_id=9_999, producer_epoch=0, base_sequence=0, transactional=True
    )


def _produce(transactional_id: str | None = None, **topic: Any) -> ProduceRequest:
    records = batch(transactional=transactional_id is not None)
    return ProduceRequest(
        transactional_id=transactional_id,
        acks=-1,
        timeout_ms=10_000,
        topic_data=[
            TopicProduceData(
                partition_data=[PartitionProduceData(index=0, records=records)], **topic
            )
        ],
    )


def _fetch(replica_id: int = -1, **topic: Any) -> FetchRequest:
    wanted = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1_000_000)
    return FetchRequest(
        replica_state=ReplicaState(replica_id=replica_id),
        topics=[FetchTopic(partitions=[wanted], **topic)],
    )


def _metadata(*topics: MetadataRequestTopic, create: bool = False, **rights: bool) -> Any:
    return MetadataRequest(topics=list(topics), allow_auto_topic_creation=create, **rights)


def _topics_of_metadata(response: Any) -> list[str]:
    return [topic.name for topic in response.topics if topic.partitions]


def _describe_cluster(endpoint_type: int) -> DescribeClusterRequest:
    return DescribeClusterRequest(
        endpoint_type=endpoint_type, include_cluster_authorized_operations=True
    )


def _rights_on_cluster(response: Any) -> int:
    return int(response.cluster_authorized_operations)


def _epoch_end(replica_id: int) -> OffsetForLeaderEpochRequest:
    wanted = OffsetForLeaderPartition(partition=0, leader_epoch=0)
    return OffsetForLeaderEpochRequest(
        replica_id=replica_id,
        topics=[OffsetForLeaderTopic(topic=EXISTING, partitions=[wanted])],
    )


RECORDS: list[Sample] = [
    Sample(
        ApiKey.PRODUCE,
        lambda world: _produce(topic_id=world.topic_id(WRITTEN)),
        grants=(Grant(WRITE, TOPIC, WRITTEN),),
        refused=TOPIC_REFUSED,
        topics=(WRITTEN,),
    ),
    Sample(
        ApiKey.PRODUCE,
        lambda world: _produce(name=WRITTEN),
        name="by-name",
        version=BY_NAME,
        grants=(Grant(WRITE, TOPIC, WRITTEN),),
        refused=TOPIC_REFUSED,
        topics=(WRITTEN,),
    ),
    Sample(
        ApiKey.PRODUCE,
        lambda world: _produce(name="no-such-topic"),
        name="no-such-topic",
        version=BY_NAME,
        grants=(Grant(WRITE, TOPIC, "no-such-topic"),),
        refused=TOPIC_REFUSED,
        allowed=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ),
    Sample(
        ApiKey.PRODUCE,
        lambda world: _produce("no-such-id", name=WRITTEN),
        name="transactional",
        version=BY_NAME,
        grants=(Grant(WRITE, TOPIC, WRITTEN), Grant(WRITE, TRANSACTION, "no-such-id")),
        refused=ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        lacking=(TOPIC_REFUSED, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED),
        allowed=ErrorCode.INVALID_PRODUCER_ID_MAPPING,
        topics=(WRITTEN,),
        prepare=lambda world: find_coordinator(world, TRANSACTION_KEY, "no-such-id"),
    ),
    Sample(
        ApiKey.FETCH,
        lambda world: _fetch(topic_id=world.topic_id(EXISTING)),
        grants=(Grant(READ, TOPIC, EXISTING),),
        refused=TOPIC_REFUSED,
        listeners=BROKER_ONLY,
    ),
    Sample(
        ApiKey.FETCH,
        lambda world: _fetch(topic=EXISTING),
        name="by-name",
        version=BY_NAME,
        grants=(Grant(READ, TOPIC, EXISTING),),
        refused=TOPIC_REFUSED,
        listeners=BROKER_ONLY,
    ),
    Sample(
        ApiKey.FETCH,
        lambda world: _fetch(world.node_id, topic_id=world.topic_id(EXISTING)),
        name="as-a-replica",
        grants=(on_cluster(CLUSTER_ACTION),),
        refused=TOPIC_REFUSED,
        allowed=ErrorCode.UNKNOWN_LEADER_EPOCH,
        listeners=BROKER_ONLY,
        compared=False,  # the leader cannot be its own follower
    ),
    Sample(
        ApiKey.FETCH,
        lambda world: FetchRequest(cluster_id="another-cluster"),
        name="of-metadata",
        grants=(on_cluster(CLUSTER_ACTION),),
        refused=ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
        allowed=ErrorCode.INCONSISTENT_CLUSTER_ID,
        listeners=CONTROLLER_ONLY,
    ),
    Sample(
        ApiKey.LIST_OFFSETS,
        lambda world: ListOffsetsRequest(
            replica_id=-1,
            topics=[
                ListOffsetsTopic(
                    name=EXISTING,
                    partitions=[ListOffsetsPartition(partition_index=0, timestamp=-1)],
                )
            ],
        ),
        grants=(Grant(DESCRIBE, TOPIC, EXISTING),),
        refused=TOPIC_REFUSED,
    ),
    Sample(
        ApiKey.OFFSET_FOR_LEADER_EPOCH,
        lambda world: _epoch_end(-1),
        grants=(Grant(DESCRIBE, TOPIC, EXISTING),),
        refused=TOPIC_REFUSED,
    ),
    Sample(
        ApiKey.OFFSET_FOR_LEADER_EPOCH,
        lambda world: _epoch_end(world.node_id),
        name="as-a-replica",
        grants=(on_cluster(CLUSTER_ACTION),),
        refused=TOPIC_REFUSED,
    ),
    Sample(
        ApiKey.DELETE_RECORDS,
        lambda world: DeleteRecordsRequest(
            topics=[
                DeleteRecordsTopic(
                    name=TRUNCATED,
                    partitions=[DeleteRecordsPartition(partition_index=0, offset=-1)],
                )
            ],
            timeout_ms=10_000,
        ),
        grants=(Grant(DELETE, TOPIC, TRUNCATED),),
        refused=TOPIC_REFUSED,
        topics=(TRUNCATED,),
        prepare=lambda world: _write(world, TRUNCATED),
    ),
    Sample(
        ApiKey.DESCRIBE_PRODUCERS,
        lambda world: DescribeProducersRequest(
            topics=[ProducersOf(name=EXISTING, partition_indexes=[0])]
        ),
        grants=(Grant(READ, TOPIC, EXISTING),),
        refused=TOPIC_REFUSED,
    ),
    # Finding topics
    Sample(
        ApiKey.API_VERSIONS,
        lambda world: ApiVersionsRequest(
            client_software_name="rights", client_software_version="1"
        ),
    ),
    Sample(
        ApiKey.METADATA,
        lambda world: _metadata(MetadataRequestTopic(name=EXISTING)),
        grants=(Grant(DESCRIBE, TOPIC, EXISTING),),
        refused=TOPIC_REFUSED,
        shown=_topics_of_metadata,
    ),
    Sample(
        ApiKey.METADATA,
        lambda world: _metadata(MetadataRequestTopic(topic_id=world.topic_id(EXISTING), name=None)),
        name="by-id",
        grants=(Grant(DESCRIBE, TOPIC, EXISTING),),
        refused=TOPIC_REFUSED,
        shown=_topics_of_metadata,
    ),
    Sample(
        ApiKey.METADATA,
        lambda world: MetadataRequest(topics=None),
        name="of-all-topics",
        grants=(Grant(DESCRIBE, TOPIC, EXISTING),),
        shown=lambda response: [topic.name for topic in response.topics],
    ),
    Sample(
        ApiKey.METADATA,
        lambda world: _metadata(MetadataRequestTopic(name="made-1"), create=True),
        name="creates-by-topic",
        grants=(Grant(DESCRIBE, TOPIC, "made-1"), Grant(CREATE, TOPIC, "made-1")),
        refused=TOPIC_REFUSED,
        lacking=(TOPIC_REFUSED, TOPIC_REFUSED),
        compared=False,  # Kafka answers before the topic exists
    ),
    Sample(
        ApiKey.METADATA,
        lambda world: _metadata(MetadataRequestTopic(name="made-2"), create=True),
        name="creates-by-cluster",
        grants=(Grant(DESCRIBE, TOPIC, "made-2"), on_cluster(CREATE)),
        refused=TOPIC_REFUSED,
        lacking=(TOPIC_REFUSED, TOPIC_REFUSED),
        compared=False,
    ),
    Sample(
        ApiKey.METADATA,
        lambda world: _metadata(MetadataRequestTopic(name="not-made"), create=True),
        name="may-not-create",
        grants=(Grant(DESCRIBE, TOPIC, "not-made"),),
        refused=TOPIC_REFUSED,
        allowed=TOPIC_REFUSED,
    ),
    Sample(
        ApiKey.METADATA,
        lambda world: _metadata(include_cluster_authorized_operations=True),
        name="rights-on-the-cluster",
        version=CLUSTER_RIGHTS_UPTO,
        grants=(on_cluster(DESCRIBE),),
        shown=_rights_on_cluster,
    ),
    Sample(
        ApiKey.METADATA,
        lambda world: _metadata(
            MetadataRequestTopic(name=EXISTING), include_topic_authorized_operations=True
        ),
        name="rights-on-a-topic",
        grants=(Grant(WRITE, TOPIC, EXISTING),),
        refused=TOPIC_REFUSED,
        shown=lambda response: [
            topic.topic_authorized_operations
            for topic in response.topics
            if topic.topic_authorized_operations == 1 << WRITE | 1 << DESCRIBE
        ],
    ),
    Sample(
        ApiKey.DESCRIBE_TOPIC_PARTITIONS,
        lambda world: DescribeTopicPartitionsRequest(topics=[TopicRequest(name=EXISTING)]),
        grants=(Grant(READ, TOPIC, EXISTING),),
        refused=TOPIC_REFUSED,
        shown=lambda response: [
            topic.topic_id
            for topic in response.topics
            if topic.topic_authorized_operations == 1 << READ | 1 << DESCRIBE
        ],
    ),
    Sample(
        ApiKey.DESCRIBE_TOPIC_PARTITIONS,
        lambda world: DescribeTopicPartitionsRequest(topics=[]),
        name="of-all-topics",
        grants=(Grant(DESCRIBE, TOPIC, EXISTING),),
        shown=lambda response: [topic.name for topic in response.topics],
    ),
    Sample(
        ApiKey.DESCRIBE_CLUSTER,
        lambda world: _describe_cluster(BROKERS),
        grants=(on_cluster(DESCRIBE),),
        shown=_rights_on_cluster,
        listeners=BROKER_ONLY,
    ),
    Sample(
        ApiKey.DESCRIBE_CLUSTER,
        lambda world: _describe_cluster(CONTROLLERS),
        name="controllers",
        grants=(on_cluster(ALTER),),
        refused=ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
        shown=lambda response: response.brokers,
        listeners=CONTROLLER_ONLY,
    ),
]


def _write(world: World, topic: str) -> None:
    answer = world.ask(_produce(topic_id=world.topic_id(topic)))
    assert answer.responses[0].partition_responses[0].error_code == 0
