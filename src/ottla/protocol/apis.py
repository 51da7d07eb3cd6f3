"""The list of APIs: key, name, versions, and where their messages are declared."""

from __future__ import annotations

from enum import IntEnum
from importlib import import_module
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from ottla.protocol.schema import Message


class ApiKey(IntEnum):
    """Every API that has a valid version in Kafka 4.3; keys 4 to 7 were removed with ZooKeeper."""

    PRODUCE = 0
    FETCH = 1
    LIST_OFFSETS = 2
    METADATA = 3
    OFFSET_COMMIT = 8
    OFFSET_FETCH = 9
    FIND_COORDINATOR = 10
    JOIN_GROUP = 11
    HEARTBEAT = 12
    LEAVE_GROUP = 13
    SYNC_GROUP = 14
    DESCRIBE_GROUPS = 15
    LIST_GROUPS = 16
    SASL_HANDSHAKE = 17
    API_VERSIONS = 18
    CREATE_TOPICS = 19
    DELETE_TOPICS = 20
    DELETE_RECORDS = 21
    INIT_PRODUCER_ID = 22
    OFFSET_FOR_LEADER_EPOCH = 23
    ADD_PARTITIONS_TO_TXN = 24
    ADD_OFFSETS_TO_TXN = 25
    END_TXN = 26
    WRITE_TXN_MARKERS = 27
    TXN_OFFSET_COMMIT = 28
    DESCRIBE_ACLS = 29
    CREATE_ACLS = 30
    DELETE_ACLS = 31
    DESCRIBE_CONFIGS = 32
    ALTER_CONFIGS = 33
    ALTER_REPLICA_LOG_DIRS = 34
    DESCRIBE_LOG_DIRS = 35
    SASL_AUTHENTICATE = 36
    CREATE_PARTITIONS = 37
    CREATE_DELEGATION_TOKEN = 38
    RENEW_DELEGATION_TOKEN = 39
    EXPIRE_DELEGATION_TOKEN = 40
    DESCRIBE_DELEGATION_TOKEN = 41
    DELETE_GROUPS = 42
    ELECT_LEADERS = 43
    INCREMENTAL_ALTER_CONFIGS = 44
    ALTER_PARTITION_REASSIGNMENTS = 45
    LIST_PARTITION_REASSIGNMENTS = 46
    OFFSET_DELETE = 47
    DESCRIBE_CLIENT_QUOTAS = 48
    ALTER_CLIENT_QUOTAS = 49
    DESCRIBE_USER_SCRAM_CREDENTIALS = 50
    ALTER_USER_SCRAM_CREDENTIALS = 51
    VOTE = 52
    BEGIN_QUORUM_EPOCH = 53
    END_QUORUM_EPOCH = 54
    DESCRIBE_QUORUM = 55
    ALTER_PARTITION = 56
    UPDATE_FEATURES = 57
    ENVELOPE = 58
    FETCH_SNAPSHOT = 59
    DESCRIBE_CLUSTER = 60
    DESCRIBE_PRODUCERS = 61
    BROKER_REGISTRATION = 62
    BROKER_HEARTBEAT = 63
    UNREGISTER_BROKER = 64
    DESCRIBE_TRANSACTIONS = 65
    LIST_TRANSACTIONS = 66
    ALLOCATE_PRODUCER_IDS = 67
    CONSUMER_GROUP_HEARTBEAT = 68
    CONSUMER_GROUP_DESCRIBE = 69
    CONTROLLER_REGISTRATION = 70
    GET_TELEMETRY_SUBSCRIPTIONS = 71
    PUSH_TELEMETRY = 72
    ASSIGN_REPLICAS_TO_DIRS = 73
    LIST_CONFIG_RESOURCES = 74
    DESCRIBE_TOPIC_PARTITIONS = 75
    SHARE_GROUP_HEARTBEAT = 76
    SHARE_GROUP_DESCRIBE = 77
    SHARE_FETCH = 78
    SHARE_ACKNOWLEDGE = 79
    ADD_RAFT_VOTER = 80
    REMOVE_RAFT_VOTER = 81
    UPDATE_RAFT_VOTER = 82
    INITIALIZE_SHARE_GROUP_STATE = 83
    READ_SHARE_GROUP_STATE = 84
    WRITE_SHARE_GROUP_STATE = 85
    DELETE_SHARE_GROUP_STATE = 86
    READ_SHARE_GROUP_STATE_SUMMARY = 87
    STREAMS_GROUP_HEARTBEAT = 88
    STREAMS_GROUP_DESCRIBE = 89
    DESCRIBE_SHARE_GROUP_OFFSETS = 90
    ALTER_SHARE_GROUP_OFFSETS = 91
    DELETE_SHARE_GROUP_OFFSETS = 92


# The nodes that serve the API: brokers, controllers, or both.
BROKER = frozenset({"broker"})
CONTROLLER = frozenset({"controller"})
BOTH = BROKER | CONTROLLER


class Api(NamedTuple):
    """An API. `versions` are its first and last version; `flexible_from` is the first flexible one.

    With `latest_unstable` the last version is still being designed: it is offered only if unstable
    versions are enabled.
    """

    key: ApiKey
    name: str
    versions: tuple[int, int]
    flexible_from: int | None
    listeners: frozenset[str]
    latest_unstable: bool = False

    @property
    def module_name(self) -> str:
        """The API's name in snake case, which is also that of its module in `messages`."""
        return self.key.name.lower()

    @property
    def latest_stable(self) -> int:
        return self.versions[1] - self.latest_unstable

    def is_flexible(self, version: int) -> bool:
        return self.flexible_from is not None and version >= self.flexible_from

    def request_class(self) -> type[Message]:
        return self._message_class("Request")

    def response_class(self) -> type[Message]:
        return self._message_class("Response")

    def _message_class(self, direction: str) -> type[Message]:
        module = import_module(f"ottla.protocol.messages.{self.module_name}")
        message_class: type[Message] = getattr(module, self.name + direction)
        return message_class


_ALL = (
    Api(ApiKey.PRODUCE, "Produce", (3, 13), 9, BROKER),
    Api(ApiKey.FETCH, "Fetch", (4, 18), 12, BOTH),
    Api(ApiKey.LIST_OFFSETS, "ListOffsets", (1, 11), 6, BROKER),
    Api(ApiKey.METADATA, "Metadata", (0, 13), 9, BROKER),
    Api(ApiKey.OFFSET_COMMIT, "OffsetCommit", (2, 10), 8, BROKER),
    Api(ApiKey.OFFSET_FETCH, "OffsetFetch", (1, 10), 6, BROKER),
    Api(ApiKey.FIND_COORDINATOR, "FindCoordinator", (0, 6), 3, BROKER),
    Api(ApiKey.JOIN_GROUP, "JoinGroup", (0, 9), 6, BROKER),
    Api(ApiKey.HEARTBEAT, "Heartbeat", (0, 4), 4, BROKER),
    Api(ApiKey.LEAVE_GROUP, "LeaveGroup", (0, 5), 4, BROKER),
    Api(ApiKey.SYNC_GROUP, "SyncGroup", (0, 5), 4, BROKER),
    Api(ApiKey.DESCRIBE_GROUPS, "DescribeGroups", (0, 6), 5, BROKER),
    Api(ApiKey.LIST_GROUPS, "ListGroups", (0, 5), 3, BROKER),
    Api(ApiKey.SASL_HANDSHAKE, "SaslHandshake", (0, 1), None, BOTH),
    Api(ApiKey.API_VERSIONS, "ApiVersions", (0, 4), 3, BOTH),
    Api(ApiKey.CREATE_TOPICS, "CreateTopics", (2, 7), 5, BOTH),
    Api(ApiKey.DELETE_TOPICS, "DeleteTopics", (1, 6), 4, BOTH),
    Api(ApiKey.DELETE_RECORDS, "DeleteRecords", (0, 2), 2, BROKER),
    Api(ApiKey.INIT_PRODUCER_ID, "InitProducerId", (0, 6), 2, BROKER, True),
    Api(ApiKey.OFFSET_FOR_LEADER_EPOCH, "OffsetForLeaderEpoch", (2, 4), 4, BROKER),
    Api(ApiKey.ADD_PARTITIONS_TO_TXN, "AddPartitionsToTxn", (0, 5), 3, BROKER),
    Api(ApiKey.ADD_OFFSETS_TO_TXN, "AddOffsetsToTxn", (0, 4), 3, BROKER),
    Api(ApiKey.END_TXN, "EndTxn", (0, 5), 3, BROKER),
    Api(ApiKey.WRITE_TXN_MARKERS, "WriteTxnMarkers", (1, 2), 1, BROKER),
    Api(ApiKey.TXN_OFFSET_COMMIT, "TxnOffsetCommit", (0, 5), 3, BROKER),
    Api(ApiKey.DESCRIBE_ACLS, "DescribeAcls", (1, 3), 2, BOTH),
    Api(ApiKey.CREATE_ACLS, "CreateAcls", (1, 3), 2, BOTH),
    Api(ApiKey.DELETE_ACLS, "DeleteAcls", (1, 3), 2, BOTH),
    Api(ApiKey.DESCRIBE_CONFIGS, "DescribeConfigs", (1, 4), 4, BOTH),
    Api(ApiKey.ALTER_CONFIGS, "AlterConfigs", (0, 2), 2, BOTH),
    Api(ApiKey.ALTER_REPLICA_LOG_DIRS, "AlterReplicaLogDirs", (1, 2), 2, BROKER),
    Api(ApiKey.DESCRIBE_LOG_DIRS, "DescribeLogDirs", (1, 5), 2, BROKER),
    Api(ApiKey.SASL_AUTHENTICATE, "SaslAuthenticate", (0, 2), 2, BOTH),
    Api(ApiKey.CREATE_PARTITIONS, "CreatePartitions", (0, 3), 2, BOTH),
    Api(ApiKey.CREATE_DELEGATION_TOKEN, "CreateDelegationToken", (1, 3), 2, BOTH),
    Api(ApiKey.RENEW_DELEGATION_TOKEN, "RenewDelegationToken", (1, 2), 2, BOTH),
    Api(ApiKey.EXPIRE_DELEGATION_TOKEN, "ExpireDelegationToken", (1, 2), 2, BOTH),
    Api(ApiKey.DESCRIBE_DELEGATION_TOKEN, "DescribeDelegationToken", (1, 3), 2, BOTH),
    Api(ApiKey.DELETE_GROUPS, "DeleteGroups", (0, 2), 2, BROKER),
    Api(ApiKey.ELECT_LEADERS, "ElectLeaders", (0, 2), 2, BOTH),
    Api(ApiKey.INCREMENTAL_ALTER_CONFIGS, "IncrementalAlterConfigs", (0, 1), 1, BOTH),
    Api(ApiKey.ALTER_PARTITION_REASSIGNMENTS, "AlterPartitionReassignments", (0, 1), 0, BOTH),
    Api(ApiKey.LIST_PARTITION_REASSIGNMENTS, "ListPartitionReassignments", (0, 0), 0, BOTH),
    Api(ApiKey.OFFSET_DELETE, "OffsetDelete", (0, 0), None, BROKER),
    Api(ApiKey.DESCRIBE_CLIENT_QUOTAS, "DescribeClientQuotas", (0, 1), 1, BROKER),
    Api(ApiKey.ALTER_CLIENT_QUOTAS, "AlterClientQuotas", (0, 1), 1, BOTH),
    Api(ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, "DescribeUserScramCredentials", (0, 0), 0, BOTH),
    Api(ApiKey.ALTER_USER_SCRAM_CREDENTIALS, "AlterUserScramCredentials", (0, 0), 0, BOTH),
    Api(ApiKey.VOTE, "Vote", (0, 2), 0, CONTROLLER),
    Api(ApiKey.BEGIN_QUORUM_EPOCH, "BeginQuorumEpoch", (0, 1), 1, CONTROLLER),
    Api(ApiKey.END_QUORUM_EPOCH, "EndQuorumEpoch", (0, 1), 1, CONTROLLER),
    Api(ApiKey.DESCRIBE_QUORUM, "DescribeQuorum", (0, 2), 0, BOTH),
    Api(ApiKey.ALTER_PARTITION, "AlterPartition", (2, 3), 0, CONTROLLER),
    Api(ApiKey.UPDATE_FEATURES, "UpdateFeatures", (0, 2), 0, BOTH),
    Api(ApiKey.ENVELOPE, "Envelope", (0, 0), 0, CONTROLLER),
    Api(ApiKey.FETCH_SNAPSHOT, "FetchSnapshot", (0, 1), 0, CONTROLLER),
    Api(ApiKey.DESCRIBE_CLUSTER, "DescribeCluster", (0, 2), 0, BOTH),
    Api(ApiKey.DESCRIBE_PRODUCERS, "DescribeProducers", (0, 0), 0, BROKER),
    Api(ApiKey.BROKER_REGISTRATION, "BrokerRegistration", (0, 4), 0, CONTROLLER),
    Api(ApiKey.BROKER_HEARTBEAT, "BrokerHeartbeat", (0, 2), 0, CONTROLLER),
    Api(ApiKey.UNREGISTER_BROKER, "UnregisterBroker", (0, 0), 0, BOTH),
    Api(ApiKey.DESCRIBE_TRANSACTIONS, "DescribeTransactions", (0, 0), 0, BROKER),
    Api(ApiKey.LIST_TRANSACTIONS, "ListTransactions", (0, 2), 0, BROKER),
    Api(ApiKey.ALLOCATE_PRODUCER_IDS, "AllocateProducerIds", (0, 0), 0, CONTROLLER),
    Api(ApiKey.CONSUMER_GROUP_HEARTBEAT, "ConsumerGroupHeartbeat", (0, 1), 0, BROKER),
    Api(ApiKey.CONSUMER_GROUP_DESCRIBE, "ConsumerGroupDescribe", (0, 1), 0, BROKER),
    Api(ApiKey.CONTROLLER_REGISTRATION, "ControllerRegistration", (0, 0), 0, CONTROLLER),
    Api(ApiKey.GET_TELEMETRY_SUBSCRIPTIONS, "GetTelemetrySubscriptions", (0, 0), 0, BROKER),
    Api(ApiKey.PUSH_TELEMETRY, "PushTelemetry", (0, 0), 0, BROKER),
    Api(ApiKey.ASSIGN_REPLICAS_TO_DIRS, "AssignReplicasToDirs", (0, 0), 0, CONTROLLER),
    Api(ApiKey.LIST_CONFIG_RESOURCES, "ListConfigResources", (0, 1), 0, BROKER),
    Api(ApiKey.DESCRIBE_TOPIC_PARTITIONS, "DescribeTopicPartitions", (0, 0), 0, BROKER),
    Api(ApiKey.SHARE_GROUP_HEARTBEAT, "ShareGroupHeartbeat", (1, 1), 0, BROKER),
    Api(ApiKey.SHARE_GROUP_DESCRIBE, "ShareGroupDescribe", (1, 1), 0, BROKER),
    Api(ApiKey.SHARE_FETCH, "ShareFetch", (1, 2), 0, BROKER),
    Api(ApiKey.SHARE_ACKNOWLEDGE, "ShareAcknowledge", (1, 2), 0, BROKER),
    Api(ApiKey.ADD_RAFT_VOTER, "AddRaftVoter", (0, 1), 0, BOTH),
    Api(ApiKey.REMOVE_RAFT_VOTER, "RemoveRaftVoter", (0, 0), 0, BOTH),
    Api(ApiKey.UPDATE_RAFT_VOTER, "UpdateRaftVoter", (0, 0), 0, CONTROLLER),
    Api(ApiKey.INITIALIZE_SHARE_GROUP_STATE, "InitializeShareGroupState", (0, 0), 0, BROKER),
    Api(ApiKey.READ_SHARE_GROUP_STATE, "ReadShareGroupState", (0, 0), 0, BROKER),
    Api(ApiKey.WRITE_SHARE_GROUP_STATE, "WriteShareGroupState", (0, 1), 0, BROKER),
    Api(ApiKey.DELETE_SHARE_GROUP_STATE, "DeleteShareGroupState", (0, 0), 0, BROKER),
    Api(ApiKey.READ_SHARE_GROUP_STATE_SUMMARY, "ReadShareGroupStateSummary", (0, 1), 0, BROKER),
    Api(ApiKey.STREAMS_GROUP_HEARTBEAT, "StreamsGroupHeartbeat", (0, 0), 0, BROKER),
    Api(ApiKey.STREAMS_GROUP_DESCRIBE, "StreamsGroupDescribe", (0, 0), 0, BROKER),
    Api(ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS, "DescribeShareGroupOffsets", (0, 1), 0, BROKER),
    Api(ApiKey.ALTER_SHARE_GROUP_OFFSETS, "AlterShareGroupOffsets", (0, 0), 0, BROKER),
    Api(ApiKey.DELETE_SHARE_GROUP_OFFSETS, "DeleteShareGroupOffsets", (0, 0), 0, BROKER),
)

FORWARDABLE: frozenset[int] = frozenset(
    {
        *(ApiKey.CREATE_TOPICS, ApiKey.DELETE_TOPICS, ApiKey.CREATE_PARTITIONS),
        *(ApiKey.ALTER_CONFIGS, ApiKey.INCREMENTAL_ALTER_CONFIGS, ApiKey.ALTER_CLIENT_QUOTAS),
        *(ApiKey.CREATE_ACLS, ApiKey.DELETE_ACLS, ApiKey.ALTER_USER_SCRAM_CREDENTIALS),
        *(ApiKey.CREATE_DELEGATION_TOKEN, ApiKey.RENEW_DELEGATION_TOKEN),
        *(ApiKey.EXPIRE_DELEGATION_TOKEN, ApiKey.ELECT_LEADERS),
        *(ApiKey.ALTER_PARTITION_REASSIGNMENTS, ApiKey.LIST_PARTITION_REASSIGNMENTS),
        *(ApiKey.DESCRIBE_QUORUM, ApiKey.ADD_RAFT_VOTER, ApiKey.REMOVE_RAFT_VOTER),
        *(ApiKey.UPDATE_FEATURES, ApiKey.UNREGISTER_BROKER, ApiKey.ALLOCATE_PRODUCER_IDS),
    }
)
"""The APIs whose requests brokers may forward to the active controller (Envelope)."""

APIS: dict[int, Api] = {entry.key: entry for entry in _ALL}


def api(key: int) -> Api:
    """Return the API with this key; raises `KeyError` if there is none."""
    return APIS[key]
