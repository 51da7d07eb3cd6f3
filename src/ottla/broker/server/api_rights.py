"""The rights that each API asks for. The server obeys this table, and the tests compare it with
Apache Kafka's answers.

A right of `before` is checked before the handler runs: without it the request is refused as a
whole. The handler itself checks those of `for_elements`, each for the topics, groups or other
resources that the request names or the answer would show; its code says how they combine.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from ottla.protocol.apis import ApiKey
from ottla.security.rights import Operation as Op
from ottla.security.rights import ResourceType as On
from ottla.security.rights import Right


class ApiRights(NamedTuple):
    before: Right | None = None
    """Always a right on the cluster."""
    for_elements: tuple[Right, ...] = ()


_NONE: Final = ApiRights()
_BETWEEN_NODES: Final = ApiRights(Right(Op.CLUSTER_ACTION, On.CLUSTER))


def _cluster(operation: Op) -> ApiRights:
    return ApiRights(Right(operation, On.CLUSTER))


def _elements(*rights: tuple[Op, On]) -> ApiRights:
    return ApiRights(for_elements=tuple(Right(*right) for right in rights))


API_RIGHTS: Final[dict[ApiKey, ApiRights]] = {
    # Records
    ApiKey.PRODUCE: _elements((Op.WRITE, On.TOPIC), (Op.WRITE, On.TRANSACTIONAL_ID)),
    ApiKey.FETCH: _elements((Op.READ, On.TOPIC), (Op.CLUSTER_ACTION, On.CLUSTER)),
    ApiKey.LIST_OFFSETS: _elements((Op.DESCRIBE, On.TOPIC)),
    ApiKey.OFFSET_FOR_LEADER_EPOCH: _elements(
        (Op.DESCRIBE, On.TOPIC), (Op.CLUSTER_ACTION, On.CLUSTER)
    ),
    ApiKey.DELETE_RECORDS: _elements((Op.DELETE, On.TOPIC)),
    ApiKey.DESCRIBE_PRODUCERS: _elements((Op.READ, On.TOPIC)),
    # The cluster as clients see it
    ApiKey.API_VERSIONS: _NONE,
    ApiKey.METADATA: _elements(
        (Op.DESCRIBE, On.TOPIC),
        (Op.CREATE, On.TOPIC),
        (Op.CREATE, On.CLUSTER),
        (Op.DESCRIBE, On.CLUSTER),
    ),
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: _elements((Op.DESCRIBE, On.TOPIC)),
    ApiKey.DESCRIBE_CLUSTER: _elements(
        (Op.DESCRIBE, On.CLUSTER),
        (Op.ALTER, On.CLUSTER),  # on controllers only
    ),
    ApiKey.FIND_COORDINATOR: _elements(
        (Op.DESCRIBE, On.GROUP),
        (Op.DESCRIBE, On.TRANSACTIONAL_ID),
        (Op.CLUSTER_ACTION, On.CLUSTER),
    ),
    # Groups
    ApiKey.JOIN_GROUP: _elements((Op.READ, On.GROUP)),
    ApiKey.SYNC_GROUP: _elements((Op.READ, On.GROUP)),
    ApiKey.HEARTBEAT: _elements((Op.READ, On.GROUP)),
    ApiKey.LEAVE_GROUP: _elements((Op.READ, On.GROUP)),
    ApiKey.OFFSET_COMMIT: _elements((Op.READ, On.GROUP), (Op.READ, On.TOPIC)),
    ApiKey.OFFSET_FETCH: _elements((Op.DESCRIBE, On.GROUP), (Op.DESCRIBE, On.TOPIC)),
    ApiKey.OFFSET_DELETE: _elements((Op.DELETE, On.GROUP), (Op.READ, On.TOPIC)),
    ApiKey.CONSUMER_GROUP_HEARTBEAT: _elements((Op.READ, On.GROUP), (Op.DESCRIBE, On.TOPIC)),
    ApiKey.CONSUMER_GROUP_DESCRIBE: _elements((Op.DESCRIBE, On.GROUP), (Op.DESCRIBE, On.TOPIC)),
    ApiKey.DESCRIBE_GROUPS: _elements((Op.DESCRIBE, On.GROUP)),
    ApiKey.LIST_GROUPS: _elements((Op.DESCRIBE, On.CLUSTER), (Op.DESCRIBE, On.GROUP)),
    ApiKey.DELETE_GROUPS: _elements((Op.DELETE, On.GROUP)),
    # Transactions
    ApiKey.INIT_PRODUCER_ID: _elements(
        (Op.WRITE, On.TRANSACTIONAL_ID),
        (Op.TWO_PHASE_COMMIT, On.TRANSACTIONAL_ID),
        (Op.IDEMPOTENT_WRITE, On.CLUSTER),
        (Op.WRITE, On.TOPIC),
    ),
    ApiKey.ADD_PARTITIONS_TO_TXN: _elements(
        (Op.WRITE, On.TRANSACTIONAL_ID), (Op.WRITE, On.TOPIC), (Op.CLUSTER_ACTION, On.CLUSTER)
    ),
    ApiKey.ADD_OFFSETS_TO_TXN: _elements((Op.WRITE, On.TRANSACTIONAL_ID), (Op.READ, On.GROUP)),
    ApiKey.TXN_OFFSET_COMMIT: _elements(
        (Op.WRITE, On.TRANSACTIONAL_ID), (Op.READ, On.GROUP), (Op.READ, On.TOPIC)
    ),
    ApiKey.END_TXN: _elements((Op.WRITE, On.TRANSACTIONAL_ID)),
    ApiKey.WRITE_TXN_MARKERS: _elements((Op.ALTER, On.CLUSTER), (Op.CLUSTER_ACTION, On.CLUSTER)),
    ApiKey.DESCRIBE_TRANSACTIONS: _elements(
        (Op.DESCRIBE, On.TRANSACTIONAL_ID), (Op.DESCRIBE, On.TOPIC)
    ),
    ApiKey.LIST_TRANSACTIONS: _elements((Op.DESCRIBE, On.TRANSACTIONAL_ID)),
    # Topics, partitions and configs
    ApiKey.CREATE_TOPICS: _elements(
        (Op.CREATE, On.CLUSTER), (Op.CREATE, On.TOPIC), (Op.DESCRIBE_CONFIGS, On.TOPIC)
    ),
    ApiKey.DELETE_TOPICS: _elements(
        (Op.DELETE, On.CLUSTER), (Op.DESCRIBE, On.TOPIC), (Op.DELETE, On.TOPIC)
    ),
    ApiKey.CREATE_PARTITIONS: _elements((Op.ALTER, On.TOPIC)),
    ApiKey.DESCRIBE_CONFIGS: _elements(
        (Op.DESCRIBE_CONFIGS, On.TOPIC),
        (Op.DESCRIBE_CONFIGS, On.GROUP),
        (Op.DESCRIBE_CONFIGS, On.CLUSTER),
    ),
    ApiKey.ALTER_CONFIGS: _elements(
        (Op.ALTER_CONFIGS, On.TOPIC), (Op.ALTER_CONFIGS, On.GROUP), (Op.ALTER_CONFIGS, On.CLUSTER)
    ),
    ApiKey.INCREMENTAL_ALTER_CONFIGS: _elements(
        (Op.ALTER_CONFIGS, On.TOPIC), (Op.ALTER_CONFIGS, On.GROUP), (Op.ALTER_CONFIGS, On.CLUSTER)
    ),
    ApiKey.LIST_CONFIG_RESOURCES: _cluster(Op.DESCRIBE_CONFIGS),
    # Replicas
    ApiKey.DESCRIBE_LOG_DIRS: _cluster(Op.DESCRIBE),
    ApiKey.ALTER_REPLICA_LOG_DIRS: _cluster(Op.ALTER),
    ApiKey.ELECT_LEADERS: _cluster(Op.ALTER),
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: _cluster(Op.ALTER),
    ApiKey.LIST_PARTITION_REASSIGNMENTS: _cluster(Op.DESCRIBE),
    # Security
    ApiKey.DESCRIBE_ACLS: _cluster(Op.DESCRIBE),
    ApiKey.CREATE_ACLS: _cluster(Op.ALTER),
    ApiKey.DELETE_ACLS: _cluster(Op.ALTER),
    ApiKey.SASL_HANDSHAKE: _NONE,
    ApiKey.SASL_AUTHENTICATE: _NONE,
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: _cluster(Op.DESCRIBE),
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: _cluster(Op.ALTER),
    ApiKey.CREATE_DELEGATION_TOKEN: _elements((Op.CREATE_TOKENS, On.USER)),
    ApiKey.RENEW_DELEGATION_TOKEN: _NONE,  # the owner and the renewers of the token may
    ApiKey.EXPIRE_DELEGATION_TOKEN: _NONE,
    ApiKey.DESCRIBE_DELEGATION_TOKEN: _elements(
        (Op.DESCRIBE, On.DELEGATION_TOKEN), (Op.DESCRIBE_TOKENS, On.USER)
    ),
    ApiKey.DESCRIBE_CLIENT_QUOTAS: _cluster(Op.DESCRIBE_CONFIGS),
    ApiKey.ALTER_CLIENT_QUOTAS: _cluster(Op.ALTER_CONFIGS),
    # Nodes
    ApiKey.UNREGISTER_BROKER: _cluster(Op.ALTER),
    ApiKey.UPDATE_FEATURES: _cluster(Op.ALTER),
    ApiKey.DESCRIBE_QUORUM: _cluster(Op.DESCRIBE),
    ApiKey.ADD_RAFT_VOTER: _cluster(Op.ALTER),
    ApiKey.REMOVE_RAFT_VOTER: _cluster(Op.ALTER),
    # Nodes among themselves
    ApiKey.VOTE: _BETWEEN_NODES,
    ApiKey.BEGIN_QUORUM_EPOCH: _BETWEEN_NODES,
    ApiKey.END_QUORUM_EPOCH: _BETWEEN_NODES,
    ApiKey.FETCH_SNAPSHOT: _BETWEEN_NODES,
    ApiKey.UPDATE_RAFT_VOTER: _BETWEEN_NODES,
    ApiKey.ENVELOPE: _BETWEEN_NODES,
    ApiKey.BROKER_REGISTRATION: _BETWEEN_NODES,
    ApiKey.BROKER_HEARTBEAT: _BETWEEN_NODES,
    ApiKey.CONTROLLER_REGISTRATION: _BETWEEN_NODES,
    ApiKey.ALTER_PARTITION: _BETWEEN_NODES,
    ApiKey.ALLOCATE_PRODUCER_IDS: _BETWEEN_NODES,
    ApiKey.ASSIGN_REPLICAS_TO_DIRS: _BETWEEN_NODES,
}
