"""What nodes of a cluster ask of each other, answered in every version."""

from __future__ import annotations

from pathlib import Path

from handler_stage import NODE_ID, Admin, create, versions, with_admin

from ottla.broker.metadata.features import FEATURES
from ottla.protocol.apis import ApiKey
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages import (
    allocate_producer_ids,
    alter_partition,
    alter_partition_reassignments,
    assign_replicas_to_dirs,
    broker_heartbeat,
    broker_registration,
    controller_registration,
    elect_leaders,
    list_partition_reassignments,
    update_features,
)
from ottla.protocol.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from ottla.protocol.messages.unregister_broker import UnregisterBrokerRequest
from ottla.protocol.schema import Message


def cluster_requests(admin: Admin) -> dict[ApiKey, Message]:
    topic_id = admin.node.metadata.image.topics["t"].id
    epoch = admin.node.metadata.image.brokers[NODE_ID].epoch
    own = {"broker_id": NODE_ID, "broker_epoch": epoch}
    features = [
        broker_registration.Feature(
            name=feature.name,
            min_supported_version=feature.lowest,
            max_supported_version=feature.level,
        )
        for feature in FEATURES
    ]
    return {
        ApiKey.BROKER_REGISTRATION: broker_registration.BrokerRegistrationRequest(
            broker_id=7, cluster_id="cluster", log_dirs=[b"f" * 16], features=features
        ),
        ApiKey.BROKER_HEARTBEAT: broker_heartbeat.BrokerHeartbeatRequest(**own),
        ApiKey.ALTER_PARTITION: alter_partition.AlterPartitionRequest(
            **own,
            topics=[
                alter_partition.RequestTopicData(
                    topic_id=topic_id,
                    partitions=[alter_partition.RequestPartitionData(new_isr=[NODE_ID])],
                )
            ],
        ),
        ApiKey.ELECT_LEADERS: elect_leaders.ElectLeadersRequest(
            topic_partitions=[elect_leaders.TopicPartitions(topic="t", partitions=[0])]
        ),
        ApiKey.ALTER_PARTITION_REASSIGNMENTS: (
            alter_partition_reassignments.AlterPartitionReassignmentsRequest(
                topics=[
                    alter_partition_reassignments.ReassignableTopic(
                        name="t",
                        partitions=[
                            alter_partition_reassignments.ReassignablePartition(replicas=[NODE_ID])
                        ],
                    )
                ]
            )
        ),
        ApiKey.LIST_PARTITION_REASSIGNMENTS: (
            list_partition_reassignments.ListPartitionReassignmentsRequest()
        ),
        ApiKey.ALLOCATE_PRODUCER_IDS: allocate_producer_ids.AllocateProducerIdsRequest(**own),
        ApiKey.ASSIGN_REPLICAS_TO_DIRS: assign_replicas_to_dirs.AssignReplicasToDirsRequest(**own),
        ApiKey.UPDATE_FEATURES: update_features.UpdateFeaturesRequest(
            feature_updates=[
                update_features.FeatureUpdateKey(feature="transaction.version", max_version_level=2)
            ]
        ),
        ApiKey.CONTROLLER_REGISTRATION: controller_registration.ControllerRegistrationRequest(
            controller_id=9
        ),
    }


def test_requests_of_a_cluster_are_answered_in_every_version(tmp_path: Path):
    async def use(admin: Admin) -> None:
        await create(admin, "t")
        for key, request in cluster_requests(admin).items():
            for version in versions(key):
                answer = await admin(key, request, version)
                assert getattr(answer, "error_code", 0) == 0
        image = admin.node.metadata.image
        assert image.brokers[7].fenced
        assert 9 in image.controllers
        await admin(ApiKey.UNREGISTER_BROKER, UnregisterBrokerRequest(broker_id=7))
        assert 7 not in admin.node.metadata.image.brokers

    with_admin(tmp_path, use)


def test_an_election_that_is_refused_as_a_whole_says_so_in_every_version(tmp_path: Path):
    async def use(admin: Admin) -> None:
        request = ElectLeadersRequest(
            election_type=5, topic_partitions=[TopicPartitions(topic="t", partitions=[0])]
        )
        for version in versions(ApiKey.ELECT_LEADERS):
            answer = await admin(ApiKey.ELECT_LEADERS, request, version)
            result = answer.replica_election_results[0].partition_result[0]
            assert result.error_code == ErrorCode.INVALID_REQUEST

    with_admin(tmp_path, use)
