"""The table of served APIs. Each has a handler module, which promises a `Handler` named HANDLER.

Everything that the server does with an API besides decoding and encoding follows from its entry:
where it is served, how it is refused, and how a broker passes it on to the active controller.
"""

from __future__ import annotations

import importlib
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from ottla.broker.membership.controller_link import LANE
from ottla.protocol.apis import ApiKey, api

if TYPE_CHECKING:
    from ottla.broker.server.context import BrokerContext, ControllerContext
    from ottla.protocol.errors import KafkaError

# The request is of the class that the API declares; a function for all APIs cannot say which.
ServeOnBroker: TypeAlias = Callable[["BrokerContext", Any], Any]
"""(context, request) -> the response, an awaitable of it, or a `Pending` that is answered later."""
ServeOnController: TypeAlias = Callable[["ControllerContext", Any], Any]
Refuse: TypeAlias = Callable[[Any, "KafkaError"], Any]
"""(request, error) -> the response that reports the error for each element of the request."""
IsExempt: TypeAlias = Callable[["BrokerContext", Any], bool]
"""(context, request) -> True if no quota counts for this request."""
Settle: TypeAlias = Callable[["BrokerContext", Any, Any], Awaitable[None]]
"""(context, request, response): waits until this broker sees what the controller has changed."""
AnswerAlone: TypeAlias = Callable[["BrokerContext", "KafkaError"], Any]
"""(context, error) -> the response of a broker that finds no active controller."""


class CannotTell(Exception):
    """A request failed whose client expects no answer: closing the connection tells it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Forward:
    """How a broker passes a request on to the active controller."""

    lane: str = LANE
    """The queue to the controller; one of its own if answers may take long."""
    settle: Settle | None = None
    answer_alone: AnswerAlone | None = None
    controller_wait_ms_max: int | None = None
    """How long to wait for a controller before `answer_alone`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Handler:
    """Give a function for each kind of listener on which Kafka serves the API.

    The rights that the API asks for are in `API_RIGHTS` (`api_rights.py`). The quotas of its client
    are charged where it is served (`connections/meter.py`): every request on a broker by the time
    that it takes, a produce also by its bytes. A fetch charges its own answer, and changes of
    topics charge the controller's quota, since only they know what it comes to.
    """

    on_broker: ServeOnBroker | Forward | None = None
    """`Forward` if only the active controller can serve the API."""
    on_controller: ServeOnController | None = None
    is_exempt: IsExempt | None = None
    """True for requests of other nodes, which are charged to nobody."""
    refuse: Refuse | None = None
    """Given if the response has no field for an error of the whole request. Large requests,
    forwarding and envelopes use it. Other errors of such a request close the connection."""


SERVED: Final[dict[ApiKey, str]] = {
    ApiKey.PRODUCE: "produce",
    ApiKey.FETCH: "fetch",
    ApiKey.LIST_OFFSETS: "list_offsets",
    ApiKey.METADATA: "metadata",
    ApiKey.OFFSET_COMMIT: "offset_commit",
    ApiKey.OFFSET_FETCH: "offset_fetch",
    ApiKey.FIND_COORDINATOR: "find_coordinator",
    ApiKey.JOIN_GROUP: "join_group",
    ApiKey.HEARTBEAT: "heartbeat",
    ApiKey.LEAVE_GROUP: "leave_group",
    ApiKey.SYNC_GROUP: "sync_group",
    ApiKey.DESCRIBE_GROUPS: "describe_groups",
    ApiKey.LIST_GROUPS: "list_groups",
    ApiKey.SASL_HANDSHAKE: "sasl_handshake",
    ApiKey.API_VERSIONS: "api_versions",
    ApiKey.CREATE_TOPICS: "create_topics",
    ApiKey.DELETE_TOPICS: "delete_topics",
    ApiKey.DELETE_RECORDS: "delete_records",
    ApiKey.INIT_PRODUCER_ID: "init_producer_id",
    ApiKey.ADD_PARTITIONS_TO_TXN: "add_partitions_to_txn",
    ApiKey.ADD_OFFSETS_TO_TXN: "add_offsets_to_txn",
    ApiKey.END_TXN: "end_txn",
    ApiKey.WRITE_TXN_MARKERS: "write_txn_markers",
    ApiKey.TXN_OFFSET_COMMIT: "txn_offset_commit",
    ApiKey.OFFSET_FOR_LEADER_EPOCH: "offset_for_leader_epoch",
    ApiKey.DESCRIBE_ACLS: "describe_acls",
    ApiKey.CREATE_ACLS: "create_acls",
    ApiKey.DELETE_ACLS: "delete_acls",
    ApiKey.DESCRIBE_CONFIGS: "describe_configs",
    ApiKey.ALTER_CONFIGS: "alter_configs",
    ApiKey.ALTER_REPLICA_LOG_DIRS: "alter_replica_log_dirs",
    ApiKey.DESCRIBE_LOG_DIRS: "describe_log_dirs",
    ApiKey.SASL_AUTHENTICATE: "sasl_authenticate",
    ApiKey.CREATE_PARTITIONS: "create_partitions",
    ApiKey.CREATE_DELEGATION_TOKEN: "create_delegation_token",
    ApiKey.RENEW_DELEGATION_TOKEN: "renew_delegation_token",
    ApiKey.EXPIRE_DELEGATION_TOKEN: "expire_delegation_token",
    ApiKey.DESCRIBE_DELEGATION_TOKEN: "describe_delegation_token",
    ApiKey.DELETE_GROUPS: "delete_groups",
    ApiKey.INCREMENTAL_ALTER_CONFIGS: "incremental_alter_configs",
    ApiKey.OFFSET_DELETE: "offset_delete",
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: "describe_user_scram_credentials",
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: "alter_user_scram_credentials",
    ApiKey.DESCRIBE_CLUSTER: "describe_cluster",
    ApiKey.DESCRIBE_PRODUCERS: "describe_producers",
    ApiKey.DESCRIBE_TRANSACTIONS: "describe_transactions",
    ApiKey.LIST_TRANSACTIONS: "list_transactions",
    ApiKey.CONSUMER_GROUP_HEARTBEAT: "consumer_group_heartbeat",
    ApiKey.CONSUMER_GROUP_DESCRIBE: "consumer_group_describe",
    ApiKey.LIST_CONFIG_RESOURCES: "list_config_resources",
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: "describe_topic_partitions",
    ApiKey.ELECT_LEADERS: "elect_leaders",
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: "alter_partition_reassignments",
    ApiKey.LIST_PARTITION_REASSIGNMENTS: "list_partition_reassignments",
    ApiKey.ALTER_PARTITION: "alter_partition",
    ApiKey.DESCRIBE_CLIENT_QUOTAS: "describe_client_quotas",
    ApiKey.ALTER_CLIENT_QUOTAS: "alter_client_quotas",
    ApiKey.UPDATE_FEATURES: "update_features",
    ApiKey.ENVELOPE: "envelope",
    ApiKey.BROKER_REGISTRATION: "broker_registration",
    ApiKey.BROKER_HEARTBEAT: "broker_heartbeat",
    ApiKey.UNREGISTER_BROKER: "unregister_broker",
    ApiKey.ALLOCATE_PRODUCER_IDS: "allocate_producer_ids",
    ApiKey.CONTROLLER_REGISTRATION: "controller_registration",
    ApiKey.ASSIGN_REPLICAS_TO_DIRS: "assign_replicas_to_dirs",
    ApiKey.VOTE: "vote",
    ApiKey.BEGIN_QUORUM_EPOCH: "begin_quorum_epoch",
    ApiKey.END_QUORUM_EPOCH: "end_quorum_epoch",
    ApiKey.DESCRIBE_QUORUM: "describe_quorum",
    ApiKey.FETCH_SNAPSHOT: "fetch_snapshot",
    ApiKey.ADD_RAFT_VOTER: "add_raft_voter",
    ApiKey.REMOVE_RAFT_VOTER: "remove_raft_voter",
    ApiKey.UPDATE_RAFT_VOTER: "update_raft_voter",
}
"""Served API -> its module in `server/handlers`, imported at the first request. Each kind of
listener serves the APIs that Kafka serves there, and ApiVersions reports exactly those."""

BROKERS: Final = "broker"
CONTROLLERS: Final = "controller"


@cache
def served_on(kind: str) -> frozenset[ApiKey]:
    """Return the APIs of a kind of listener."""
    return frozenset(key for key in SERVED if kind in api(key).listeners)


def handler_of(key: ApiKey) -> Handler:
    module = importlib.import_module(f"ottla.broker.server.handlers.{SERVED[key]}")
    handler: Handler = module.HANDLER
    return handler
