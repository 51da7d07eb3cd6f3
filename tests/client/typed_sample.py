"""A program that uses the public interface; `mypy --strict` must have nothing to say about it."""

from __future__ import annotations

import asyncio
from typing import Any

import ottla.blocking
from ottla import (
    Admin,
    AnyRecord,
    ConfigResource,
    Consumer,
    ConsumerRecord,
    ErrorCode,
    GroupMetadata,
    JsonSerializer,
    KafkaError,
    NewTopic,
    OffsetAndMetadata,
    OffsetSpec,
    PreparedTransaction,
    Producer,
    RebalanceListener,
    RecordMetadata,
    ResourceType,
    Sent,
    TopicPartition,
)


class Listener(RebalanceListener):
    def on_partitions_revoked(self, partitions: frozenset[TopicPartition]) -> None:
        print(sorted(partitions))


def delivered(metadata: RecordMetadata | None, error: Exception | None) -> None:
    print(metadata.offset if metadata is not None else error)


async def produce() -> PreparedTransaction:
    async with Producer(
        bootstrap_servers=["localhost:9092"],
        acks="all",
        compression_type="zstd",
        transactional_id="sample",
        value_serializer=JsonSerializer(),
    ) as producer:
        await producer.init_transactions()
        async with producer.transaction():
            sent: Sent = await producer.send("payments", {"amount": 200}, b"alice")
            await producer.send("payments", None, b"bob", on_delivery=delivered)
            metadata: RecordMetadata = await sent
            group = GroupMetadata("ledger")
            await producer.send_offsets_to_transaction({metadata.topic_partition: 1}, group)
        await producer.begin_transaction()
        return await producer.prepare_transaction()


async def consume() -> None:
    async with Consumer(
        "payments", group_id="ledger", auto_offset_reset="earliest", listener=Listener()
    ) as consumer:
        async for record in consumer:
            offset: int = record.offset
            await consumer.commit({record.topic_partition: OffsetAndMetadata(offset + 1)})
            break
        found: dict[TopicPartition, list[AnyRecord]] = await consumer.poll(timeout_ms=100)
        one: ConsumerRecord[Any, Any] = next(iter(found.values()))[0]
        print(one.value, await consumer.position(one.topic_partition))


async def administer(prepared: PreparedTransaction) -> None:
    async with Admin(bootstrap_servers="localhost:9092", request_timeout_ms=5_000) as admin:
        made = await admin.create_topics([NewTopic("payments", partitions=6), "clicks"])
        for name, outcome in made.items():
            if isinstance(outcome, KafkaError):
                print(name, outcome.code is ErrorCode.TOPIC_ALREADY_EXISTS)
            else:
                print(name, outcome.partitions)
        await admin.alter_config(
            ConfigResource(ResourceType.TOPIC, "payments"), {"retention.ms": "1000"}
        )
        at = await admin.list_offsets({TopicPartition("payments", 0): OffsetSpec.LATEST})
        print(at, await admin.group_lag("ledger"))
        await admin.commit_prepared(prepared)


def without_await() -> None:
    with ottla.blocking.Producer(bootstrap_servers="localhost:9092", linger_ms=5) as producer:
        metadata: RecordMetadata = producer.send("payments", b"200", b"alice").result(timeout=10)
        print(metadata.partition)
    with ottla.blocking.Consumer("payments", group_id="ledger") as consumer:
        for record in consumer:
            print(record.value)
    with ottla.blocking.Admin() as admin:
        topics: list[str] = admin.list_topics(internal=True)
        print(topics)


async def main() -> None:
    await consume()
    await administer(await produce())


if __name__ == "__main__":
    asyncio.run(main())
