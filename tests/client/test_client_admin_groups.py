"""Administration of groups against a real broker, with members of another make."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from admin_tools import administer, fill, until
from bench.brokers import Broker
from confluent_kafka import Consumer

from ottla.client.admin.admin import Admin
from ottla.client.admin.group_values import PartitionLag
from ottla.client.errors import GroupActive, GroupMissing
from ottla.client.producer.producer import Producer
from ottla.client.values import GroupMetadata, OffsetAndMetadata, TopicPartition
from ottla.protocol.errors import ErrorCode, KafkaError


@contextmanager
def member(broker: Broker, group: str, topic: str, **options: str) -> Iterator[Consumer]:
    consumer = Consumer(
        {
            "bootstrap.servers": broker.address,
            "group.id": group,
            "auto.offset.reset": "earliest",
            **{name.replace("_", "."): value for name, value in options.items()},
        }
    )
    consumer.subscribe([topic])
    try:
        yield consumer
    finally:
        consumer.close()


async def joined(admin: Admin, group: str, consumer: Consumer) -> bool:
    await asyncio.to_thread(consumer.poll, 0.1)
    found = (await admin.describe_groups([group]))[group]
    return not isinstance(found, KafkaError) and found.state == "Stable" and bool(found.members)


def test_offsets_are_set_read_and_forgotten_from_outside(group_broker: Broker, topic: str) -> None:
    first, second = TopicPartition(topic, 0), TopicPartition(topic, 1)

    async def work(admin: Admin) -> None:
        await admin.create_topic(topic, partitions=2)
        assert await admin.list_group_offsets(topic) == {}
        outcome = await admin.alter_group_offsets(
            topic, {first: 0, second: OffsetAndMetadata(0, "by hand")}
        )
        assert outcome == {first: None, second: None}
        found = await admin.list_group_offsets(topic)
        assert found[first].offset == 0
        assert found[second].metadata == "by hand"
        assert set(await admin.list_group_offsets(topic, [second])) == {second}
        assert await admin.delete_group_offsets(topic, [first]) == {first: None}
        assert set(await admin.list_group_offsets(topic)) == {second}
        await admin.delete_group(topic)
        with pytest.raises(GroupMissing):
            await admin.describe_group(topic)
        with pytest.raises(GroupMissing):
            await admin.delete_group_offsets(topic, [first])

    administer(group_broker.address, work)


def test_stable_offsets_are_waited_for(group_broker: Broker, topic: str) -> None:
    """Also the first of a group, which nothing was committed by before."""
    place = TopicPartition(topic, 0)

    async def work(admin: Admin) -> None:
        await admin.create_topic(topic)
        sender = Producer(bootstrap_servers=group_broker.address, transactional_id=topic)
        async with sender:
            await sender.init_transactions()
            await sender.begin_transaction()
            await sender.send_offsets_to_transaction({place: 7}, GroupMetadata(topic))
            assert await admin.list_group_offsets(topic, [place]) == {}
            stable = asyncio.create_task(admin.list_group_offsets(topic, [place], stable=True))
            await asyncio.sleep(0.2)
            assert not stable.done()
            await sender.commit_transaction()
            assert (await stable)[place].offset == 7

    administer(group_broker.address, work)


def test_lag_is_told_in_records_and_in_time(group_broker: Broker, topic: str) -> None:
    first, second = TopicPartition(topic, 0), TopicPartition(topic, 1)

    async def work(admin: Admin) -> list[PartitionLag]:
        await admin.create_topic(topic, partitions=2)
        await asyncio.to_thread(fill, group_broker.address, topic, 0, 10)
        await admin.alter_group_offsets(topic, {first: 4, second: 0})
        return await admin.group_lag(topic)

    behind, done = administer(group_broker.address, work)
    assert (behind.committed, behind.log_end, behind.lag) == (4, 10, 6)
    assert behind.lag_ms is not None
    assert behind.lag_ms > 86_400_000  # the records are as old as the epoch
    assert (done.lag, done.lag_ms) == (0, 0)


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_group_with_members_is_described_and_keeps_its_offsets(
    group_broker: Broker, topic: str, protocol: str
) -> None:
    async def work(admin: Admin, consumer: Consumer) -> None:
        await until(lambda: joined(admin, topic, consumer))
        group = await admin.describe_group(topic)
        assert (group.type, group.active) == (protocol, True)
        (only,) = group.members
        assert only.assignment == (TopicPartition(topic, 0),)
        assert topic in {one.group_id for one in await admin.list_consumer_groups()}
        stable = await admin.list_groups(states=["Stable"], types=[protocol])
        assert topic in {one.group_id for one in stable}
        with pytest.raises(GroupActive):
            await admin.alter_group_offsets(topic, {TopicPartition(topic, 0): 0})
        with pytest.raises(GroupActive):
            await admin.delete_group(topic)

    async def main() -> None:
        async with Admin(bootstrap_servers=group_broker.address) as admin:
            await admin.create_topic(topic, partitions=1)
            with member(group_broker, topic, topic, group_protocol=protocol) as consumer:
                await work(admin, consumer)

    asyncio.run(main())


def test_a_static_member_that_is_gone_is_removed_by_its_name(
    group_broker: Broker, topic: str
) -> None:
    async def work(admin: Admin) -> None:
        await admin.create_topic(topic, partitions=1)
        options = {"group_instance_id": "cellar", "session_timeout_ms": "30000"}
        with member(group_broker, topic, topic, **options) as consumer:
            await until(lambda: joined(admin, topic, consumer))
        # A static member says no goodbye when it closes.
        assert [one.instance_id for one in (await admin.describe_group(topic)).members] == [
            "cellar"
        ]
        outcome = await admin.remove_members_from_group(topic, ["cellar", "attic"])
        assert outcome["cellar"] is None
        wrong = outcome["attic"]
        assert wrong is not None
        assert wrong.code is ErrorCode.UNKNOWN_MEMBER_ID
        stable = await admin.list_groups(states=["Stable"])
        assert topic not in {one.group_id for one in stable}

    administer(group_broker.address, work)


def test_all_members_are_removed_when_none_is_named(group_broker: Broker, topic: str) -> None:
    async def work(admin: Admin) -> None:
        await admin.create_topic(topic, partitions=1)
        with member(group_broker, topic, topic) as consumer:
            await until(lambda: joined(admin, topic, consumer))
            (only,) = (await admin.describe_group(topic)).members
            outcome = await admin.remove_members_from_group(topic, reason="a test")
            assert outcome == {only.member_id: None}

    administer(group_broker.address, work)


def test_groups_are_deleted_and_those_that_are_not_there_are_told(
    group_broker: Broker, topic: str
) -> None:
    async def work(admin: Admin) -> None:
        await admin.create_topic(topic, partitions=1)
        await admin.alter_group_offsets(topic, {TopicPartition(topic, 0): 0})
        outcome = await admin.delete_groups([topic, f"{topic}.missing"])
        assert outcome[topic] is None
        missing = outcome[f"{topic}.missing"]
        assert missing is not None
        assert missing.code is ErrorCode.GROUP_ID_NOT_FOUND

    administer(group_broker.address, work)
