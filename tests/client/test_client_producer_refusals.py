"""What the producer refuses, and with which words, on a real broker."""

from __future__ import annotations

import pytest
from producer_tools import (
    create_topic,
    producer,
    run,
    values,
)

from ottla.client.errors import (
    NotBytes,
    RecordTooLarge,
    TopicMissing,
)
from ottla.protocol.errors import ErrorCode, KafkaError


def test_a_record_larger_than_a_request_may_be_is_refused_at_once(
    bootstrap: str, topic: str
) -> None:
    async def main() -> None:
        async with producer(bootstrap, max_request_size=1000, buffer_memory=5000) as sender:
            with pytest.raises(RecordTooLarge, match=r"max_request_size \(1000\)"):
                await sender.send(topic, b"x" * 1000)
            with pytest.raises(RecordTooLarge, match=r"buffer_memory \(5000\)"):
                await sender.send(topic, b"x" * 6000)
            await sender.send_and_wait(topic, b"x" * 900)

    run(main)


def test_a_record_larger_than_a_batch_gets_one_of_its_own(bootstrap: str, topic: str) -> None:
    create_topic(bootstrap, topic)

    async def main() -> None:
        async with producer(bootstrap, batch_size=1000, linger_ms=50) as sender:
            for size in (10, 5000, 10):
                await sender.send(topic, b"x" * size)
            await sender.flush()
            assert sender.metrics()["record-send-total"] == 3
            assert sender.metrics()["request-total"] >= 3

    run(main)
    assert [len(value or b"") for value in values(bootstrap, topic)] == [10, 5000, 10]


def test_text_is_refused_with_a_hint(bootstrap: str, topic: str) -> None:
    async def main() -> None:
        async with producer(bootstrap) as sender:
            await sender.partitions_for(topic)
            with pytest.raises(NotBytes, match=r"the value is str, not bytes: write \.encode\(\)"):
                await sender.send(topic, "text")
            with pytest.raises(NotBytes, match="key_serializer"):
                await sender.send(topic, b"x", 5)
            with pytest.raises(NotBytes, match="value of a header"):
                await sender.send(topic, b"x", headers=[("h", "text")])  # type: ignore[list-item]
            with pytest.raises(TypeError, match="name of a header"):
                await sender.send(topic, b"x", headers=[(b"h", b"")])  # type: ignore[list-item]
            with pytest.raises(ValueError, match="negative"):
                await sender.send(topic, b"x", timestamp_ms=-5)
            await sender.flush()
            assert sender.metrics()["buffer-available-bytes"] == 32 << 20

    run(main)


def test_a_partition_that_is_not_there_is_refused(bootstrap: str, topic: str) -> None:
    create_topic(bootstrap, topic, 2)

    async def main() -> None:
        async with producer(bootstrap) as sender:
            for partition in (2, -1):
                with pytest.raises(TopicMissing, match=f"has no partition {partition}"):
                    await sender.send(topic, b"x", partition=partition)

    run(main)


def test_a_topic_that_is_not_to_be_created_is_missed_after_max_block_ms(
    bootstrap: str, topic: str
) -> None:
    async def main() -> None:
        async with producer(bootstrap, allow_auto_create_topics=False, max_block_ms=300) as sender:
            with pytest.raises(TopicMissing, match=topic):
                await sender.send(topic, b"x")

    run(main)


def test_a_topic_is_created_where_the_broker_creates_topics(bootstrap: str, topic: str) -> None:
    async def main() -> None:
        async with producer(bootstrap) as sender:
            await sender.send(topic, b"x")
            assert await sender.partitions_for(topic) == {0}

    run(main)
    assert values(bootstrap, topic) == [b"x"]


def test_a_name_that_no_topic_can_have_is_refused_at_once(bootstrap: str) -> None:
    async def main() -> None:
        async with producer(bootstrap) as sender:
            with pytest.raises(KafkaError) as caught:
                await sender.send("a/b", b"x")
            assert caught.value.code is ErrorCode.INVALID_TOPIC_EXCEPTION

    run(main)
