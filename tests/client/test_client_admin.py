"""Administration of topics, settings, offsets and folders, against a real broker."""

from __future__ import annotations

import asyncio

import pytest
from admin_tools import administer, fill, until

from ottla.client.admin.admin import Admin
from ottla.client.admin.configs import (
    AlterOperation,
    ConfigChange,
    ConfigResource,
    ConfigSource,
    ResourceType,
)
from ottla.client.admin.offsets import OffsetSpec
from ottla.client.admin.topics import CreatedTopic, NewTopic
from ottla.client.errors import BadSetting, IllegalState, NoBrokerReachable, TopicMissing
from ottla.client.network.metadata import Topic
from ottla.client.values import OffsetAndTimestamp, TopicPartition
from ottla.protocol.errors import ErrorCode, KafkaError


def code_of(answer: object) -> ErrorCode | None:
    return answer.code if isinstance(answer, KafkaError) else None


# Its life


def test_an_admin_that_was_not_started_says_how_to_start_it() -> None:
    with pytest.raises(IllegalState, match="async with Admin"):
        asyncio.run(Admin().list_topics())


def test_a_closed_admin_is_of_no_use_and_closing_it_again_does_nothing(bootstrap: str) -> None:
    async def main() -> None:
        admin = Admin(bootstrap_servers=bootstrap)
        await admin.start()
        await admin.start()
        await admin.list_topics()
        await admin.close()
        await admin.close()
        with pytest.raises(IllegalState):
            await admin.list_topics()
        await admin.start()
        await admin.list_topics()
        await admin.close()

    asyncio.run(main())


def test_nobody_at_the_address_is_an_error_that_names_it() -> None:
    async def main() -> None:
        async with Admin(bootstrap_servers="127.0.0.1:1", default_api_timeout_ms=500):
            pass

    with pytest.raises(NoBrokerReachable, match=r"127\.0\.0\.1:1"):
        asyncio.run(main())


def test_an_unknown_setting_is_refused_with_the_name_that_was_meant() -> None:
    with pytest.raises(BadSetting, match="bootstrap_servers"):
        Admin(bootstrap_server="localhost:9092")  # type: ignore[call-arg]


# Topics


def test_some_of_several_topics_are_made_although_another_cannot_be(
    bootstrap: str, topic: str
) -> None:
    async def work(admin: Admin) -> None:
        await admin.create_topic(topic, partitions=2)
        made = await admin.create_topics(
            [topic, NewTopic(f"{topic}.b", partitions=3), NewTopic(f"{topic}.c", partitions=0)]
        )
        assert code_of(made[topic]) is ErrorCode.TOPIC_ALREADY_EXISTS
        created = made[f"{topic}.b"]
        assert isinstance(created, CreatedTopic)
        assert (created.partitions, created.replication_factor) == (3, 1)
        assert code_of(made[f"{topic}.c"]) is ErrorCode.INVALID_PARTITIONS

    administer(bootstrap, work)


def test_topics_are_listed_and_described(bootstrap: str, topic: str) -> None:
    async def work(admin: Admin) -> None:
        made = await admin.create_topic(topic, partitions=2)
        await until(lambda: _listed(admin, topic))
        found = await admin.describe_topics([topic, f"{topic}.missing"])
        described = found[topic]
        assert isinstance(described, Topic)
        assert described.topic_id == made.topic_id
        assert [partition.index for partition in described.partitions] == [0, 1]
        missing = found[f"{topic}.missing"]
        assert code_of(missing) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        with pytest.raises(TopicMissing):
            await admin.describe_topic(f"{topic}.missing")

    administer(bootstrap, work)


async def _listed(admin: Admin, topic: str) -> bool:
    return topic in await admin.list_topics()


def test_topics_are_deleted_and_those_that_are_not_there_are_told(
    bootstrap: str, topic: str
) -> None:
    async def work(admin: Admin) -> None:
        await admin.create_topics([topic, f"{topic}.b"])
        deleted = await admin.delete_topics([topic, f"{topic}.missing"])
        assert deleted[topic] is None
        assert code_of(deleted[f"{topic}.missing"]) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        await admin.delete_topic(f"{topic}.b")
        with pytest.raises(TopicMissing):
            await admin.delete_topic(f"{topic}.missing")

    administer(bootstrap, work)


def test_a_topic_grows_and_does_not_shrink(bootstrap: str, topic: str) -> None:
    async def work(admin: Admin) -> None:
        await admin.create_topic(topic, partitions=1)
        await admin.create_partitions(topic, 3)
        await until(lambda: _has_partitions(admin, topic, 3))
        with pytest.raises(KafkaError) as caught:
            await admin.create_partitions(topic, 2)
        assert caught.value.code is ErrorCode.INVALID_PARTITIONS

    administer(bootstrap, work)


async def _has_partitions(admin: Admin, topic: str, count: int) -> bool:
    return len((await admin.describe_topic(topic)).partitions) == count


# Settings


def test_settings_of_several_resources_are_told_in_one_call(bootstrap: str, topic: str) -> None:
    async def work(admin: Admin) -> None:
        await admin.create_topic(topic, configs={"retention.ms": "5000"})
        (broker,) = (await admin.describe_cluster()).brokers
        of_topic = ConfigResource(ResourceType.TOPIC, topic)
        of_broker = ConfigResource(ResourceType.BROKER, str(broker))
        missing = ConfigResource(ResourceType.TOPIC, f"{topic}.missing")
        found = await admin.describe_configs([of_topic, of_broker, missing])
        settings = found[of_topic]
        assert not isinstance(settings, KafkaError)
        (changed,) = (entry for entry in settings if entry.source is ConfigSource.DYNAMIC_TOPIC)
        assert (changed.name, changed.value) == ("retention.ms", "5000")
        assert not isinstance(found[of_broker], KafkaError)
        assert code_of(found[missing]) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    administer(bootstrap, work)


def test_settings_are_changed_key_by_key_and_failures_stand_beside(
    bootstrap: str, topic: str
) -> None:
    async def work(admin: Admin) -> None:
        await admin.create_topic(topic, configs={"retention.ms": "5000", "segment.ms": "9000"})
        resource = ConfigResource(ResourceType.TOPIC, topic)
        wrong = ConfigResource(ResourceType.TOPIC, f"{topic}.missing")
        outcome = await admin.alter_configs(
            {resource: {"retention.ms": "6000", "segment.ms": None}, wrong: {"retention.ms": "1"}}
        )
        assert outcome[resource] is None
        assert code_of(outcome[wrong]) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        added = ConfigChange(AlterOperation.APPEND, "cleanup.policy", "compact")
        await admin.alter_config(resource, [added])
        await until(lambda: _changed(admin, resource))
        with pytest.raises(KafkaError, match=r"no\.such\.key"):
            await admin.alter_config(resource, {"no.such.key": "1"}, validate_only=True)

    administer(bootstrap, work)


async def _changed(admin: Admin, resource: ConfigResource) -> bool:
    settings = await admin.describe_config(resource)
    own = (entry for entry in settings if entry.source is ConfigSource.DYNAMIC_TOPIC)
    changed = {entry.name: entry.value for entry in own}
    return changed == {"retention.ms": "6000", "cleanup.policy": "delete,compact"}


def test_a_broker_that_is_not_there_is_named(bootstrap: str) -> None:
    with pytest.raises(KafkaError, match="there is no broker '77'"):
        administer(
            bootstrap, lambda a: a.describe_config(ConfigResource(ResourceType.BROKER, "77"))
        )


# The cluster


def test_the_cluster_tells_its_brokers_requests_and_features(bootstrap: str) -> None:
    async def work(admin: Admin) -> None:
        cluster = await admin.describe_cluster()
        assert cluster.controller in cluster.brokers
        (broker,) = cluster.brokers.values()
        assert f"{broker.host}:{broker.port}" == bootstrap
        assert not broker.is_fenced
        served = {api.name: api for api in await admin.describe_apis(broker.node_id)}
        assert served["Metadata"].max_version >= 12
        features = await admin.describe_features()
        assert features.finalized["metadata.version"] > 0
        low, high = features.supported["metadata.version"]
        assert low <= features.finalized["metadata.version"] <= high

    administer(bootstrap, work)


# Offsets, records and folders


def test_offsets_are_found_at_both_ends_and_by_time(bootstrap: str, topic: str) -> None:
    first, second = TopicPartition(topic, 0), TopicPartition(topic, 1)

    async def work(admin: Admin) -> None:
        await admin.create_topic(topic, partitions=2)
        await asyncio.to_thread(fill, bootstrap, topic, 0, 10)
        found = await admin.list_offsets(
            {first: OffsetSpec.LATEST, second: OffsetSpec.LATEST, TopicPartition(topic, 9): 0}
        )
        assert (_offset(found[first]), _offset(found[second])) == (10, 0)
        gone = found[TopicPartition(topic, 9)]
        assert code_of(gone) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        at_time = (await admin.list_offsets({first: 1004}))[first]
        assert at_time == OffsetAndTimestamp(4, 1004, 0)
        late = await admin.list_offsets({first: 9999}, isolation_level="read_committed")
        assert _offset(late[first]) == -1

    administer(bootstrap, work)


def _offset(answer: OffsetAndTimestamp | KafkaError) -> int:
    assert isinstance(answer, OffsetAndTimestamp)
    return answer.offset


def test_the_oldest_records_are_cut_off(bootstrap: str, topic: str) -> None:
    first, second = TopicPartition(topic, 0), TopicPartition(topic, 1)

    async def work(admin: Admin) -> None:
        await admin.create_topic(topic, partitions=2)
        await asyncio.to_thread(fill, bootstrap, topic, 0, 10)
        outcome = await admin.delete_records({first: 4, second: 7})
        assert outcome[first] == 4
        assert code_of(outcome[second]) is ErrorCode.OFFSET_OUT_OF_RANGE
        start = await admin.list_offsets({first: OffsetSpec.EARLIEST})
        assert _offset(start[first]) == 4
        assert await admin.delete_records({first: -1}) == {first: 10}

    administer(bootstrap, work)


def test_folders_tell_what_they_hold(bootstrap: str, topic: str) -> None:
    one = TopicPartition(topic, 0)

    async def work(admin: Admin) -> None:
        await admin.create_topic(topic, partitions=2)
        await asyncio.to_thread(fill, bootstrap, topic, 0, 10)
        (folder,) = await admin.describe_log_dirs(partitions=[one])
        (replica,) = folder.replicas
        assert (replica.topic, replica.partition) == one
        assert replica.size_bytes > 0
        assert not replica.is_future
        (whole,) = await admin.describe_log_dirs([folder.broker])
        held = {(found.topic, found.partition) for found in whole.replicas}
        assert {(topic, 0), (topic, 1)} <= held

    administer(bootstrap, work)
