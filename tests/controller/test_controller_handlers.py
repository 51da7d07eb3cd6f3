"""The admin handlers on a real metadata log, their answers encoded in every version."""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Awaitable, Callable
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ottla.broker.controller_requests import ControllerRequests
from ottla.broker.registration import Identity, registration_request
from ottla.config.broker import BrokerConfig
from ottla.controller.controller import Controller
from ottla.coordinator.producer_ids import ProducerIds
from ottla.metadata.image import Endpoint
from ottla.metadata.log import MetadataLog
from ottla.metadata.resources import ResourceType
from ottla.protocol.apis import ApiKey, api
from ottla.protocol.codec import decoder, encoder
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.alter_configs import AlterableConfig as LegacyConfig
from ottla.protocol.messages.alter_configs import AlterConfigsRequest
from ottla.protocol.messages.alter_configs import AlterConfigsResource as LegacyResource
from ottla.protocol.messages.api_versions import ApiVersionsRequest
from ottla.protocol.messages.broker_registration import BrokerRegistrationRequest
from ottla.protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from ottla.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from ottla.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from ottla.protocol.messages.describe_cluster import DescribeClusterRequest
from ottla.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
)
from ottla.protocol.messages.describe_log_dirs import (
    DescribableLogDirTopic,
    DescribeLogDirsRequest,
)
from ottla.protocol.messages.describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
    TopicRequest,
)
from ottla.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from ottla.protocol.messages.init_producer_id import InitProducerIdRequest
from ottla.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from ottla.protocol.schema import Message
from ottla.protocol.uuids import ZERO_UUID
from ottla.runtime.os_runtime import OsRuntime, run
from ottla.server.dispatch import BROKERS, CONTROLLERS, SERVED, served_on
from ottla.server.local import serve_here
from ottla.storage.log_manager import LogManager

NODE_ID = 1


class Admin:
    """A node without sockets: `await admin(key, request)` is the answer a client would decode."""

    def __init__(self, node: Any) -> None:
        self.node = node

    async def __call__(self, key: ApiKey, request: Message | None, version: int = -1) -> Any:
        version = api(key).versions[1] if version < 0 else version
        declared = api(key)
        module = import_module(f"ottla.server.handlers.{declared.module_name}")
        context = SimpleNamespace(
            api_version=version,
            client_id=None,
            connection=SimpleNamespace(listener_name="PLAINTEXT", kind=BROKERS),
            node=self.node,
        )
        answer = module.handle(context, request)
        if inspect.isawaitable(answer):
            answer = await answer
        encoded = b"".join(encoder(declared.response_class(), version)(answer))  # type: ignore[arg-type]
        return decoder(declared.response_class(), version)(encoded, 0)[0]


def with_admin(folder: Path, use: Callable[[Admin], Awaitable[None]], **settings: str) -> None:
    given = {key.replace("_", "."): value for key, value in settings.items()}
    config = BrokerConfig.parse({"log.dirs": f"{folder}/a,{folder}/b", **given})

    async def main(runtime: OsRuntime) -> None:
        manager = LogManager(runtime, config)
        await manager.open()
        metadata = await MetadataLog.open(
            runtime,
            config.metadata_log_dir,
            node_id=NODE_ID,
            cluster_id="cluster",
            config=config,
            clean=True,
            on_failure=pytest.fail,
        )
        controller = Controller(metadata, config, runtime)
        node = SimpleNamespace(
            metadata=metadata,
            controller=controller,
            config=config,
            node_id=NODE_ID,
            cluster_id="cluster",
            runtime=runtime,
            log_manager=manager,
            replicas=SimpleNamespace(topics={}),
        )
        registered = await controller.register_broker(registration(manager.directory_ids()))

        async def ask(request: Message, **_: Any) -> Any:
            return await serve_here(node, request, None)  # type: ignore[arg-type]

        def epoch() -> int:
            return registered.broker_epoch

        node.requests = ControllerRequests(runtime, ask, metadata, config, epoch)
        node.coordinators = SimpleNamespace(
            producer_ids=ProducerIds(
                ask,
                lambda task: runtime.spawn(task, name="ids"),
                broker_id=NODE_ID,
                broker_epoch=epoch,
            )
        )
        await use(Admin(node))
        await metadata.close()
        await manager.close()

    run(main)


def registration(directories: list[bytes]) -> BrokerRegistrationRequest:
    endpoints = [Endpoint("PLAINTEXT", "localhost", 9092), Endpoint("OTHER", "elsewhere", 9093)]
    identity = Identity(NODE_ID, "cluster", b"i" * 16, endpoints, "here", directories)
    return registration_request(identity, directories)


async def create(admin: Admin, *names: str, partitions: int = 1) -> None:
    wanted = [
        CreatableTopic(name=n, num_partitions=partitions, replication_factor=1) for n in names
    ]
    answer = await admin(ApiKey.CREATE_TOPICS, CreateTopicsRequest(topics=wanted))
    assert [topic.error_code for topic in answer.topics] == [0] * len(names)


def named(*names: str) -> list[MetadataRequestTopic]:
    return [MetadataRequestTopic(name=name) for name in names]


def versions(key: ApiKey) -> range:
    first, last = api(key).versions
    return range(first, last + 1)


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


# Configs


def described(kind: ResourceType, name: str, *keys: str) -> DescribeConfigsRequest:
    resource = DescribeConfigsResource(
        resource_type=kind, resource_name=name, configuration_keys=list(keys) or None
    )
    return DescribeConfigsRequest(
        resources=[resource], include_synonyms=True, include_documentation=True
    )


def changed(kind: ResourceType, name: str, key: str, value: str) -> IncrementalAlterConfigsRequest:
    resource = AlterConfigsResource(
        resource_type=kind,
        resource_name=name,
        configs=[AlterableConfig(name=key, config_operation=0, value=value)],
    )
    return IncrementalAlterConfigsRequest(resources=[resource])


def test_configs_are_changed_and_described_in_every_version(tmp_path: Path):
    async def use(admin: Admin) -> None:
        await create(admin, "a")
        for version in versions(ApiKey.INCREMENTAL_ALTER_CONFIGS):
            request = changed(ResourceType.TOPIC, "a", "retention.ms", str(version + 5))
            answer = await admin(ApiKey.INCREMENTAL_ALTER_CONFIGS, request, version)
            assert (answer.responses[0].error_code, answer.responses[0].error_message) == (0, None)
        for version in versions(ApiKey.DESCRIBE_CONFIGS):
            asked = described(ResourceType.TOPIC, "a", "retention.ms")
            (result,) = (await admin(ApiKey.DESCRIBE_CONFIGS, asked, version)).results
            (entry,) = result.configs
            assert (entry.value, entry.config_source) == ("6", 1)
            assert [s.name for s in entry.synonyms][:1] == ["retention.ms"]
            assert bool(entry.documentation) == (version >= 3)
        for version in versions(ApiKey.ALTER_CONFIGS):
            only = LegacyResource(
                resource_type=ResourceType.TOPIC,
                resource_name="a",
                configs=[LegacyConfig(name="segment.ms", value=str(version + 9))],
            )
            legacy = AlterConfigsRequest(resources=[only])
            answer = await admin(ApiKey.ALTER_CONFIGS, legacy, version)
            assert answer.responses[0].error_code == 0
        assert admin.node.metadata.image.topic_config("a") == {"segment.ms": "11"}

    with_admin(tmp_path, use)


@pytest.mark.parametrize(
    ("kind", "name", "code"),
    [
        (ResourceType.TOPIC, "missing", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (ResourceType.TOPIC, "bad name", ErrorCode.INVALID_TOPIC_EXCEPTION),
        (ResourceType.BROKER, "2", ErrorCode.INVALID_REQUEST),
        (ResourceType.BROKER_LOGGER, "", ErrorCode.INVALID_REQUEST),
        (ResourceType.GROUP, "", ErrorCode.INVALID_REQUEST),
        (ResourceType.UNKNOWN, "x", ErrorCode.INVALID_REQUEST),
        (ResourceType.BROKER, "1", ErrorCode.NONE),
        (ResourceType.BROKER, "", ErrorCode.NONE),
        (ResourceType.GROUP, "g", ErrorCode.NONE),
        (ResourceType.CLIENT_METRICS, "m", ErrorCode.NONE),
    ],
)
def test_every_kind_of_resource_is_described_or_refused(
    tmp_path: Path, kind: ResourceType, name: str, code: ErrorCode
):
    async def use(admin: Admin) -> None:
        (result,) = (await admin(ApiKey.DESCRIBE_CONFIGS, described(kind, name))).results
        assert result.error_code == code
        assert (result.error_message is None) == (code is ErrorCode.NONE)

    with_admin(tmp_path, use)


def test_log_levels_change_at_run_time_and_are_described(tmp_path: Path):
    logger = logging.getLogger("ottla.some.concern")

    async def use(admin: Admin) -> None:
        kind = ResourceType.BROKER_LOGGER
        request = changed(kind, "1", logger.name, "DEBUG")
        answer = await admin(ApiKey.INCREMENTAL_ALTER_CONFIGS, request)
        assert answer.responses[0].error_code == 0
        assert logger.level == logging.DEBUG
        asked = described(kind, "1", logger.name)
        (result,) = (await admin(ApiKey.DESCRIBE_CONFIGS, asked)).results
        assert [(c.name, c.value, c.config_source) for c in result.configs] == [
            (logger.name, "DEBUG", 6)
        ]
        for bad in (
            changed(kind, "1", "no.such.logger", "DEBUG"),
            changed(kind, "1", logger.name, "LOUD"),
            changed(kind, "2", logger.name, "INFO"),
        ):
            answer = await admin(ApiKey.INCREMENTAL_ALTER_CONFIGS, bad)
            assert answer.responses[0].error_code != 0
        assert logger.level == logging.DEBUG
        delete = changed(kind, "1", logger.name, "")
        delete.resources[0].configs[0].config_operation = 1
        await admin(ApiKey.INCREMENTAL_ALTER_CONFIGS, delete)
        assert logger.level == logging.NOTSET

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


# Clients


def test_producer_ids_are_unique_also_across_a_restart(tmp_path: Path):
    seen: list[int] = []

    async def use(admin: Admin) -> None:
        for version in versions(ApiKey.INIT_PRODUCER_ID):
            request = InitProducerIdRequest(transactional_id=None)
            answers = await asyncio.gather(
                *(admin(ApiKey.INIT_PRODUCER_ID, request, version) for _ in range(300))
            )
            assert {a.producer_epoch for a in answers} == {0}
            seen.extend(answer.producer_id for answer in answers)

    with_admin(tmp_path, use)
    with_admin(tmp_path, use)
    assert len(seen) == len(set(seen)) == 2 * 7 * 300
    assert min(seen) == 0


@pytest.mark.parametrize(
    ("request_", "code"),
    [
        (InitProducerIdRequest(transactional_id=""), ErrorCode.INVALID_REQUEST),
        (InitProducerIdRequest(transactional_id=None, producer_id=5), ErrorCode.INVALID_REQUEST),
    ],
)
def test_producer_ids_that_cannot_be_had(
    tmp_path: Path, request_: InitProducerIdRequest, code: ErrorCode
):
    async def use(admin: Admin) -> None:
        answer = await admin(ApiKey.INIT_PRODUCER_ID, request_)
        assert (answer.error_code, answer.producer_id, answer.producer_epoch) == (code, -1, -1)

    with_admin(tmp_path, use)


def test_every_served_api_is_served_on_the_listeners_that_kafka_has_it_on():
    assert served_on(BROKERS) | served_on(CONTROLLERS) == set(SERVED)
    assert ApiKey.PRODUCE not in served_on(CONTROLLERS)
    assert ApiKey.BROKER_HEARTBEAT not in served_on(BROKERS)
    assert ApiKey.CREATE_TOPICS in served_on(BROKERS) & served_on(CONTROLLERS)


def test_api_versions_are_the_served_ones(tmp_path: Path):
    async def use(admin: Admin) -> None:
        request = ApiVersionsRequest(
            client_software_name="some-client", client_software_version="1.0"
        )
        for version in versions(ApiKey.API_VERSIONS):
            answer = await admin(ApiKey.API_VERSIONS, request, version)
            told = {k.api_key: (k.min_version, k.max_version) for k in answer.api_keys}
            assert set(told) == served_on(BROKERS)
            assert told[ApiKey.PRODUCE] == (0, api(ApiKey.PRODUCE).versions[1])
            assert told[ApiKey.METADATA] == (0, 13)
            assert told[ApiKey.INIT_PRODUCER_ID] == (0, 5)
            if version >= 3:
                levels = {f.name: f.max_version_level for f in answer.finalized_features}
                assert levels == {
                    "metadata.version": 30,
                    "transaction.version": 2,
                    "group.version": 1,
                }
                supported = {f.name: f.min_version for f in answer.supported_features}
                from_level_0 = (
                    {"transaction.version": 0, "group.version": 0, "kraft.version": 0}
                    if version >= 4
                    else {}
                )
                assert supported == {"metadata.version": 30, **from_level_0}
                assert answer.finalized_features_epoch >= 0

    with_admin(tmp_path, use)


@pytest.mark.parametrize(("name", "number"), [("", "1"), ("ok", "-1"), ("a b", "1"), ("x", "1.")])
def test_a_client_that_calls_itself_nonsense_is_refused(tmp_path: Path, name: str, number: str):
    async def use(admin: Admin) -> None:
        request = ApiVersionsRequest(client_software_name=name, client_software_version=number)
        for version, code in ((2, 0), (3, ErrorCode.INVALID_REQUEST)):
            answer = await admin(ApiKey.API_VERSIONS, request, version)
            assert answer.error_code == code

    with_admin(tmp_path, use)


def test_a_version_from_the_future_is_answered_with_those_there_are():
    from ottla.server.handlers.api_versions import unsupported_version

    answer = unsupported_version(SimpleNamespace())  # type: ignore[arg-type]
    assert answer.error_code == ErrorCode.UNSUPPORTED_VERSION
    assert [(k.api_key, k.min_version, k.max_version) for k in answer.api_keys] == [(18, 0, 4)]
