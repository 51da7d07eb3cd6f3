"""Which APIs this node serves, on which kind of listener, and the way from an API and version to
its code.

Clients and brokers come in by broker listeners, controllers and brokers in need of a controller by
controller listeners. What only the active controller can do is forwarded to it by every broker.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from functools import cache
from types import ModuleType
from typing import Any, Final

from ottla.protocol.apis import ApiKey, api
from ottla.protocol.codec import decoder, encoder
from ottla.protocol.errors import ErrorCode, KafkaError, MalformedMessage

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
    ApiKey.DESCRIBE_CONFIGS: "describe_configs",
    ApiKey.ALTER_CONFIGS: "alter_configs",
    ApiKey.ALTER_REPLICA_LOG_DIRS: "alter_replica_log_dirs",
    ApiKey.DESCRIBE_LOG_DIRS: "describe_log_dirs",
    ApiKey.CREATE_PARTITIONS: "create_partitions",
    ApiKey.DELETE_GROUPS: "delete_groups",
    ApiKey.INCREMENTAL_ALTER_CONFIGS: "incremental_alter_configs",
    ApiKey.OFFSET_DELETE: "offset_delete",
    ApiKey.DESCRIBE_CLUSTER: "describe_cluster",
    ApiKey.DESCRIBE_PRODUCERS: "describe_producers",
    ApiKey.DESCRIBE_TRANSACTIONS: "describe_transactions",
    ApiKey.LIST_TRANSACTIONS: "list_transactions",
    ApiKey.CONSUMER_GROUP_HEARTBEAT: "consumer_group_heartbeat",
    ApiKey.CONSUMER_GROUP_DESCRIBE: "consumer_group_describe",
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: "describe_topic_partitions",
    ApiKey.ELECT_LEADERS: "elect_leaders",
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: "alter_partition_reassignments",
    ApiKey.LIST_PARTITION_REASSIGNMENTS: "list_partition_reassignments",
    ApiKey.ALTER_PARTITION: "alter_partition",
    ApiKey.UPDATE_FEATURES: "update_features",
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
"""Served API -> its module in `ottla.server.handlers`. On a listener of brokers or of controllers
are served those that Kafka serves there, and ApiVersions tells just this."""

BROKERS: Final = "broker"
CONTROLLERS: Final = "controller"

ON_CONTROLLERS: Final[dict[ApiKey, str]] = {ApiKey.FETCH: "fetch_metadata"}
"""APIs that have another module on listeners of controllers."""

FORWARDED: Final = frozenset(
    {
        ApiKey.CREATE_TOPICS,
        ApiKey.DELETE_TOPICS,
        ApiKey.CREATE_PARTITIONS,
        ApiKey.ELECT_LEADERS,
        ApiKey.ALTER_PARTITION_REASSIGNMENTS,
        ApiKey.LIST_PARTITION_REASSIGNMENTS,
        ApiKey.UPDATE_FEATURES,
        ApiKey.UNREGISTER_BROKER,
        ApiKey.DESCRIBE_QUORUM,
        ApiKey.ADD_RAFT_VOTER,
        ApiKey.REMOVE_RAFT_VOTER,
    }
)
"""Handled at once by a broker that is the active controller, else by that one. (Changes of configs
are looked at by the broker first: their handlers forward them.)"""


@cache
def served_on(kind: str) -> frozenset[ApiKey]:
    """The APIs of a kind of listener."""
    return frozenset(key for key in SERVED if kind in api(key).listeners)


def handler_module(key: ApiKey, kind: str) -> ModuleType:
    name = ON_CONTROLLERS.get(key) if kind == CONTROLLERS else None
    return importlib.import_module(f"ottla.server.handlers.{name or SERVED[key]}")


def handler(key: ApiKey, kind: str) -> Callable[..., Any]:
    """What serves an API on a kind of listener. A module whose API is not the same thing on a
    controller has a second function for it, `handle_on_controller`."""
    module = handler_module(key, kind)
    handle: Callable[..., Any] = module.handle
    if kind == CONTROLLERS:
        return getattr(module, "handle_on_controller", handle)
    if key in FORWARDED:
        from ottla.server.forwarding import forwarding

        return forwarding(module)
    return handle


class Route:
    """Everything that serving one version of one API needs, looked up once."""

    __slots__ = (
        "decode",
        "encode",
        "handle",
        "name",
        "request_is_flexible",
        "response_class",
        "response_is_flexible",
    )

    def __init__(self, key: ApiKey, version: int, kind: str) -> None:
        declared = api(key)
        self.name: str = declared.name
        self.handle = handler(key, kind)
        self.decode: Callable[..., Any] = decoder(declared.request_class(), version)
        self.response_class: type[Any] = declared.response_class()
        self.encode: Callable[[Any], list[Any]] = encoder(self.response_class, version)
        flexible_from = declared.flexible_from
        self.request_is_flexible = flexible_from is not None and version >= flexible_from
        # The answer to ApiVersions must be readable before anything has been negotiated.
        self.response_is_flexible = self.request_is_flexible and key != ApiKey.API_VERSIONS

    def error_response(self, error: Exception) -> Any:
        """The whole answer as one error; None where the API has no place for it."""
        if "error_code" not in self.response_class.__slots__:
            return None
        code = error.code if isinstance(error, KafkaError) else ErrorCode.UNKNOWN_SERVER_ERROR
        response = self.response_class(error_code=int(code))
        if "error_message" in self.response_class.__slots__ and isinstance(error, KafkaError):
            response.error_message = error.message
        return response


class UnsupportedApiVersions(Route):
    """ApiVersions in a version from the future: answered in the shape of version 0, with error 35
    and the versions there are, so that the client can come back with one of them."""

    __slots__ = ()

    def __init__(self) -> None:
        super().__init__(ApiKey.API_VERSIONS, 0, BROKERS)
        module = importlib.import_module("ottla.server.handlers.api_versions")
        self.decode = lambda frame, position: (None, len(frame))
        self.handle = lambda context, request: module.unsupported_version(context)


class Dispatcher:
    """The routes of one kind of listener."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.routes: dict[int, Route] = {}

    def route(self, key: int, version: int) -> Route:
        """Build the route on first use; `MalformedMessage` if the client may not ask for this."""
        try:
            served = ApiKey(key)
            lowest, highest = api(served).versions if served in served_on(self.kind) else (0, -1)
        except ValueError:
            lowest, highest = 0, -1
        if not lowest <= version <= highest:
            if key == ApiKey.API_VERSIONS:
                return UnsupportedApiVersions()
            raise MalformedMessage(
                f"API {key} version {version} is not served; ApiVersions lists what is"
            )
        route = self.routes[key << 16 | version] = Route(served, version, self.kind)
        return route
