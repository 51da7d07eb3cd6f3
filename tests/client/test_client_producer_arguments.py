"""What `send` and its like refuse, and that nothing stays behind of it."""

from __future__ import annotations

from typing import Any

import pytest
from producer_tools import create_topic, read, run, values

from ottla.blocking.producer import Producer as BlockingProducer
from ottla.client.producer.producer import Producer
from ottla.client.producer.transactions.prepared import PreparedTransaction
from ottla.client.values import TopicPartition
from ottla.protocol.errors import ErrorCode, KafkaError

WRONG_TOPICS = [(5, TypeError), (b"t", TypeError), (None, TypeError), ("", ValueError)]
WRONG_TOPICS += [("x" * 250, ValueError), ("\ud800", ValueError)]

WRONG_ARGUMENTS: list[tuple[dict[str, Any], str]] = [
    ({"partition": "0"}, "partition is '0', not a number"),
    ({"partition": 0.5}, "partition is 0.5, not a number"),
    ({"headers": [("a",)]}, r"headers are pairs of a name and bytes.*\('a',\)"),
    ({"headers": [("a", b"1", 2)]}, "headers are pairs"),
    ({"headers": "abc"}, "headers are pairs.*'abc'"),
    ({"headers": 5}, "headers are pairs"),
    ({"headers": [5]}, "headers are pairs"),
    ({"headers": [(b"a", b"1")]}, "the name of a header is bytes"),
    ({"on_delivery": 5}, "on_delivery is 5, which cannot be called"),
]


def test_a_wrong_topic_is_refused_and_not_remembered(bootstrap: str, topic: str) -> None:
    async def main() -> None:
        async with Producer(bootstrap_servers=bootstrap, max_block_ms=5_000) as producer:
            for wrong, kind in WRONG_TOPICS:
                with pytest.raises(kind, match="topic"):
                    await producer.send(wrong, b"x")  # type: ignore[arg-type]
                with pytest.raises(kind, match="topic"):
                    await producer.partitions_for(wrong)  # type: ignore[arg-type]
            await producer.send_and_wait(topic, b"x")

    run(main)
    assert values(bootstrap, topic) == [b"x"]


def test_a_name_that_the_broker_refuses_is_told_and_not_asked_for_again(
    bootstrap: str, topic: str
) -> None:
    async def main() -> None:
        async with Producer(bootstrap_servers=bootstrap, max_block_ms=5_000) as producer:
            for _ in range(2):
                with pytest.raises(KafkaError) as caught:
                    await producer.send("no topic!", b"x")
                assert caught.value.code is ErrorCode.INVALID_TOPIC_EXCEPTION
            await producer.send_and_wait(topic, b"x")
            engine = producer._running()
            assert "no topic!" not in engine.cluster.view.topics
            assert set(engine.cluster.metadata._watched) == {topic}

    run(main)


@pytest.mark.parametrize("knows_topic", [False, True])
def test_wrong_arguments_are_told_at_once_and_the_record_is_not_taken(
    bootstrap: str, topic: str, knows_topic: bool
) -> None:
    create_topic(bootstrap, topic)

    async def main() -> None:
        async with Producer(bootstrap_servers=bootstrap) as producer:
            if knows_topic:
                await producer.send_and_wait(topic, b"first")
            for arguments, text in WRONG_ARGUMENTS:
                with pytest.raises(TypeError, match=text):
                    await producer.send(topic, b"x", **arguments)

    run(main)
    assert values(bootstrap, topic) == ([b"first"] if knows_topic else [])


def test_the_blocking_producer_refuses_the_same(bootstrap: str, topic: str) -> None:
    create_topic(bootstrap, topic)
    with BlockingProducer(bootstrap_servers=bootstrap, max_block_ms=5_000) as producer:
        for _ in range(2):
            for wrong, kind in WRONG_TOPICS:
                with pytest.raises(kind, match="topic"):
                    producer.send(wrong, b"x")  # type: ignore[arg-type]
            for arguments, text in WRONG_ARGUMENTS:
                with pytest.raises(TypeError, match=text):
                    producer.send(topic, b"x", **arguments)
            with pytest.raises(ValueError, match="negative"):
                producer.send(topic, b"x", timestamp_ms=-5)
            producer.send_and_wait(topic, b"fine")
    assert values(bootstrap, topic) == [b"fine", b"fine"]


def test_a_partition_may_be_any_whole_number(bootstrap: str, topic: str) -> None:
    create_topic(bootstrap, topic, 2)

    class Number:
        def __index__(self) -> int:
            return 1

        def __ge__(self, other: int) -> bool:
            return other <= 1

        def __lt__(self, other: int) -> bool:
            return other > 1

    async def main() -> None:
        async with Producer(bootstrap_servers=bootstrap) as producer:
            for _ in range(2):
                await producer.send(topic, b"x", partition=Number())  # type: ignore[arg-type]

    run(main)
    assert {at: len(found) for at, found in read(bootstrap, topic, 2).items()} == {0: 0, 1: 2}


def test_offsets_of_a_transaction_need_the_metadata_of_the_group(bootstrap: str) -> None:
    async def main() -> None:
        async with Producer(bootstrap_servers=bootstrap, transactional_id="offsets") as producer:
            with pytest.raises(TypeError, match=r"'group'; give consumer.group_metadata\(\)"):
                await producer.send_offsets_to_transaction({TopicPartition("t", 0): 1}, "group")  # type: ignore[arg-type]

    run(main)


@pytest.mark.parametrize("wrong", [None, 5, b"1:2:open:x"])
def test_only_text_is_parsed_as_a_prepared_transaction(wrong: Any) -> None:
    with pytest.raises(TypeError, match="prepared transaction is a str"):
        PreparedTransaction.parse(wrong)
