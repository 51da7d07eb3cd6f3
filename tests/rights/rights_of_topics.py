"""Samples of requests about topics, configs and replicas."""

from __future__ import annotations

from typing import Any

from rights_samples import (
    ALTER,
    ALTER_CONFIGS,
    BROKER_ONLY,
    CREATE,
    DELETE,
    DESCRIBE,
    DESCRIBE_CONFIGS,
    EXISTING,
    GROUP,
    TOPIC,
    Grant,
    Sample,
    World,
    on_cluster,
)

from ottla.broker.metadata.resources import ResourceType as ConfigOf
from ottla.protocol.apis import ApiKey
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages import alter_configs, incremental_alter_configs
from ottla.protocol.messages.alter_configs import AlterConfigsRequest
from ottla.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from ottla.protocol.messages.alter_replica_log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
)
from ottla.protocol.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from ottla.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from ottla.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from ottla.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
)
from ottla.protocol.messages.describe_log_dirs import DescribeLogDirsRequest
from ottla.protocol.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from ottla.protocol.messages.incremental_alter_configs import IncrementalAlterConfigsRequest
from ottla.protocol.messages.list_config_resources import ListConfigResourcesRequest
from ottla.protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
)

CREATED = "created"
DELETED = "deleted"
GROWS = "grows"
BY_NAME = 5
"""The last version of DeleteTopics that only names topics."""
ERROR_PER_DIR_UPTO = 2
"""The last version of DescribeLogDirs without an error of the whole request."""
ELECTION_BY_PARTITIONS = 0
TOPIC_REFUSED = ErrorCode.TOPIC_AUTHORIZATION_FAILED
CLUSTER_REFUSED = ErrorCode.CLUSTER_AUTHORIZATION_FAILED


def _create(validate_only: bool = False) -> CreateTopicsRequest:
    topic = CreatableTopic(name=CREATED, num_partitions=1, replication_factor=1)
    return CreateTopicsRequest(topics=[topic], timeout_ms=20_000, validate_only=validate_only)


def _delete(*topics: DeleteTopicState) -> DeleteTopicsRequest:
    return DeleteTopicsRequest(topics=list(topics), timeout_ms=20_000)


def _not_created(world: World) -> None:
    answer = world.ask(_delete(DeleteTopicState(name=CREATED)))
    code = answer.responses[0].error_code
    assert code in (ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)


def _add_partition(world: World) -> CreatePartitionsRequest:
    topic = CreatePartitionsTopic(name=GROWS, count=2, assignments=None)
    return CreatePartitionsRequest(topics=[topic], timeout_ms=20_000, validate_only=True)


def _names_in_results(response: Any) -> list[str]:
    return [result.name for result in response.responses if result.name]


def _describe_configs(config_of: ConfigOf, name: str) -> DescribeConfigsRequest:
    resource = DescribeConfigsResource(
        resource_type=config_of, resource_name=name, configuration_keys=None
    )
    return DescribeConfigsRequest(resources=[resource])


def _configs(response: Any) -> list[str]:
    return [entry.name for result in response.results for entry in result.configs]


def _alter(config_of: ConfigOf, name: str, key: str, value: str) -> AlterConfigsRequest:
    config = alter_configs.AlterableConfig(name=key, value=value)
    return AlterConfigsRequest(
        resources=[
            alter_configs.AlterConfigsResource(
                resource_type=config_of, resource_name=name, configs=[config]
            )
        ]
    )


def _set(config_of: ConfigOf, name: str, key: str, value: str) -> IncrementalAlterConfigsRequest:
    config = incremental_alter_configs.AlterableConfig(name=key, value=value)
    return IncrementalAlterConfigsRequest(
        resources=[
            incremental_alter_configs.AlterConfigsResource(
                resource_type=config_of, resource_name=name, configs=[config]
            )
        ]
    )


def _elect(world: World) -> ElectLeadersRequest:
    return ElectLeadersRequest(
        topic_partitions=[TopicPartitions(topic=EXISTING, partitions=[0])], timeout_ms=20_000
    )


TOPICS: list[Sample] = [
    Sample(
        ApiKey.CREATE_TOPICS,
        lambda world: _create(),
        grants=(Grant(CREATE, TOPIC, CREATED),),
        refused=TOPIC_REFUSED,
        prepare=_not_created,
    ),
    Sample(
        ApiKey.CREATE_TOPICS,
        lambda world: _create(),
        name="by-cluster",
        grants=(on_cluster(CREATE),),
        refused=TOPIC_REFUSED,
        prepare=_not_created,
    ),
    Sample(
        ApiKey.CREATE_TOPICS,
        lambda world: _create(validate_only=True),
        name="shows-configs",
        grants=(Grant(CREATE, TOPIC, CREATED), Grant(DESCRIBE_CONFIGS, TOPIC, CREATED)),
        refused=TOPIC_REFUSED,
        lacking=(TOPIC_REFUSED, ErrorCode.NONE),
        shown=lambda response: [topic.configs for topic in response.topics if topic.configs],
        prepare=_not_created,
    ),
    Sample(
        ApiKey.DELETE_TOPICS,
        lambda world: _delete(DeleteTopicState(topic_id=world.topic_id(DELETED))),
        grants=(Grant(DELETE, TOPIC, DELETED),),
        refused=TOPIC_REFUSED,
        shown=_names_in_results,
        topics=(DELETED,),
    ),
    Sample(
        ApiKey.DELETE_TOPICS,
        lambda world: _delete(DeleteTopicState(topic_id=world.topic_id(DELETED))),
        name="may-only-describe",
        grants=(Grant(DESCRIBE, TOPIC, DELETED),),
        refused=TOPIC_REFUSED,
        allowed=TOPIC_REFUSED,
        shown=_names_in_results,
        topics=(DELETED,),
    ),
    Sample(
        ApiKey.DELETE_TOPICS,
        lambda world: _delete(DeleteTopicState(name=DELETED)),
        name="by-cluster",
        grants=(on_cluster(DELETE),),
        refused=TOPIC_REFUSED,
        topics=(DELETED,),
    ),
    Sample(
        ApiKey.DELETE_TOPICS,
        lambda world: DeleteTopicsRequest(topic_names=[DELETED], timeout_ms=20_000),
        name="by-name",
        version=BY_NAME,
        grants=(Grant(DELETE, TOPIC, DELETED),),
        refused=TOPIC_REFUSED,
        topics=(DELETED,),
    ),
    Sample(
        ApiKey.DELETE_TOPICS,
        lambda world: _delete(DeleteTopicState(name="no-such-topic")),
        name="no-such-topic",
        grants=(Grant(DESCRIBE, TOPIC, "no-such-topic"),),
        refused=TOPIC_REFUSED,
        allowed=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ),
    Sample(
        ApiKey.CREATE_PARTITIONS,
        _add_partition,
        grants=(Grant(ALTER, TOPIC, GROWS),),
        refused=TOPIC_REFUSED,
        topics=(GROWS,),
    ),
    # Configs
    Sample(
        ApiKey.DESCRIBE_CONFIGS,
        lambda world: _describe_configs(ConfigOf.TOPIC, EXISTING),
        grants=(Grant(DESCRIBE_CONFIGS, TOPIC, EXISTING),),
        refused=TOPIC_REFUSED,
        shown=_configs,
    ),
    Sample(
        ApiKey.DESCRIBE_CONFIGS,
        lambda world: _describe_configs(ConfigOf.GROUP, "configured"),
        name="of-a-group",
        grants=(Grant(DESCRIBE_CONFIGS, GROUP, "configured"),),
        refused=ErrorCode.GROUP_AUTHORIZATION_FAILED,
        shown=_configs,
    ),
    Sample(
        ApiKey.DESCRIBE_CONFIGS,
        lambda world: _describe_configs(ConfigOf.BROKER, str(world.node_id)),
        name="of-a-broker",
        grants=(on_cluster(DESCRIBE_CONFIGS),),
        refused=CLUSTER_REFUSED,
        shown=_configs,
    ),
    Sample(
        ApiKey.DESCRIBE_CONFIGS,
        lambda world: _describe_configs(ConfigOf.BROKER_LOGGER, str(world.node_id)),
        name="of-loggers",
        grants=(on_cluster(DESCRIBE_CONFIGS),),
        refused=CLUSTER_REFUSED,
        shown=_configs,
    ),
    Sample(
        ApiKey.DESCRIBE_CONFIGS,
        lambda world: _describe_configs(ConfigOf.CLIENT_METRICS, "subscription"),
        name="of-client-metrics",
        grants=(on_cluster(DESCRIBE_CONFIGS),),
        refused=CLUSTER_REFUSED,
    ),
    Sample(
        ApiKey.ALTER_CONFIGS,
        lambda world: _alter(ConfigOf.TOPIC, GROWS, "retention.ms", "60000"),
        grants=(Grant(ALTER_CONFIGS, TOPIC, GROWS),),
        refused=TOPIC_REFUSED,
        topics=(GROWS,),
    ),
    Sample(
        ApiKey.ALTER_CONFIGS,
        lambda world: _alter(ConfigOf.GROUP, "configured", "consumer.session.timeout.ms", "46000"),
        name="of-a-group",
        grants=(Grant(ALTER_CONFIGS, GROUP, "configured"),),
        refused=ErrorCode.GROUP_AUTHORIZATION_FAILED,
    ),
    Sample(
        ApiKey.ALTER_CONFIGS,
        lambda world: _alter(ConfigOf.BROKER, "", "message.max.bytes", "1048588"),
        name="of-brokers",
        grants=(on_cluster(ALTER_CONFIGS),),
        refused=CLUSTER_REFUSED,
        # It would remove min.insync.replicas, which eligible leader replicas need.
        allowed=ErrorCode.INVALID_CONFIG,
    ),
    Sample(
        ApiKey.INCREMENTAL_ALTER_CONFIGS,
        lambda world: _set(ConfigOf.TOPIC, GROWS, "retention.ms", "60000"),
        grants=(Grant(ALTER_CONFIGS, TOPIC, GROWS),),
        refused=TOPIC_REFUSED,
        topics=(GROWS,),
    ),
    Sample(
        ApiKey.INCREMENTAL_ALTER_CONFIGS,
        lambda world: _set(ConfigOf.GROUP, "configured", "consumer.session.timeout.ms", "46000"),
        name="of-a-group",
        grants=(Grant(ALTER_CONFIGS, GROUP, "configured"),),
        refused=ErrorCode.GROUP_AUTHORIZATION_FAILED,
    ),
    Sample(
        ApiKey.INCREMENTAL_ALTER_CONFIGS,
        lambda world: _set(ConfigOf.BROKER, "", "message.max.bytes", "1048588"),
        name="of-brokers",
        grants=(on_cluster(ALTER_CONFIGS),),
        refused=CLUSTER_REFUSED,
    ),
    Sample(
        ApiKey.INCREMENTAL_ALTER_CONFIGS,
        lambda world: _set(ConfigOf.CLIENT_METRICS, "subscription", "interval.ms", "60000"),
        name="of-client-metrics",
        grants=(on_cluster(ALTER_CONFIGS),),
        refused=CLUSTER_REFUSED,
    ),
    Sample(
        ApiKey.INCREMENTAL_ALTER_CONFIGS,
        lambda world: _set(ConfigOf.BROKER_LOGGER, str(world.node_id), "root", "INFO"),
        name="of-loggers",
        grants=(on_cluster(ALTER_CONFIGS),),
        refused=CLUSTER_REFUSED,
        listeners=BROKER_ONLY,
    ),
    Sample(
        ApiKey.LIST_CONFIG_RESOURCES,
        lambda world: ListConfigResourcesRequest(),
        grants=(on_cluster(DESCRIBE_CONFIGS),),
        refused=CLUSTER_REFUSED,
        shown=lambda response: response.config_resources,
    ),
    # Replicas
    Sample(
        ApiKey.DESCRIBE_LOG_DIRS,
        lambda world: DescribeLogDirsRequest(topics=None),
        grants=(on_cluster(DESCRIBE),),
        refused=CLUSTER_REFUSED,
        shown=lambda response: response.results,
    ),
    Sample(
        ApiKey.DESCRIBE_LOG_DIRS,
        lambda world: DescribeLogDirsRequest(topics=None),
        name="without-an-error-field",
        version=ERROR_PER_DIR_UPTO,
        grants=(on_cluster(DESCRIBE),),
        shown=lambda response: response.results,
    ),
    Sample(
        ApiKey.ALTER_REPLICA_LOG_DIRS,
        lambda world: AlterReplicaLogDirsRequest(
            dirs=[
                AlterReplicaLogDir(
                    path="/no/such/folder",
                    topics=[AlterReplicaLogDirTopic(name=EXISTING, partitions=[0])],
                )
            ]
        ),
        grants=(on_cluster(ALTER),),
        refused=CLUSTER_REFUSED,
        allowed=ErrorCode.LOG_DIR_NOT_FOUND,
    ),
    Sample(
        ApiKey.ELECT_LEADERS,
        _elect,
        grants=(on_cluster(ALTER),),
        refused=CLUSTER_REFUSED,
        allowed=ErrorCode.ELECTION_NOT_NEEDED,
    ),
    Sample(
        ApiKey.ELECT_LEADERS,
        _elect,
        name="with-errors-of-partitions",
        version=ELECTION_BY_PARTITIONS,
        grants=(on_cluster(ALTER),),
        refused=CLUSTER_REFUSED,
        allowed=ErrorCode.ELECTION_NOT_NEEDED,
    ),
    Sample(
        ApiKey.ALTER_PARTITION_REASSIGNMENTS,
        lambda world: AlterPartitionReassignmentsRequest(
            timeout_ms=20_000,
            topics=[
                ReassignableTopic(
                    name=EXISTING,
                    partitions=[ReassignablePartition(partition_index=0, replicas=None)],
                )
            ],
        ),
        grants=(on_cluster(ALTER),),
        refused=CLUSTER_REFUSED,
        allowed=ErrorCode.NO_REASSIGNMENT_IN_PROGRESS,
    ),
    Sample(
        ApiKey.LIST_PARTITION_REASSIGNMENTS,
        lambda world: ListPartitionReassignmentsRequest(timeout_ms=20_000),
        grants=(on_cluster(DESCRIBE),),
        refused=CLUSTER_REFUSED,
    ),
]
