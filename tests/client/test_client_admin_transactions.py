"""Administration of transactions against a real broker, with a producer of another make."""

from __future__ import annotations

import asyncio

import pytest
from admin_tools import administer, until
from confluent_kafka import KafkaException, Producer

from ottla.client.admin.admin import Admin
from ottla.client.admin.transaction_values import DescribedTransaction, FencedProducer
from ottla.client.values import TopicPartition
from ottla.protocol.errors import ErrorCode, KafkaError


def begin(bootstrap: str, topic: str) -> Producer:
    """A producer with a transaction open in partition 0 of `topic`, whose name is also its id."""
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": topic})
    producer.init_transactions(20)
    producer.begin_transaction()
    producer.produce(topic, b"open", partition=0)
    assert producer.flush(20) == 0
    return producer


def test_an_unknown_id_stands_beside_those_that_are_known(bootstrap: str, topic: str) -> None:
    async def work(admin: Admin) -> None:
        await admin.create_topic(topic, partitions=1)
        producer = await asyncio.to_thread(begin, bootstrap, topic)
        found = await admin.describe_transactions([f"{topic}.unknown", topic])
        unknown, known = found[f"{topic}.unknown"], found[topic]
        assert isinstance(unknown, KafkaError)
        assert unknown.code is ErrorCode.TRANSACTIONAL_ID_NOT_FOUND
        assert isinstance(known, DescribedTransaction)
        assert known.state == "Ongoing"
        assert known.partitions == (TopicPartition(topic, 0),)
        open_now = await admin.list_transactions(
            states=["Ongoing"], producer_ids=[known.producer_id]
        )
        assert [one.transactional_id for one in open_now] == [topic]
        with pytest.raises(KafkaError, match="unknown"):
            await admin.describe_transaction(f"{topic}.unknown")
        await asyncio.to_thread(producer.abort_transaction, 20)

    administer(bootstrap, work)


def test_fencing_aborts_what_is_open_and_shuts_the_producer_out(bootstrap: str, topic: str) -> None:
    async def work(admin: Admin) -> None:
        await admin.create_topic(topic, partitions=1)
        producer = await asyncio.to_thread(begin, bootstrap, topic)
        before = await admin.describe_transaction(topic)
        fenced = (await admin.fence_producers([topic]))[topic]
        assert isinstance(fenced, FencedProducer)
        assert fenced.producer_epoch > before.producer_epoch
        await until(lambda: _is_over(admin, topic))
        with pytest.raises(KafkaException):
            await asyncio.to_thread(producer.commit_transaction, 20)

    administer(bootstrap, work)


async def _is_over(admin: Admin, transactional_id: str) -> bool:
    return (await admin.describe_transaction(transactional_id)).state != "Ongoing"


def test_partitions_know_their_producers_and_an_open_transaction_does_not_hang(
    bootstrap: str, topic: str
) -> None:
    one = TopicPartition(topic, 0)

    async def work(admin: Admin) -> None:
        await admin.create_topic(topic, partitions=2)
        producer = await asyncio.to_thread(begin, bootstrap, topic)
        found = await admin.describe_producers([one, TopicPartition(topic, 1)])
        assert found[TopicPartition(topic, 1)] == []
        producers = found[one]
        assert not isinstance(producers, KafkaError)
        assert [active.open_since_offset for active in producers] == [0]
        assert await admin.find_hanging_transactions([topic], idle_ms=0) == []
        await asyncio.to_thread(producer.abort_transaction, 20)

    administer(bootstrap, work)
