"""Samples of requests about groups and the offsets that they commit."""

from __future__ import annotations

from typing import Any

from rights_samples import (
    CLUSTER_ACTION,
    DELETE,
    DESCRIBE,
    EXISTING,
    GROUP,
    READ,
    TOPIC,
    TRANSACTION,
    Grant,
    Sample,
    World,
    on_cluster,
)

from broker_wire import until_served
from ottla.protocol.apis import ApiKey
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from ottla.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from ottla.protocol.messages.delete_groups import DeleteGroupsRequest
from ottla.protocol.messages.describe_groups import DescribeGroupsRequest
from ottla.protocol.messages.find_coordinator import FindCoordinatorRequest
from ottla.protocol.messages.heartbeat import HeartbeatRequest
from ottla.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from ottla.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from ottla.protocol.messages.list_groups import ListGroupsRequest
from ottla.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from ottla.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from ottla.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)
from ottla.protocol.messages.sync_group import SyncGroupRequest

OFFSETS = "group-with-offsets"
MEMBERS = "group-with-a-member"
MEMBER_ID = "3bkeaAcuQFqzT51VwlPVeA"
NOBODY = "nobody"
GROUP_KEY, TRANSACTION_KEY, SHARE_KEY = 0, 1, 2
BY_NAME = 9
"""The last version of OffsetCommit and of OffsetFetch that names topics."""
ONE_GROUP_UPTO = 7
PARTITION_ERRORS_UPTO = 1
TOPIC_REFUSED = ErrorCode.TOPIC_AUTHORIZATION_FAILED
REFUSED = ErrorCode.GROUP_AUTHORIZATION_FAILED


def find_coordinator(world: World, key_type: int, key: str) -> None:
    """Wait until there is one: the first request creates its topic."""
    until_served(
        lambda: world.ask(FindCoordinatorRequest(key_type=key_type, coordinator_keys=[key])),
        lambda answer: int(answer.coordinators[0].error_code),
    )


def _commit(group: str, **topic: Any) -> OffsetCommitRequest:
    offset = OffsetCommitRequestPartition(
        partition_index=0, committed_offset=1, committed_metadata=""
    )
    return OffsetCommitRequest(
        group_id=group, topics=[OffsetCommitRequestTopic(partitions=[offset], **topic)]
    )


def with_offsets(world: World) -> None:
    find_coordinator(world, GROUP_KEY, OFFSETS)
    until_served(
        lambda: world.ask(_commit(OFFSETS, topic_id=world.topic_id(EXISTING))),
        lambda answer: int(answer.topics[0].partitions[0].error_code),
    )


def _heartbeat(group: str, topics: list[str] | None, epoch: int = 0) -> Any:
    return ConsumerGroupHeartbeatRequest(
        group_id=group,
        member_id=MEMBER_ID,
        member_epoch=epoch,
        rebalance_timeout_ms=60_000,
        subscribed_topic_names=topics,
        topic_partitions=[],
    )


def with_a_member(world: World) -> None:
    with_offsets(world)
    joined = world.ask(_heartbeat(MEMBERS, [EXISTING]))
    assert joined.error_code == 0, joined


def _fetch(*topics: OffsetFetchRequestTopics) -> OffsetFetchRequest:
    group = OffsetFetchRequestGroup(group_id=OFFSETS, topics=list(topics) or None)
    return OffsetFetchRequest(groups=[group])


def _fetch_of_one(*topics: str) -> OffsetFetchRequest:
    return OffsetFetchRequest(
        group_id=OFFSETS,
        topics=[OffsetFetchRequestTopic(name=name, partition_indexes=[0]) for name in topics],
    )


def _delete_offsets(group: str) -> OffsetDeleteRequest:
    partition = OffsetDeleteRequestPartition(partition_index=0)
    return OffsetDeleteRequest(
        group_id=group,
        topics=[OffsetDeleteRequestTopic(name=EXISTING, partitions=[partition])],
    )


def _offsets_of_groups(response: Any) -> list[int]:
    return [
        partition.committed_offset
        for group in response.groups
        for topic in group.topics
        for partition in topic.partitions
        if partition.committed_offset >= 0
    ]


def _find(key_type: int, *keys: str) -> FindCoordinatorRequest:
    return FindCoordinatorRequest(key_type=key_type, coordinator_keys=list(keys))


def _group_rights(response: Any) -> list[int]:
    wanted = 1 << DELETE | 1 << DESCRIBE
    return [one for one in response.groups if one.authorized_operations == wanted]


GROUPS: list[Sample] = [
    Sample(
        ApiKey.FIND_COORDINATOR,
        lambda world: _find(GROUP_KEY, OFFSETS),
        grants=(Grant(DESCRIBE, GROUP, OFFSETS),),
        refused=REFUSED,
        prepare=with_offsets,
    ),
    Sample(
        ApiKey.FIND_COORDINATOR,
        lambda world: FindCoordinatorRequest(key_type=GROUP_KEY, key=OFFSETS),
        name="of-one-group",
        version=3,
        grants=(Grant(READ, GROUP, OFFSETS),),
        refused=REFUSED,
        prepare=with_offsets,
    ),
    Sample(
        ApiKey.FIND_COORDINATOR,
        lambda world: _find(TRANSACTION_KEY, "some-id"),
        name="of-a-transaction",
        grants=(Grant(DESCRIBE, TRANSACTION, "some-id"),),
        refused=ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        prepare=lambda world: find_coordinator(world, TRANSACTION_KEY, "another-id"),
    ),
    Sample(
        ApiKey.FIND_COORDINATOR,
        lambda world: _find(SHARE_KEY, "share:3bkeaAcuQFqzT51VwlPVeA:0"),
        name="of-a-share-group",
        grants=(on_cluster(CLUSTER_ACTION),),
        refused=ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
        allowed=ErrorCode.COORDINATOR_NOT_AVAILABLE,
        compared=False,  # Kafka has share groups
    ),
    Sample(
        ApiKey.JOIN_GROUP,
        lambda world: JoinGroupRequest(
            group_id="joined",
            session_timeout_ms=10_000,
            rebalance_timeout_ms=10_000,
            protocol_type="consumer",
            protocols=[JoinGroupRequestProtocol(name="range", metadata=b"")],
        ),
        grants=(Grant(READ, GROUP, "joined"),),
        refused=REFUSED,
        allowed=ErrorCode.MEMBER_ID_REQUIRED,
        prepare=with_offsets,
    ),
    Sample(
        ApiKey.SYNC_GROUP,
        lambda world: SyncGroupRequest(
            group_id=OFFSETS,
            generation_id=1,
            member_id=NOBODY,
            protocol_type="consumer",
            protocol_name="range",
        ),
        grants=(Grant(READ, GROUP, OFFSETS),),
        refused=REFUSED,
        allowed=ErrorCode.UNKNOWN_MEMBER_ID,
        prepare=with_offsets,
    ),
    Sample(
        ApiKey.HEARTBEAT,
        lambda world: HeartbeatRequest(group_id=OFFSETS, generation_id=1, member_id=NOBODY),
        grants=(Grant(READ, GROUP, OFFSETS),),
        refused=REFUSED,
        allowed=ErrorCode.UNKNOWN_MEMBER_ID,
        prepare=with_offsets,
    ),
    Sample(
        ApiKey.LEAVE_GROUP,
        lambda world: LeaveGroupRequest(
            group_id=OFFSETS, members=[MemberIdentity(member_id=NOBODY)]
        ),
        grants=(Grant(READ, GROUP, OFFSETS),),
        refused=REFUSED,
        allowed=ErrorCode.UNKNOWN_MEMBER_ID,
        prepare=with_offsets,
    ),
    Sample(
        ApiKey.OFFSET_COMMIT,
        lambda world: _commit("commits", topic_id=world.topic_id(EXISTING)),
        grants=(Grant(READ, GROUP, "commits"), Grant(READ, TOPIC, EXISTING)),
        refused=REFUSED,
        lacking=(REFUSED, TOPIC_REFUSED),
        prepare=with_offsets,
    ),
    Sample(
        ApiKey.OFFSET_COMMIT,
        lambda world: _commit("commits", name=EXISTING),
        name="by-name",
        version=BY_NAME,
        grants=(Grant(READ, GROUP, "commits"), Grant(READ, TOPIC, EXISTING)),
        refused=REFUSED,
        lacking=(REFUSED, TOPIC_REFUSED),
        prepare=with_offsets,
    ),
    Sample(
        ApiKey.OFFSET_COMMIT,
        lambda world: _commit("commits", name="no-such-topic"),
        name="no-such-topic",
        version=BY_NAME,
        grants=(Grant(READ, GROUP, "commits"), Grant(READ, TOPIC, "no-such-topic")),
        refused=REFUSED,
        allowed=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        lacking=(REFUSED, TOPIC_REFUSED),
        prepare=with_offsets,
    ),
    Sample(
        ApiKey.OFFSET_FETCH,
        lambda world: _fetch(
            OffsetFetchRequestTopics(topic_id=world.topic_id(EXISTING), partition_indexes=[0])
        ),
        grants=(Grant(DESCRIBE, GROUP, OFFSETS), Grant(DESCRIBE, TOPIC, EXISTING)),
        refused=REFUSED,
        lacking=(REFUSED, TOPIC_REFUSED),
        shown=_offsets_of_groups,
        prepare=with_offsets,
    ),
    Sample(
        ApiKey.OFFSET_FETCH,
        lambda world: _fetch(OffsetFetchRequestTopics(name=EXISTING, partition_indexes=[0])),
        name="by-name",
        version=BY_NAME,
        grants=(Grant(READ, GROUP, OFFSETS), Grant(READ, TOPIC, EXISTING)),
        refused=REFUSED,
        lacking=(REFUSED, TOPIC_REFUSED),
        shown=_offsets_of_groups,
        prepare=with_offsets,
    ),
    Sample(
        ApiKey.OFFSET_FETCH,
        lambda world: _fetch(),
        name="of-all-topics",
        grants=(Grant(DESCRIBE, GROUP, OFFSETS), Grant(DESCRIBE, TOPIC, EXISTING)),
        refused=REFUSED,
        lacking=(REFUSED, ErrorCode.NONE),
        shown=_offsets_of_groups,
        prepare=with_offsets,
    ),
    Sample(
        ApiKey.OFFSET_FETCH,
        lambda world: _fetch_of_one(EXISTING),
        name="of-one-group",
        version=ONE_GROUP_UPTO,
        grants=(Grant(DESCRIBE, GROUP, OFFSETS), Grant(DESCRIBE, TOPIC, EXISTING)),
        refused=REFUSED,
        lacking=(REFUSED, TOPIC_REFUSED),
        prepare=with_offsets,
    ),
    Sample(
        ApiKey.OFFSET_FETCH,
        lambda world: _fetch_of_one(EXISTING),
        name="with-errors-of-partitions",
        version=PARTITION_ERRORS_UPTO,
        grants=(Grant(DESCRIBE, GROUP, OFFSETS), Grant(DESCRIBE, TOPIC, EXISTING)),
        refused=REFUSED,
        lacking=(REFUSED, TOPIC_REFUSED),
        prepare=with_offsets,
    ),
    Sample(
        ApiKey.OFFSET_DELETE,
        lambda world: _delete_offsets("deletes-offsets"),
        grants=(Grant(DELETE, GROUP, "deletes-offsets"), Grant(READ, TOPIC, EXISTING)),
        refused=REFUSED,
        lacking=(REFUSED, ErrorCode.GROUP_ID_NOT_FOUND),
        allowed=ErrorCode.GROUP_ID_NOT_FOUND,
        prepare=with_offsets,
    ),
    Sample(
        ApiKey.OFFSET_DELETE,
        lambda world: _delete_offsets(OFFSETS),
        name="of-a-group",
        grants=(Grant(DELETE, GROUP, OFFSETS), Grant(READ, TOPIC, EXISTING)),
        refused=REFUSED,
        lacking=(REFUSED, TOPIC_REFUSED),
        prepare=with_offsets,
    ),
    Sample(
        ApiKey.CONSUMER_GROUP_HEARTBEAT,
        lambda world: _heartbeat("beats", [EXISTING]),
        grants=(Grant(READ, GROUP, "beats"), Grant(DESCRIBE, TOPIC, EXISTING)),
        refused=REFUSED,
        lacking=(REFUSED, TOPIC_REFUSED),
        shown=lambda response: response.member_epoch,
        prepare=with_offsets,
    ),
    Sample(
        ApiKey.CONSUMER_GROUP_HEARTBEAT,
        lambda world: _heartbeat("no-such-group", None, epoch=1),
        name="without-topics",
        grants=(Grant(READ, GROUP, "no-such-group"),),
        refused=REFUSED,
        allowed=ErrorCode.GROUP_ID_NOT_FOUND,
        prepare=with_offsets,
    ),
    Sample(
        ApiKey.CONSUMER_GROUP_DESCRIBE,
        lambda world: ConsumerGroupDescribeRequest(group_ids=[MEMBERS]),
        grants=(Grant(DESCRIBE, GROUP, MEMBERS), Grant(DESCRIBE, TOPIC, EXISTING)),
        refused=REFUSED,
        lacking=(REFUSED, TOPIC_REFUSED),
        shown=lambda response: response.groups[0].members,
        prepare=with_a_member,
    ),
    Sample(
        ApiKey.CONSUMER_GROUP_DESCRIBE,
        lambda world: ConsumerGroupDescribeRequest(
            group_ids=[MEMBERS], include_authorized_operations=True
        ),
        name="with-rights",
        grants=(Grant(DELETE, GROUP, MEMBERS), Grant(READ, TOPIC, EXISTING)),
        refused=REFUSED,
        lacking=(REFUSED, TOPIC_REFUSED),
        shown=_group_rights,
        prepare=with_a_member,
    ),
    Sample(
        ApiKey.DESCRIBE_GROUPS,
        lambda world: DescribeGroupsRequest(groups=[OFFSETS]),
        version=5,
        grants=(Grant(DESCRIBE, GROUP, OFFSETS),),
        refused=REFUSED,
        prepare=with_offsets,
    ),
    Sample(
        ApiKey.DESCRIBE_GROUPS,
        lambda world: DescribeGroupsRequest(groups=[OFFSETS], include_authorized_operations=True),
        name="with-rights",
        grants=(Grant(DELETE, GROUP, OFFSETS),),
        refused=REFUSED,
        shown=_group_rights,
        prepare=with_offsets,
    ),
    Sample(
        ApiKey.LIST_GROUPS,
        lambda world: ListGroupsRequest(),
        grants=(Grant(DESCRIBE, GROUP, OFFSETS),),
        shown=lambda response: [group.group_id for group in response.groups],
        prepare=with_offsets,
    ),
    Sample(
        ApiKey.LIST_GROUPS,
        lambda world: ListGroupsRequest(),
        name="by-cluster",
        grants=(on_cluster(DESCRIBE),),
        shown=lambda response: [group.group_id for group in response.groups],
        prepare=with_offsets,
    ),
    Sample(
        ApiKey.DELETE_GROUPS,
        lambda world: DeleteGroupsRequest(groups_names=["no-such-group"]),
        grants=(Grant(DELETE, GROUP, "no-such-group"),),
        refused=REFUSED,
        allowed=ErrorCode.GROUP_ID_NOT_FOUND,
        prepare=with_offsets,
    ),
]
