"""Every public call of the clients that asks a cluster something, for a cluster that is mute."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple

from ottla import (
    Acl,
    AclFilter,
    AclOperation,
    AclResourceType,
    Admin,
    ConfigResource,
    Consumer,
    GroupMetadata,
    OffsetSpec,
    PreparedTransaction,
    Producer,
    QuotaEntity,
    ReplicaOf,
    ResourceType,
    ScramDeletion,
    ScramMechanism,
    TopicPartition,
)

TOPIC = "silence"
DIRECTORY = "kXSyEMBiQkKj0yEAzPXpRg"
PLACE = TopicPartition(TOPIC, 0)
CONFIG = ConfigResource(ResourceType.TOPIC, TOPIC)
PREPARED = PreparedTransaction("nobody", 1, 1)
RULE = Acl(AclResourceType.TOPIC, TOPIC, "User:alice", AclOperation.READ)
DELETION = ScramDeletion("alice", ScramMechanism.SCRAM_SHA_512)

AdminCall = Callable[[Admin], Awaitable[Any]]

ADMIN_CALLS: dict[str, AdminCall] = {
    "abort_prepared": lambda admin: admin.abort_prepared(PREPARED),
    "abort_transaction": lambda admin: admin.abort_transaction(PLACE, 1, 1),
    "add_raft_voter": lambda admin: admin.add_raft_voter(77, DIRECTORY, {}),
    "alter_client_quotas": lambda admin: admin.alter_client_quotas(
        {QuotaEntity(client_id="x"): {"producer_byte_rate": 1.0}}
    ),
    "alter_config": lambda admin: admin.alter_config(CONFIG, {"retention.ms": "1"}),
    "alter_configs": lambda admin: admin.alter_configs({CONFIG: {"retention.ms": "1"}}),
    "alter_group_offsets": lambda admin: admin.alter_group_offsets("group", {PLACE: 1}),
    "alter_partition_reassignments": lambda admin: admin.alter_partition_reassignments(
        {PLACE: [1]}
    ),
    "alter_replica_log_dirs": lambda admin: admin.alter_replica_log_dirs(
        {ReplicaOf(TOPIC, 0, 1): "/nowhere"}
    ),
    "alter_user_scram_credentials": lambda admin: admin.alter_user_scram_credentials([DELETION]),
    "commit_prepared": lambda admin: admin.commit_prepared(PREPARED),
    "create_acls": lambda admin: admin.create_acls([RULE]),
    "create_delegation_token": lambda admin: admin.create_delegation_token(),
    "create_partitions": lambda admin: admin.create_partitions(TOPIC, 2),
    "create_topic": lambda admin: admin.create_topic("another"),
    "create_topics": lambda admin: admin.create_topics(["another"]),
    "delete_acls": lambda admin: admin.delete_acls([AclFilter()]),
    "delete_group": lambda admin: admin.delete_group("group"),
    "delete_group_offsets": lambda admin: admin.delete_group_offsets("group", [PLACE]),
    "delete_groups": lambda admin: admin.delete_groups(["group"]),
    "delete_records": lambda admin: admin.delete_records({PLACE: 1}),
    "delete_topic": lambda admin: admin.delete_topic(TOPIC),
    "delete_topics": lambda admin: admin.delete_topics([TOPIC]),
    "describe_acls": lambda admin: admin.describe_acls(),
    "describe_apis": lambda admin: admin.describe_apis(77),
    "describe_client_quotas": lambda admin: admin.describe_client_quotas(),
    "describe_cluster": lambda admin: admin.describe_cluster(),
    "describe_config": lambda admin: admin.describe_config(CONFIG),
    "describe_configs": lambda admin: admin.describe_configs([CONFIG]),
    "describe_features": lambda admin: admin.describe_features(77),
    "describe_group": lambda admin: admin.describe_group("group"),
    "describe_groups": lambda admin: admin.describe_groups(["group"]),
    "describe_log_dirs": lambda admin: admin.describe_log_dirs(),
    "describe_replica_log_dirs": lambda admin: admin.describe_replica_log_dirs(
        [ReplicaOf(TOPIC, 0, 1)]
    ),
    "describe_metadata_quorum": lambda admin: admin.describe_metadata_quorum(),
    "describe_producers": lambda admin: admin.describe_producers([PLACE]),
    "describe_topic": lambda admin: admin.describe_topic(TOPIC),
    "describe_topics": lambda admin: admin.describe_topics(),
    "describe_delegation_token": lambda admin: admin.describe_delegation_token(),
    "describe_eligible_leaders": lambda admin: admin.describe_eligible_leaders(),
    "describe_transaction": lambda admin: admin.describe_transaction("nobody"),
    "describe_transactions": lambda admin: admin.describe_transactions(["nobody"]),
    "describe_user_scram_credentials": lambda admin: admin.describe_user_scram_credentials(),
    "elect_leaders": lambda admin: admin.elect_leaders([PLACE]),
    "expire_delegation_token": lambda admin: admin.expire_delegation_token(b"hmac"),
    "fence_producers": lambda admin: admin.fence_producers(["nobody"]),
    "find_hanging_transactions": lambda admin: admin.find_hanging_transactions(),
    "group_lag": lambda admin: admin.group_lag("group"),
    "list_consumer_groups": lambda admin: admin.list_consumer_groups(),
    "list_group_offsets": lambda admin: admin.list_group_offsets("group"),
    "list_groups": lambda admin: admin.list_groups(),
    "list_offsets": lambda admin: admin.list_offsets({PLACE: OffsetSpec.LATEST}),
    "list_partition_reassignments": lambda admin: admin.list_partition_reassignments(),
    "list_topics": lambda admin: admin.list_topics(),
    "list_transactions": lambda admin: admin.list_transactions(),
    "remove_members_from_group": lambda admin: admin.remove_members_from_group("group", ["a"]),
    "remove_raft_voter": lambda admin: admin.remove_raft_voter(77, DIRECTORY),
    "renew_delegation_token": lambda admin: admin.renew_delegation_token(b"hmac"),
    "unregister_broker": lambda admin: admin.unregister_broker(77),
    "update_features": lambda admin: admin.update_features({"group.version": 1}),
}
LOCAL_ADMIN_CALLS = {"start", "close", "group_lags"}
"""Tested apart; and one that takes what another has described."""


class ProducerCall(NamedTuple):
    make: Callable[[Producer], Awaitable[Any]]
    stage: str = "plain"
    """What there is before the silence: a `plain` producer, or one that is `named` by a
    transactional id, has an `open` transaction, or has `prepared` it."""


async def send_to_unknown(producer: Producer) -> Any:
    return await producer.send("not-seen-before", b"x")


async def send_and_flush(producer: Producer) -> None:
    await producer.send(TOPIC, b"x", on_delivery=lambda *_: None)
    await producer.flush()


async def send_rows(producer: Producer) -> Any:
    import pyarrow

    return await (await producer.send_arrow(TOPIC, pyarrow.table({"value": [b"x"]})))


async def send_and_prepare(producer: Producer) -> Any:
    await producer.send(TOPIC, b"y", on_delivery=lambda *_: None)
    return await producer.prepare_transaction()


async def prepare_and_complete(producer: Producer) -> None:
    prepared = await producer.prepare_transaction()  # known already
    await producer.complete_transaction(prepared)


PRODUCER_CALLS: dict[str, ProducerCall] = {
    "send": ProducerCall(send_to_unknown),
    "send_and_wait": ProducerCall(lambda producer: producer.send_and_wait(TOPIC, b"x")),
    "send_arrow": ProducerCall(send_rows),
    "flush": ProducerCall(send_and_flush),
    "partitions_for": ProducerCall(lambda producer: producer.partitions_for("not-seen-before")),
    "init_transactions": ProducerCall(lambda producer: producer.init_transactions(), "named"),
    "send_offsets_to_transaction": ProducerCall(
        lambda producer: producer.send_offsets_to_transaction({PLACE: 1}, GroupMetadata("group")),
        "open",
    ),
    "commit_transaction": ProducerCall(lambda producer: producer.commit_transaction(), "open"),
    "abort_transaction": ProducerCall(lambda producer: producer.abort_transaction(), "open"),
    "complete_transaction": ProducerCall(prepare_and_complete, "prepared"),
    "prepare_transaction": ProducerCall(send_and_prepare, "open"),
}
LOCAL_PRODUCER_CALLS = {"start", "close", "begin_transaction"}


ConsumerCall = Callable[[Consumer], Awaitable[Any]]

CONSUMER_CALLS: dict[str, ConsumerCall] = {
    "beginning_offsets": lambda consumer: consumer.beginning_offsets([PLACE]),
    "end_offsets": lambda consumer: consumer.end_offsets([PLACE]),
    "offsets_for_times": lambda consumer: consumer.offsets_for_times({PLACE: 1}),
    "commit": lambda consumer: consumer.commit({PLACE: 1}),
    "committed": lambda consumer: consumer.committed([PLACE]),
    "position": lambda consumer: consumer.position(PLACE),
    "partitions_for_topic": lambda consumer: consumer.partitions_for_topic("not-seen-before"),
    "topics": lambda consumer: consumer.topics(),
}
TIMED_CONSUMER_CALLS: dict[str, ConsumerCall] = {
    "poll": lambda consumer: consumer.poll(500),
    "fetch_batches": lambda consumer: consumer.fetch_batches(500),
    "fetch_arrow": lambda consumer: consumer.fetch_arrow(500),
}
"""They come back with nothing."""


async def _first(found: Any) -> Any:
    return await anext(found)


PATIENT_CONSUMER_CALLS: dict[str, ConsumerCall] = {
    "getone": lambda consumer: consumer.getone(),
    "batches": lambda consumer: _first(consumer.batches()),
    "arrow_batches": lambda consumer: _first(consumer.arrow_batches()),
    "process": lambda consumer: consumer.process(lambda record: asyncio.sleep(0)),
}
"""They wait for a record as long as it takes, and end by wakeup()."""
LOCAL_CONSUMER_CALLS = {"start", "close", "unsubscribe"}


def awaited_methods(client: type) -> set[str]:
    return {
        name
        for name, method in inspect.getmembers(client)
        if not name.startswith("_")
        and (inspect.iscoroutinefunction(method) or inspect.isasyncgenfunction(method))
    }
