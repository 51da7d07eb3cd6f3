"""Clients that others wrote, over their quota: they get there later, and lose nothing."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from bench.brokers import run_java
from confluent_kafka import Consumer, Producer
from kafka import KafkaConsumer, KafkaProducer, TopicPartition

import ottla
from ottla.client.admin.quotas import QuotaEntity

pytestmark = pytest.mark.timeout(120)

RATE = 30_000.0
COUNT = 297
"""Records of 1 KB: a little more than may be moved at once, which is ten seconds' worth. Much more
would take ten seconds longer: as Kafka measures, the time before a burst counts as well."""
VALUES = [b"%06d" % number + bytes(994) for number in range(COUNT)]
WITHIN_S = 60


async def is_set(admin: ottla.Admin, client: QuotaEntity) -> bool:
    return client in await admin.describe_client_quotas(client_id=client.client_id)


async def until(happens: Callable[[], Awaitable[bool]]) -> None:
    async with asyncio.timeout(10):
        while not await happens():  # noqa: ASYNC110
            await asyncio.sleep(0.02)


@pytest.fixture
def limited(bootstrap: str, topic: str) -> str:
    """A client id that may produce and fetch little."""

    async def main() -> None:
        async with ottla.Admin(bootstrap_servers=bootstrap) as admin:
            await admin.create_topic(topic, partitions=1)
            rates = {"producer_byte_rate": RATE, "consumer_byte_rate": RATE * 1.06}
            client = QuotaEntity(client_id=topic)
            assert await admin.alter_client_quotas({client: rates}) == {client: None}
            await until(lambda: is_set(admin, client))

    asyncio.run(main())
    return topic


def test_confluent_kafka(bootstrap: str, topic: str, limited: str) -> None:
    throttled: list[float] = []
    common = {
        "bootstrap.servers": bootstrap,
        "client.id": limited,
        "throttle_cb": lambda event: throttled.append(event.throttle_time),
    }
    producer = Producer({**common, "linger.ms": 0, "batch.size": 8_000})

    def produce() -> None:
        for value in VALUES:
            producer.produce(topic, value)
        assert producer.flush(WITHIN_S) == 0

    produce()
    assert max(throttled) > 0
    settings = {**common, "group.id": topic, "auto.offset.reset": "earliest"}
    consumer = Consumer({**settings, "fetch.message.max.bytes": 16_000})
    consumer.subscribe([topic])
    found: list[bytes | None] = []

    def consume() -> None:
        deadline = time.monotonic() + WITHIN_S
        while len(found) < COUNT and time.monotonic() < deadline:
            found.extend(message.value() for message in consumer.consume(100, 0.2))

    consume()
    consumer.close()
    assert found == VALUES


def test_kafka_python(
    bootstrap: str, topic: str, limited: str, caplog: pytest.LogCaptureFixture
) -> None:
    producer = KafkaProducer(bootstrap_servers=bootstrap, client_id=limited, batch_size=8_000)

    def produce() -> None:
        sent = [producer.send(topic, value, partition=0) for value in VALUES]
        producer.flush(WITHIN_S)
        assert [future.get(1).offset for future in sent] == list(range(COUNT))

    produce()
    producer.close()
    consumer = KafkaConsumer(
        bootstrap_servers=bootstrap,
        client_id=limited,
        auto_offset_reset="earliest",
        consumer_timeout_ms=WITHIN_S * 1_000,
        max_partition_fetch_bytes=16_000,
    )
    consumer.assign([TopicPartition(topic, 0)])
    found = []

    def consume() -> None:
        for record in consumer:
            found.append(record.value)
            if len(found) == COUNT:
                break

    consume()
    consumer.close()
    assert found == VALUES
    assert "ProduceResponse throttled by broker" in caplog.text


def test_java(kafka_libs: Path, bootstrap: str, topic: str, limited: str) -> None:
    tools = "org.apache.kafka.tools."
    place = ("--bootstrap-server", bootstrap, "--topic", topic)
    lines = [value[:6].decode() + "x" * 994 for value in VALUES]
    client = f"client.id={limited}"

    def produce() -> None:
        run_java(
            *(kafka_libs, tools + "ConsoleProducer", *place, "--command-property", client),
            *("--command-property", "batch.size=8000"),
            stdin="\n".join(lines) + "\n",
        )

    produce()
    read = run_java(
        *(kafka_libs, tools + "consumer.ConsoleConsumer", *place, "--from-beginning"),
        *("--max-messages", str(COUNT), "--timeout-ms", str(WITHIN_S * 1_000)),
        *("--command-property", client, "--command-property", "max.partition.fetch.bytes=16000"),
    )
    assert read.stdout.splitlines() == lines
