"""The admin handlers on a real metadata log, their answers encoded in every version."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from handler_stage import Admin, create, named, versions, with_admin

from ottla.protocol.apis import ApiKey
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from ottla.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from ottla.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from ottla.protocol.messages.describe_cluster import DescribeClusterRequest
from ottla.protocol.messages.describe_log_dirs import (
    DescribableLogDirTopic,
    DescribeLogDirsRequest,
)
from ottla.protocol.messages.describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
    TopicRequest,
)
from ottla.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from ottla.protocol.uuids import ZERO_UUID

# Metadata


def test_metadata_tells_brokers_and_topics_in_every_version(tmp_path: Path):
    async def use(admin: Admin) -> None:
        await create(admin, "a", "__consumer_offsets", partitions=2)
        for version in versions(ApiKey.METADATA):
            everything = MetadataRequest(topics=None if version else [])
            answer = await admin(ApiKey.METADATA, everything, version)
            (broker,) = answer.brokers
            assert (broker.node_id, broker.host, broker.port) == (1, "localhost", 9092)
            assert sorted(topic.name for topic in answer.topics) == ["__consumer_offsets", "a"]
            for topic in answer.topics:
                assert [p.partition_index for p in topic.partitions] == [0, 1]
                assert all(p.leader_id == 1 and not p.error_code for p in topic.partitions)
                assert all(p.replica_nodes == [1] and p.isr_nodes == [1] for p in topic.partitions)
            if version >= 1:
                assert answer.controller_id == 1
                assert broker.rack == "here"
                assert {t.name: t.is_internal for t in answer.topics}["__consumer_offsets"]
            if version >= 2:
                assert answer.cluster_id == "cluster"

    with_admin(tmp_path, use)


def test_metadata_for_an_empty_list_tells_no_topic_after_version_0(tmp_path: Path):
    async def use(admin: Admin) -> None:
        await create(admin, "a")
        for version in versions(ApiKey.METADATA)[1:]:
            assert (await admin(ApiKey.METADATA, MetadataRequest(topics=[]), version)).topics == []

    with_admin(tmp_path, use)


def test_metadata_finds_topics_by_id(tmp_path: Path):
    async def use(admin: Admin) -> None:
        await create(admin, "a")
        known = admin.node.metadata.image.topics["a"].id
        ids = [known, b"?" * 16]
        request = MetadataRequest(topics=[MetadataRequestTopic(topic_id=i, name=None) for i in ids])
        found, unknown = (await admin(ApiKey.METADATA, request)).topics
        assert (found.name, found.topic_id) == ("a", known)
        assert (unknown.name, unknown.topic_id) == (None, b"?" * 16)
        assert unknown.error_code == ErrorCode.UNKNOWN_TOPIC_ID
        refused = (await admin(ApiKey.METADATA, request, 11)).topics
        assert {topic.error_code for topic in refused} == {ErrorCode.INVALID_REQUEST}

    with_admin(tmp_path, use)


def test_metadata_creates_a_missing_topic_once_however_many_ask(tmp_path: Path):
    async def use(admin: Admin) -> None:
        request = MetadataRequest(topics=named("new", "new", "bad name", "other"))
        answers = await asyncio.gather(*(admin(ApiKey.METADATA, request) for _ in range(20)))
        for answer in answers:
            found = {topic.name: topic for topic in answer.topics}
            assert len(answer.topics) == 3
            assert found["new"].error_code == 0
            assert len(found["new"].partitions) == 1
            assert found["bad name"].error_code == ErrorCode.INVALID_TOPIC_EXCEPTION
        assert sorted(admin.node.metadata.image.topics) == ["new", "other"]

    with_admin(tmp_path, use)


@pytest.mark.parametrize("allowed_by", ["client", "broker"])
def test_metadata_creates_nothing_unless_both_sides_allow_it(tmp_path: Path, allowed_by: str):
    async def use(admin: Admin) -> None:
        request = MetadataRequest(
            topics=named("new"), allow_auto_topic_creation=allowed_by == "client"
        )
        (topic,) = (await admin(ApiKey.METADATA, request)).topics
        assert topic.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert not admin.node.metadata.image.topics

    enabled = str(allowed_by == "broker").lower()
    with_admin(tmp_path, use, auto_create_topics_enable=enabled)


def test_metadata_tells_rights_only_when_asked(tmp_path: Path):
    async def use(admin: Admin) -> None:
        await create(admin, "a")
        for version in range(8, 14):
            plain = await admin(ApiKey.METADATA, MetadataRequest(topics=None), version)
            assert plain.topics[0].topic_authorized_operations == -(2**31)
            asked = MetadataRequest(topics=None, include_topic_authorized_operations=True)
            asked.include_cluster_authorized_operations = version <= 10
            answer = await admin(ApiKey.METADATA, asked, version)
            assert answer.topics[0].topic_authorized_operations == 0b1101_1111_1000
            if version <= 10:
                assert answer.cluster_authorized_operations == 0b1_1111_1010_0000

    with_admin(tmp_path, use)


def test_metadata_follows_a_change(tmp_path: Path):
    async def use(admin: Admin) -> None:
        await create(admin, "a")
        await admin(ApiKey.METADATA, MetadataRequest(topics=None))
        grown = CreatePartitionsTopic(name="a", count=3, assignments=None)
        await admin(ApiKey.CREATE_PARTITIONS, CreatePartitionsRequest(topics=[grown]))
        (topic,) = (await admin(ApiKey.METADATA, MetadataRequest(topics=named("a")))).topics
        assert len(topic.partitions) == 3

    with_admin(tmp_path, use)


# Topics


def test_topics_are_created_grown_and_deleted_in_every_version(tmp_path: Path):
    async def use(admin: Admin) -> None:
        for version in versions(ApiKey.CREATE_TOPICS):
            wanted = CreatableTopic(name=f"t{version}", num_partitions=1, replication_factor=1)
            request = CreateTopicsRequest(topics=[wanted, CreatableTopic(name="bad name")])
            good, bad = (await admin(ApiKey.CREATE_TOPICS, request, version)).topics
            assert (good.name, good.error_code) == (wanted.name, 0)
            assert bad.error_code == ErrorCode.INVALID_TOPIC_EXCEPTION
        for version in versions(ApiKey.CREATE_PARTITIONS):
            grown = CreatePartitionsTopic(name="t7", count=2 + version, assignments=None)
            request_ = CreatePartitionsRequest(topics=[grown])
            (result,) = (await admin(ApiKey.CREATE_PARTITIONS, request_, version)).results
            assert result.error_code == 0
        for version in range(1, 6):
            doomed = DeleteTopicsRequest(topic_names=[f"t{version + 1}", "missing"])
            good, bad = (await admin(ApiKey.DELETE_TOPICS, doomed, version)).responses
            assert (good.name, good.error_code) == (f"t{version + 1}", 0)
            assert bad.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        by_name = DeleteTopicsRequest(topics=[DeleteTopicState(name="t7", topic_id=ZERO_UUID)])
        assert (await admin(ApiKey.DELETE_TOPICS, by_name)).responses[0].error_code == 0
        assert not admin.node.metadata.image.topics

    with_admin(tmp_path, use)


@pytest.mark.parametrize(
    ("version", "code"),
    [(2, ErrorCode.INVALID_REQUEST), (3, ErrorCode.TOPIC_DELETION_DISABLED)],
)
def test_no_topic_is_deleted_where_deletion_is_disabled(
    tmp_path: Path, version: int, code: ErrorCode
):
    async def use(admin: Admin) -> None:
        await create(admin, "a")
        request = DeleteTopicsRequest(topic_names=["a"])
        (result,) = (await admin(ApiKey.DELETE_TOPICS, request, version)).responses
        assert result.error_code == code
        assert "a" in admin.node.metadata.image.topics

    with_admin(tmp_path, use, delete_topic_enable="false")


def test_a_request_for_too_many_partitions_fails_topic_by_topic(tmp_path: Path):
    async def use(admin: Admin) -> None:
        wanted = [
            CreatableTopic(name=n, num_partitions=9_000, replication_factor=1) for n in ("a", "b")
        ]
        answer = await admin(ApiKey.CREATE_TOPICS, CreateTopicsRequest(topics=wanted))
        assert [t.error_code for t in answer.topics] == [ErrorCode.POLICY_VIOLATION] * 2

    with_admin(tmp_path, use)


def test_topic_partitions_come_page_by_page(tmp_path: Path):
    async def use(admin: Admin) -> None:
        await create(admin, "a", "b", "c", partitions=3)
        seen: list[tuple[str, int]] = []
        cursor: Cursor | None = None
        for _ in range(20):
            request = DescribeTopicPartitionsRequest(response_partition_limit=2, cursor=cursor)
            answer = await admin(ApiKey.DESCRIBE_TOPIC_PARTITIONS, request)
            page = [(t.name, p.partition_index) for t in answer.topics for p in t.partitions]
            assert len(page) <= 2
            seen += page
            cursor = answer.next_cursor
            if cursor is None:
                break
        assert seen == [(name, index) for name in "abc" for index in range(3)]

    with_admin(tmp_path, use)


def test_topic_partitions_of_unknown_topics_and_bad_cursors_are_told(tmp_path: Path):
    async def use(admin: Admin) -> None:
        await create(admin, "a")
        wanted = [TopicRequest(name=name) for name in ("a", "missing", "bad name")]
        answer = await admin(
            ApiKey.DESCRIBE_TOPIC_PARTITIONS, DescribeTopicPartitionsRequest(topics=wanted)
        )
        assert {t.name: t.error_code for t in answer.topics} == {
            "a": 0,
            "missing": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            "bad name": ErrorCode.INVALID_TOPIC_EXCEPTION,
        }
        for bad in (
            Cursor(topic_name="b", partition_index=0),
            Cursor(topic_name="a", partition_index=-1),
        ):
            request = DescribeTopicPartitionsRequest(topics=[TopicRequest(name="a")], cursor=bad)
            answer = await admin(ApiKey.DESCRIBE_TOPIC_PARTITIONS, request)
            assert [t.error_code for t in answer.topics] == [ErrorCode.INVALID_REQUEST]

    with_admin(tmp_path, use)


# The cluster


def test_the_cluster_is_described_in_every_version(tmp_path: Path):
    async def use(admin: Admin) -> None:
        for version in versions(ApiKey.DESCRIBE_CLUSTER):
            request = DescribeClusterRequest(include_cluster_authorized_operations=True)
            answer = await admin(ApiKey.DESCRIBE_CLUSTER, request, version)
            assert (answer.cluster_id, answer.controller_id, answer.error_code) == ("cluster", 1, 0)
            assert [(b.broker_id, b.host, b.rack) for b in answer.brokers] == [
                (1, "localhost", "here")
            ]
        for kind, code in (
            (2, ErrorCode.MISMATCHED_ENDPOINT_TYPE),
            (7, ErrorCode.UNSUPPORTED_ENDPOINT_TYPE),
        ):
            answer = await admin(
                ApiKey.DESCRIBE_CLUSTER, DescribeClusterRequest(endpoint_type=kind)
            )
            assert answer.error_code == code

    with_admin(tmp_path, use)


def test_log_dirs_are_described_with_their_room_and_failed_ones_with_an_error(tmp_path: Path):
    async def use(admin: Admin) -> None:
        await create(admin, "a", partitions=2)
        manager = admin.node.log_manager
        from ottla.config.topic import TopicConfig

        for index in range(2):
            manager.create("a", index, admin.node.metadata.image.topics["a"].id, TopicConfig())
        for version in versions(ApiKey.DESCRIBE_LOG_DIRS):
            request = DescribeLogDirsRequest(topics=None)
            answer = await admin(ApiKey.DESCRIBE_LOG_DIRS, request, version)
            found = {
                (r.log_dir, t.name, p.partition_index)
                for r in answer.results
                for t in r.topics
                for p in t.partitions
            }
            assert found == {(f"{tmp_path}/a", "a", 0), (f"{tmp_path}/b", "a", 1)}
            if version >= 4:
                assert all(r.total_bytes >= r.usable_bytes > 0 for r in answer.results)
        one = DescribableLogDirTopic(topic="a", partitions=[1])
        answer = await admin(ApiKey.DESCRIBE_LOG_DIRS, DescribeLogDirsRequest(topics=[one]))
        assert [len(r.topics) for r in answer.results] == [0, 1]
        manager.fail_dir(f"{tmp_path}/b", OSError(5, "broken"))
        answer = await admin(ApiKey.DESCRIBE_LOG_DIRS, DescribeLogDirsRequest(topics=None))
        assert [r.error_code for r in answer.results] == [0, ErrorCode.KAFKA_STORAGE_ERROR]

    with_admin(tmp_path, use)
