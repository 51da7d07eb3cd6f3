"""confluent-kafka (librdkafka) with its default settings."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import pytest
from client_samples import CODECS, MEGABYTE, ROOMY_BYTES, SAMPLES, UNGROUPED, Sample, noise
from confluent_kafka import (
    OFFSET_BEGINNING,
    TIMESTAMP_CREATE_TIME,
    TIMESTAMP_LOG_APPEND_TIME,
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    Producer,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka.admin import (
    AdminClient,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    OffsetSpec,
    ResourceType,
)
from confluent_kafka.admin import AlterConfigOpType as Change

WAIT_S = 30.0


@pytest.fixture
def admin(bootstrap: str) -> AdminClient:
    return AdminClient({"bootstrap.servers": bootstrap})


@pytest.fixture
def consumer(bootstrap: str) -> Iterator[Consumer]:
    made = Consumer({"bootstrap.servers": bootstrap, **UNGROUPED})
    yield made
    made.close()


def done(futures: dict[Any, Any]) -> dict[Any, Any]:
    """Wait for an admin call; the first error is raised."""
    return {key: future.result(WAIT_S) for key, future in futures.items()}


def failure(futures: dict[Any, Any]) -> KafkaError:
    with pytest.raises(KafkaException) as caught:
        done(futures)
    return caught.value.args[0]


def create(admin: AdminClient, topic: str, partitions: int = 1, **config: str) -> None:
    settings = {key.replace("_", "."): value for key, value in config.items()}
    done(admin.create_topics([NewTopic(topic, partitions, config=settings)]))


class Deliveries(list[tuple[KafkaError | None, Message]]):
    def __call__(self, error: KafkaError | None, message: Message) -> None:
        self.append((error, message))


def produce(
    bootstrap: str, topic: str, samples: Iterable[Sample], partition: int = 0, **settings: Any
) -> list[int]:
    """Send all and return the acknowledged offsets, in order of sending."""
    config = {key.replace("_", "."): value for key, value in settings.items()}
    producer = Producer({"bootstrap.servers": bootstrap, **config})
    reports = Deliveries()
    for sample in samples:
        producer.produce(
            topic,
            key=sample.key,
            value=sample.value,
            headers=list(sample.headers),
            partition=partition,
            on_delivery=reports,
        )
    assert producer.flush(WAIT_S) == 0
    assert [error for error, _ in reports if error is not None] == []
    return [message.offset() for _, message in reports]


def read(
    consumer: Consumer, topic: str, count: int, partitions: Sequence[int] = (0,)
) -> list[Message]:
    consumer.assign([TopicPartition(topic, index, OFFSET_BEGINNING) for index in partitions])
    found: list[Message] = []
    deadline = time.monotonic() + WAIT_S
    while len(found) < count and time.monotonic() < deadline:
        for message in consumer.consume(count - len(found), 1.0):
            assert message.error() is None, message.error()
            found.append(message)
    assert len(found) == count
    return found


def as_sample(message: Message) -> Sample:
    return Sample(message.key(), message.value(), tuple(message.headers() or ()))


def test_confluent_reads_back_every_kind_of_record_in_order(
    bootstrap: str, admin: AdminClient, consumer: Consumer, topic: str
) -> None:
    create(admin, topic)
    offsets = produce(bootstrap, topic, SAMPLES)
    messages = read(consumer, topic, len(SAMPLES))
    assert [as_sample(message) for message in messages] == list(SAMPLES)
    assert [message.offset() for message in messages] == offsets == list(range(len(SAMPLES)))


@pytest.mark.parametrize("codec", CODECS)
def test_confluent_reads_back_what_it_compressed(
    bootstrap: str, admin: AdminClient, consumer: Consumer, topic: str, codec: str
) -> None:
    create(admin, topic)
    samples = [Sample(b"%d" % n, b"compressible " * n, (("n", b"%d" % n),)) for n in range(300)]
    produce(bootstrap, topic, samples, compression_type=codec)
    assert [as_sample(message) for message in read(consumer, topic, 300)] == samples


@pytest.mark.parametrize("codec", CODECS)
def test_confluent_reads_what_the_broker_recompressed(
    bootstrap: str, admin: AdminClient, consumer: Consumer, topic: str, codec: str
) -> None:
    create(admin, topic, compression_type="uncompressed" if codec == "none" else codec)
    samples = [Sample(b"%d" % n, b"compressible " * n, (("n", b"%d" % n),)) for n in range(100)]
    produce(bootstrap, topic, samples, compression_type="gzip")
    assert [as_sample(message) for message in read(consumer, topic, 100)] == samples


@pytest.mark.parametrize("codec", CODECS)
def test_confluent_passes_records_of_zero_bytes_and_of_a_megabyte(
    bootstrap: str, admin: AdminClient, consumer: Consumer, topic: str, codec: str
) -> None:
    create(admin, topic, max_message_bytes=str(ROOMY_BYTES))
    samples = [Sample(None, b""), Sample(b"big", noise(MEGABYTE, 3)), Sample(None, b"")]
    produce(bootstrap, topic, samples, compression_type=codec, message_max_bytes=ROOMY_BYTES)
    assert [as_sample(message) for message in read(consumer, topic, 3)] == samples


def test_confluent_uses_a_hundred_partitions(
    bootstrap: str, admin: AdminClient, consumer: Consumer, topic: str
) -> None:
    create(admin, topic, partitions=100)
    producer = Producer({"bootstrap.servers": bootstrap})
    for number in range(1000):
        producer.produce(topic, key=b"%d" % number, value=b"%d" % number, partition=number % 100)
    assert producer.flush(WAIT_S) == 0
    messages = read(consumer, topic, 1000, range(100))
    assert {int(m.value()) % 100 == m.partition() for m in messages} == {True}
    assert sorted(int(m.value()) for m in messages) == list(range(1000))
    for index in (0, 57, 99):
        assert consumer.get_watermark_offsets(TopicPartition(topic, index)) == (0, 10)


@pytest.mark.parametrize("acks", ["0", "1", "all"])
def test_confluent_delivers_with_every_level_of_acks(
    bootstrap: str, admin: AdminClient, consumer: Consumer, topic: str, acks: str
) -> None:
    create(admin, topic)
    produce(bootstrap, topic, SAMPLES, acks=acks)
    assert [as_sample(message) for message in read(consumer, topic, len(SAMPLES))] == list(SAMPLES)


def test_confluent_delivers_as_an_idempotent_producer(
    bootstrap: str, admin: AdminClient, consumer: Consumer, topic: str
) -> None:
    create(admin, topic)
    samples = [Sample(None, b"%d" % number) for number in range(5000)]
    offsets = produce(bootstrap, topic, samples, enable_idempotence=True, linger_ms=1)
    assert offsets == list(range(5000))
    assert [as_sample(message) for message in read(consumer, topic, 5000)] == samples


def test_confluent_creates_a_topic_by_producing_to_it(
    bootstrap: str, admin: AdminClient, consumer: Consumer, topic: str
) -> None:
    produce(bootstrap, topic, SAMPLES)
    assert topic in admin.list_topics(timeout=WAIT_S).topics
    assert len(read(consumer, topic, len(SAMPLES))) == len(SAMPLES)


def test_confluent_is_told_that_a_message_is_too_large(
    bootstrap: str, admin: AdminClient, topic: str
) -> None:
    create(admin, topic, max_message_bytes="1000")
    reports = Deliveries()
    producer = Producer({"bootstrap.servers": bootstrap})
    producer.produce(topic, noise(2000, 4), on_delivery=reports)
    producer.produce(topic, b"small", on_delivery=reports)
    assert producer.flush(WAIT_S) == 0
    codes = {error.code() if error else 0 for error, _ in reports}
    assert KafkaError.MSG_SIZE_TOO_LARGE in codes


def test_confluent_is_told_that_a_topic_does_not_exist(consumer: Consumer, topic: str) -> None:
    for _ in range(2):  # asking must not create it: a consumer does not allow that by default
        answer = consumer.list_topics(topic, WAIT_S).topics[topic]
        assert answer.error is not None
        assert answer.error.code() == KafkaError.UNKNOWN_TOPIC_OR_PART


def test_confluent_starts_over_when_its_offset_is_out_of_range(
    bootstrap: str, admin: AdminClient, topic: str
) -> None:
    create(admin, topic)
    produce(bootstrap, topic, SAMPLES)
    made = Consumer({"bootstrap.servers": bootstrap, **UNGROUPED, "auto.offset.reset": "earliest"})
    made.assign([TopicPartition(topic, 0, 10_000)])
    message = made.poll(WAIT_S)
    made.close()
    assert message is not None
    assert message.offset() == 0


def test_confluent_waiting_for_data_gets_it_at_once(
    bootstrap: str, admin: AdminClient, consumer: Consumer, topic: str
) -> None:
    """A fetch that waits is woken by the append, not by the end of its 500 ms."""
    create(admin, topic)
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 0})
    consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
    waits = []
    for number in range(10):
        consumer.poll(0.12)
        sent = time.monotonic()
        producer.produce(topic, b"%d" % number)
        producer.flush(WAIT_S)
        message = consumer.poll(WAIT_S)
        assert message is not None
        assert message.error() is None
        waits.append(time.monotonic() - sent)
    assert sorted(waits)[5] < 0.2, waits


def test_confluent_finds_offsets_by_time(
    bootstrap: str, admin: AdminClient, consumer: Consumer, topic: str
) -> None:
    create(admin, topic)
    start_ms = time.time_ns() // 1_000_000 - 100_000
    producer = Producer({"bootstrap.servers": bootstrap})
    for number in range(100):
        producer.produce(topic, b"%d" % number, timestamp=start_ms + number * 1000, partition=0)
    assert producer.flush(WAIT_S) == 0

    def at(time_ms: int) -> int:
        return int(
            consumer.offsets_for_times([TopicPartition(topic, 0, time_ms)], WAIT_S)[0].offset
        )

    assert at(start_ms + 41_500) == 42
    assert at(start_ms + 42_000) == 42
    assert at(start_ms - 1) == 0
    assert at(start_ms + 10_000_000) == -1
    first = read(consumer, topic, 100)[0]
    assert first.timestamp() == (TIMESTAMP_CREATE_TIME, start_ms)


def test_confluent_sees_the_append_time_where_the_topic_asks_for_it(
    bootstrap: str, admin: AdminClient, consumer: Consumer, topic: str
) -> None:
    create(admin, topic, message_timestamp_type="LogAppendTime")
    before_ms = time.time_ns() // 1_000_000 - 1000
    producer = Producer({"bootstrap.servers": bootstrap, "compression.type": "lz4"})
    for number in range(20):
        producer.produce(topic, b"%d" % number, timestamp=1_000_000_000_000)
    assert producer.flush(WAIT_S) == 0
    for message in read(consumer, topic, 20):
        kind, stamp_ms = message.timestamp()
        assert kind == TIMESTAMP_LOG_APPEND_TIME
        assert before_ms <= stamp_ms <= before_ms + 60_000


def test_confluent_describes_the_cluster(broker: Any, admin: AdminClient) -> None:
    cluster = admin.describe_cluster().result(WAIT_S)
    assert cluster.cluster_id
    assert [f"{node.host}:{node.port}" for node in cluster.nodes] == [broker.address]
    assert cluster.controller.id == cluster.nodes[0].id


def test_confluent_creates_describes_and_deletes_topics(admin: AdminClient, topic: str) -> None:
    create(admin, topic, partitions=3)
    described = done(admin.describe_topics(TopicCollection([topic])))[topic]
    assert [partition.id for partition in described.partitions] == [0, 1, 2]
    assert {len(partition.isr) for partition in described.partitions} == {1}
    assert str(described.topic_id)
    done(admin.delete_topics([topic]))
    assert topic not in admin.list_topics(timeout=WAIT_S).topics


def eventually_watermarks(consumer: Consumer, topic: str) -> tuple[int, int]:
    """Kafka's brokers learn of a new topic a little after its creation was answered."""
    deadline = time.monotonic() + WAIT_S
    while True:
        try:
            low, high = consumer.get_watermark_offsets(TopicPartition(topic, 0), WAIT_S)
            return low, high
        except KafkaException:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.1)


def test_confluent_recreates_a_deleted_topic_empty(
    bootstrap: str, admin: AdminClient, consumer: Consumer, topic: str
) -> None:
    create(admin, topic)
    produce(bootstrap, topic, SAMPLES)
    done(admin.delete_topics([topic]))
    create(admin, topic)
    assert eventually_watermarks(consumer, topic) == (0, 0)
    produce(bootstrap, topic, SAMPLES[:2])
    assert [as_sample(message) for message in read(consumer, topic, 2)] == list(SAMPLES[:2])


def test_confluent_is_told_why_a_topic_is_refused(admin: AdminClient, topic: str) -> None:
    def refusal(new: NewTopic) -> int:
        return int(failure(admin.create_topics([new])).code())

    create(admin, topic)
    assert refusal(NewTopic(topic, 1)) == KafkaError.TOPIC_ALREADY_EXISTS
    assert refusal(NewTopic("no spaces", 1)) == KafkaError.TOPIC_EXCEPTION
    assert refusal(NewTopic(topic + "x", 0)) == KafkaError.INVALID_PARTITIONS
    assert refusal(NewTopic(topic + "x", 1, 3)) == KafkaError.INVALID_REPLICATION_FACTOR
    bad = NewTopic(topic + "x", 1, config={"retention.ms": "soon"})
    assert refusal(bad) == KafkaError.INVALID_CONFIG
    unknown = NewTopic(topic + "x", 1, config={"no.such.key": "1"})
    assert refusal(unknown) == KafkaError.INVALID_CONFIG
    assert failure(admin.delete_topics([topic + "x"])).code() == KafkaError.UNKNOWN_TOPIC_OR_PART


def test_confluent_creates_nothing_when_it_only_validates(admin: AdminClient, topic: str) -> None:
    done(admin.create_topics([NewTopic(topic, 2)], validate_only=True))
    assert topic not in admin.list_topics(timeout=WAIT_S).topics


def test_confluent_adds_partitions_but_cannot_take_them_away(
    bootstrap: str, admin: AdminClient, consumer: Consumer, topic: str
) -> None:
    create(admin, topic)
    done(admin.create_partitions([NewPartitions(topic, 4)]))
    assert len(admin.list_topics(topic, timeout=WAIT_S).topics[topic].partitions) == 4
    produce(bootstrap, topic, SAMPLES, partition=3)
    assert len(read(consumer, topic, len(SAMPLES), [3])) == len(SAMPLES)
    shrunk = failure(admin.create_partitions([NewPartitions(topic, 2)]))
    assert shrunk.code() == KafkaError.INVALID_PARTITIONS


def topic_config(admin: AdminClient, topic: str) -> dict[str, ConfigEntry]:
    resource = ConfigResource(ResourceType.TOPIC, topic)
    return dict(done(admin.describe_configs([resource]))[resource])


def test_confluent_changes_topic_settings(admin: AdminClient, topic: str) -> None:
    create(admin, topic, retention_ms="60000")
    before = topic_config(admin, topic)
    assert before["retention.ms"].value == "60000"
    assert not before["retention.ms"].is_default
    assert before["segment.bytes"].value == "1073741824"
    assert before["segment.bytes"].is_default
    change = ConfigResource(
        ResourceType.TOPIC,
        topic,
        incremental_configs=[
            ConfigEntry("segment.bytes", "2000000", incremental_operation=Change.SET),
            ConfigEntry("retention.ms", None, incremental_operation=Change.DELETE),
            ConfigEntry("cleanup.policy", "compact", incremental_operation=Change.APPEND),
        ],
    )
    done(admin.incremental_alter_configs([change]))
    after = topic_config(admin, topic)
    assert after["segment.bytes"].value == "2000000"
    assert after["retention.ms"].value == "604800000"
    assert after["cleanup.policy"].value == "delete,compact"


def test_confluent_is_told_why_a_setting_is_refused(admin: AdminClient, topic: str) -> None:
    create(admin, topic)

    def refusal(name: str, key: str, value: str) -> int:
        entry = ConfigEntry(key, value, incremental_operation=Change.SET)
        change = ConfigResource(ResourceType.TOPIC, name, incremental_configs=[entry])
        return int(failure(admin.incremental_alter_configs([change])).code())

    assert refusal(topic, "retention.ms", "soon") == KafkaError.INVALID_CONFIG
    assert refusal(topic, "no.such.key", "1") == KafkaError.INVALID_CONFIG
    assert refusal(topic + "x", "retention.ms", "1") == KafkaError.UNKNOWN_TOPIC_OR_PART


def test_confluent_describes_the_broker_settings(admin: AdminClient) -> None:
    node = admin.describe_cluster().result(WAIT_S).nodes[0]
    resource = ConfigResource(ResourceType.BROKER, str(node.id))
    settings = done(admin.describe_configs([resource]))[resource]
    assert settings["num.partitions"].value == "1"
    assert settings["log.segment.bytes"].value == "1073741824"
    assert settings["node.id"].is_read_only


def test_confluent_lists_offsets(bootstrap: str, admin: AdminClient, topic: str) -> None:
    create(admin, topic, partitions=2)
    produce(bootstrap, topic, SAMPLES)
    place = TopicPartition(topic, 0)

    def offset(spec: OffsetSpec) -> int:
        return int(done(admin.list_offsets({place: spec}))[place].offset)

    assert offset(OffsetSpec.earliest()) == 0
    assert offset(OffsetSpec.latest()) == len(SAMPLES)
    assert 0 <= offset(OffsetSpec.max_timestamp()) < len(SAMPLES)
    assert offset(OffsetSpec.for_timestamp(0)) == 0


def test_confluent_deletes_records(
    bootstrap: str, admin: AdminClient, consumer: Consumer, topic: str
) -> None:
    create(admin, topic)
    produce(bootstrap, topic, SAMPLES)
    done(admin.delete_records([TopicPartition(topic, 0, 4)]))
    assert consumer.get_watermark_offsets(TopicPartition(topic, 0)) == (4, len(SAMPLES))
    left = read(consumer, topic, len(SAMPLES) - 4)
    assert [as_sample(message) for message in left] == list(SAMPLES[4:])
    beyond = failure(admin.delete_records([TopicPartition(topic, 0, 1000)]))
    assert beyond.code() == KafkaError.OFFSET_OUT_OF_RANGE
