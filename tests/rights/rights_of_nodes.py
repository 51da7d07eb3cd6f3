"""Samples of requests that nodes send among themselves, and of those about nodes and the quorum.

What would change the quorum names another cluster or a stale epoch: with the right, the next check
refuses it.
"""

from __future__ import annotations

from rights_samples import ALTER, CLUSTER_ACTION, DESCRIBE, EXISTING, Sample, on_cluster

from ottla.broker.raft.ids import CLUSTER_METADATA
from ottla.protocol.apis import ApiKey
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.add_raft_voter import AddRaftVoterRequest
from ottla.protocol.messages.add_raft_voter import Listener as VoterListener
from ottla.protocol.messages.allocate_producer_ids import AllocateProducerIdsRequest
from ottla.protocol.messages.alter_partition import (
    AlterPartitionRequest,
    RequestPartitionData,
    RequestTopicData,
)
from ottla.protocol.messages.assign_replicas_to_dirs import AssignReplicasToDirsRequest
from ottla.protocol.messages.begin_quorum_epoch import BeginQuorumEpochRequest
from ottla.protocol.messages.broker_heartbeat import BrokerHeartbeatRequest
from ottla.protocol.messages.broker_registration import BrokerRegistrationRequest
from ottla.protocol.messages.controller_registration import ControllerRegistrationRequest
from ottla.protocol.messages.describe_quorum import DescribeQuorumRequest
from ottla.protocol.messages.describe_quorum import RequestPartitionData as QuorumPartition
from ottla.protocol.messages.describe_quorum import RequestTopicData as QuorumTopic
from ottla.protocol.messages.end_quorum_epoch import EndQuorumEpochRequest
from ottla.protocol.messages.envelope import EnvelopeRequest
from ottla.protocol.messages.fetch_snapshot import FetchSnapshotRequest
from ottla.protocol.messages.remove_raft_voter import RemoveRaftVoterRequest
from ottla.protocol.messages.unregister_broker import UnregisterBrokerRequest
from ottla.protocol.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest
from ottla.protocol.messages.update_raft_voter import UpdateRaftVoterRequest
from ottla.protocol.messages.vote import VoteRequest

ELSEWHERE = "another-cluster"
NOT_REGISTERED = 77
BETWEEN_NODES = (on_cluster(CLUSTER_ACTION),)
REFUSED = ErrorCode.CLUSTER_AUTHORIZATION_FAILED

NODES = [
    Sample(
        ApiKey.VOTE,
        lambda world: VoteRequest(cluster_id=ELSEWHERE),
        grants=BETWEEN_NODES,
        refused=REFUSED,
        allowed=ErrorCode.INCONSISTENT_CLUSTER_ID,
    ),
    Sample(
        ApiKey.BEGIN_QUORUM_EPOCH,
        lambda world: BeginQuorumEpochRequest(cluster_id=ELSEWHERE),
        grants=BETWEEN_NODES,
        refused=REFUSED,
        allowed=ErrorCode.INCONSISTENT_CLUSTER_ID,
    ),
    Sample(
        ApiKey.END_QUORUM_EPOCH,
        lambda world: EndQuorumEpochRequest(cluster_id=ELSEWHERE),
        grants=BETWEEN_NODES,
        refused=REFUSED,
        allowed=ErrorCode.INCONSISTENT_CLUSTER_ID,
    ),
    Sample(
        ApiKey.FETCH_SNAPSHOT,
        lambda world: FetchSnapshotRequest(cluster_id=ELSEWHERE),
        grants=BETWEEN_NODES,
        refused=REFUSED,
        allowed=ErrorCode.INCONSISTENT_CLUSTER_ID,
    ),
    Sample(
        ApiKey.UPDATE_RAFT_VOTER,
        lambda world: UpdateRaftVoterRequest(
            cluster_id=ELSEWHERE,
            voter_id=NOT_REGISTERED,
        ),
        grants=BETWEEN_NODES,
        refused=REFUSED,
        allowed=ErrorCode.INCONSISTENT_CLUSTER_ID,
    ),
    Sample(
        ApiKey.ENVELOPE,
        lambda world: EnvelopeRequest(
            request_data=b"", request_principal=b"", client_host_address=bytes(4)
        ),
        grants=BETWEEN_NODES,
        refused=REFUSED,
        allowed=ErrorCode.PRINCIPAL_DESERIALIZATION_FAILURE,
    ),
    Sample(
        ApiKey.BROKER_REGISTRATION,
        lambda world: BrokerRegistrationRequest(
            broker_id=NOT_REGISTERED, cluster_id=ELSEWHERE, incarnation_id=bytes(15) + b"i"
        ),
        grants=BETWEEN_NODES,
        refused=REFUSED,
        allowed=ErrorCode.INCONSISTENT_CLUSTER_ID,
    ),
    Sample(
        ApiKey.BROKER_HEARTBEAT,
        lambda world: BrokerHeartbeatRequest(broker_id=NOT_REGISTERED),
        grants=BETWEEN_NODES,
        refused=REFUSED,
        allowed=ErrorCode.STALE_BROKER_EPOCH,
    ),
    Sample(
        ApiKey.CONTROLLER_REGISTRATION,
        lambda world: ControllerRegistrationRequest(
            controller_id=NOT_REGISTERED, incarnation_id=bytes(15) + b"i"
        ),
        grants=BETWEEN_NODES,
        refused=REFUSED,
        compared=False,  # it stays registered
    ),
    Sample(
        ApiKey.ALTER_PARTITION,
        lambda world: AlterPartitionRequest(
            broker_id=NOT_REGISTERED,
            topics=[
                RequestTopicData(
                    topic_id=world.topic_id(EXISTING),
                    partitions=[RequestPartitionData(partition_index=0)],
                )
            ],
        ),
        grants=BETWEEN_NODES,
        refused=REFUSED,
        allowed=ErrorCode.STALE_BROKER_EPOCH,
    ),
    Sample(
        ApiKey.ALLOCATE_PRODUCER_IDS,
        lambda world: AllocateProducerIdsRequest(broker_id=NOT_REGISTERED),
        grants=BETWEEN_NODES,
        refused=REFUSED,
        allowed=ErrorCode.STALE_BROKER_EPOCH,
    ),
    Sample(
        ApiKey.ASSIGN_REPLICAS_TO_DIRS,
        lambda world: AssignReplicasToDirsRequest(broker_id=NOT_REGISTERED),
        grants=BETWEEN_NODES,
        refused=REFUSED,
        allowed=ErrorCode.STALE_BROKER_EPOCH,
    ),
    # About nodes
    Sample(
        ApiKey.UNREGISTER_BROKER,
        lambda world: UnregisterBrokerRequest(broker_id=NOT_REGISTERED),
        grants=(on_cluster(ALTER),),
        refused=REFUSED,
        allowed=ErrorCode.BROKER_ID_NOT_REGISTERED,
    ),
    Sample(
        ApiKey.UPDATE_FEATURES,
        lambda world: UpdateFeaturesRequest(
            feature_updates=[FeatureUpdateKey(feature="no.such.feature", max_version_level=1)],
            validate_only=True,
        ),
        grants=(on_cluster(ALTER),),
        refused=REFUSED,
        allowed=ErrorCode.INVALID_UPDATE_VERSION,
    ),
    Sample(
        ApiKey.DESCRIBE_QUORUM,
        lambda world: DescribeQuorumRequest(
            topics=[
                QuorumTopic(
                    topic_name=CLUSTER_METADATA, partitions=[QuorumPartition(partition_index=0)]
                )
            ]
        ),
        grants=(on_cluster(DESCRIBE),),
        refused=REFUSED,
    ),
    Sample(
        ApiKey.ADD_RAFT_VOTER,
        lambda world: AddRaftVoterRequest(
            cluster_id=ELSEWHERE,
            timeout_ms=1_000,
            voter_id=NOT_REGISTERED,
            voter_directory_id=bytes(15) + b"d",
            listeners=[VoterListener(name="CONTROLLER", host="h", port=1)],
        ),
        grants=(on_cluster(ALTER),),
        refused=REFUSED,
        allowed=ErrorCode.INCONSISTENT_CLUSTER_ID,
    ),
    Sample(
        ApiKey.REMOVE_RAFT_VOTER,
        lambda world: RemoveRaftVoterRequest(
            cluster_id=ELSEWHERE,
            voter_id=NOT_REGISTERED,
            voter_directory_id=bytes(15) + b"d",
        ),
        grants=(on_cluster(ALTER),),
        refused=REFUSED,
        allowed=ErrorCode.INCONSISTENT_CLUSTER_ID,
    ),
]
