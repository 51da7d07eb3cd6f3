"""kafka-python 3 with its default settings."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest
from client_samples import CODECS, MEGABYTE, PLAIN_SAMPLES, ROOMY_BYTES, Sample, noise
from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition, codec, errors
from kafka.admin import ConfigResource, ConfigResourceType, NewPartitions, NewTopic

WAIT_MS = 30_000


@pytest.fixture
def admin(bootstrap: str) -> Iterator[KafkaAdminClient]:
    made = KafkaAdminClient(bootstrap_servers=bootstrap)
    yield made
    made.close()


def create(admin: KafkaAdminClient, topic: str, partitions: int = 1, **config: str) -> None:
    settings = {key.replace("_", "."): value for key, value in config.items()}
    admin.create_topics([NewTopic(topic, partitions, 1, topic_configs=settings)])
    admin.wait_for_topics([topic])


def produce(bootstrap: str, topic: str, samples: Any, **settings: Any) -> list[int]:
    producer = KafkaProducer(bootstrap_servers=bootstrap, **settings)
    try:
        pending = [
            producer.send(
                topic, key=one.key, value=one.value, headers=list(one.headers), partition=0
            )
            for one in samples
        ]
        producer.flush(30)
        return [future.get(30).offset for future in pending]
    finally:
        producer.close(10)


def read(bootstrap: str, topic: str, count: int, partitions: Any = (0,)) -> list[Any]:
    consumer = KafkaConsumer(
        bootstrap_servers=bootstrap, auto_offset_reset="earliest", consumer_timeout_ms=WAIT_MS
    )
    try:
        consumer.assign([TopicPartition(topic, index) for index in partitions])
        found = []
        for record in consumer:
            found.append(record)
            if len(found) == count:
                break
        assert len(found) == count
        return found
    finally:
        consumer.close()


def as_sample(record: Any) -> Sample:
    return Sample(record.key, record.value, tuple(record.headers))


def test_kafka_python_reads_back_every_kind_of_record_in_order(
    bootstrap: str, admin: KafkaAdminClient, topic: str
) -> None:
    create(admin, topic)
    assert produce(bootstrap, topic, PLAIN_SAMPLES) == list(range(len(PLAIN_SAMPLES)))
    records = read(bootstrap, topic, len(PLAIN_SAMPLES))
    assert [as_sample(record) for record in records] == list(PLAIN_SAMPLES)


@pytest.mark.parametrize("name", CODECS)
def test_kafka_python_reads_back_what_it_compressed(
    bootstrap: str, admin: KafkaAdminClient, topic: str, name: str
) -> None:
    if name != "none" and not getattr(codec, f"has_{name}")():
        pytest.skip(f"kafka-python needs a further package for {name}")
    create(admin, topic)
    samples = [Sample(b"%d" % n, b"compressible " * n, (("n", b"%d" % n),)) for n in range(200)]
    produce(bootstrap, topic, samples, compression_type=None if name == "none" else name)
    assert [as_sample(record) for record in read(bootstrap, topic, 200)] == samples


def test_kafka_python_passes_records_of_zero_bytes_and_of_a_megabyte(
    bootstrap: str, admin: KafkaAdminClient, topic: str
) -> None:
    create(admin, topic, max_message_bytes=str(ROOMY_BYTES))
    samples = [Sample(None, b""), Sample(b"big", noise(MEGABYTE, 5)), Sample(None, b"")]
    produce(bootstrap, topic, samples, max_request_size=ROOMY_BYTES)
    assert [as_sample(record) for record in read(bootstrap, topic, 3)] == samples


@pytest.mark.parametrize("acks", [0, 1, "all"])
def test_kafka_python_delivers_with_every_level_of_acks(
    bootstrap: str, admin: KafkaAdminClient, topic: str, acks: int | str
) -> None:
    create(admin, topic)
    # An idempotent producer, the default, insists on acks=all.
    produce(bootstrap, topic, PLAIN_SAMPLES, acks=acks, enable_idempotence=acks == "all")
    records = read(bootstrap, topic, len(PLAIN_SAMPLES))
    assert [as_sample(record) for record in records] == list(PLAIN_SAMPLES)


def test_kafka_python_uses_a_hundred_partitions(
    bootstrap: str, admin: KafkaAdminClient, topic: str
) -> None:
    create(admin, topic, partitions=100)
    producer = KafkaProducer(bootstrap_servers=bootstrap)
    for number in range(500):
        producer.send(topic, b"%d" % number, partition=number % 100)
    producer.flush(30)
    producer.close()
    records = read(bootstrap, topic, 500, range(100))
    assert sorted(int(record.value) for record in records) == list(range(500))
    assert all(int(record.value) % 100 == record.partition for record in records)


def test_kafka_python_creates_a_topic_by_producing_to_it(bootstrap: str, topic: str) -> None:
    produce(bootstrap, topic, PLAIN_SAMPLES)
    assert len(read(bootstrap, topic, len(PLAIN_SAMPLES))) == len(PLAIN_SAMPLES)


def test_kafka_python_is_told_that_a_message_is_too_large(
    bootstrap: str, admin: KafkaAdminClient, topic: str
) -> None:
    create(admin, topic, max_message_bytes="1000")
    with pytest.raises(errors.MessageSizeTooLargeError):
        produce(bootstrap, topic, [Sample(None, noise(5000, 6))])


def test_kafka_python_finds_offsets_by_time(
    bootstrap: str, admin: KafkaAdminClient, topic: str
) -> None:
    create(admin, topic)
    start_ms = time.time_ns() // 1_000_000 - 100_000
    producer = KafkaProducer(bootstrap_servers=bootstrap)
    for number in range(50):
        producer.send(topic, b"%d" % number, partition=0, timestamp_ms=start_ms + number * 1000)
    producer.flush(30)
    producer.close()
    place = TopicPartition(topic, 0)
    consumer = KafkaConsumer(bootstrap_servers=bootstrap)
    found = consumer.offsets_for_times({place: start_ms + 10_500})[place]
    assert (found.offset, found.timestamp) == (11, start_ms + 11_000)
    assert consumer.offsets_for_times({place: start_ms + 10**9})[place] is None
    assert consumer.beginning_offsets([place]) == {place: 0}
    assert consumer.end_offsets([place]) == {place: 50}
    consumer.close()


def test_kafka_python_administers_topics(admin: KafkaAdminClient, topic: str) -> None:
    create(admin, topic, partitions=2)
    assert topic in admin.list_topics()
    admin.create_partitions({topic: NewPartitions(5)})
    (described,) = admin.describe_topics([topic])
    assert len(described["partitions"]) == 5
    with pytest.raises(errors.TopicAlreadyExistsError):
        create(admin, topic)
    admin.delete_topics([topic])
    assert topic not in admin.list_topics()


def test_kafka_python_changes_topic_settings(admin: KafkaAdminClient, topic: str) -> None:
    create(admin, topic)
    admin.alter_configs(
        [ConfigResource(ConfigResourceType.TOPIC, topic, {"retention.ms": "1234567"})]
    )
    described = admin.describe_configs([ConfigResource(ConfigResourceType.TOPIC, topic)])
    assert "1234567" in str(described)


def test_kafka_python_deletes_records_and_lists_offsets(
    bootstrap: str, admin: KafkaAdminClient, topic: str
) -> None:
    create(admin, topic)
    produce(bootstrap, topic, PLAIN_SAMPLES)
    place = TopicPartition(topic, 0)
    admin.delete_records({place: 3})
    consumer = KafkaConsumer(bootstrap_servers=bootstrap)
    assert consumer.beginning_offsets([place]) == {place: 3}
    consumer.close()
    assert as_sample(read(bootstrap, topic, 1)[0]) == PLAIN_SAMPLES[3]


def test_kafka_python_describes_the_cluster(broker: Any, admin: KafkaAdminClient) -> None:
    cluster = admin.describe_cluster()
    assert [node["port"] for node in cluster["brokers"]] == [broker.port]
    assert cluster["cluster_id"]
    assert admin.describe_log_dirs()
