"""Transactions without `await`: what is particular to records that are handed over to a thread."""

from __future__ import annotations

from typing import Any

import pytest
from transaction_tools import committed_offsets, create_topic, read

from ottla.blocking import Producer
from ottla.client.errors import TransactionFailed, TransactionStateError
from ottla.client.values import GroupMetadata, TopicPartition


@pytest.fixture
def one_partition(bootstrap: str, topic: str) -> str:
    create_topic(bootstrap, topic)
    return topic


def broken_block(producer: Producer, topic: str) -> None:
    with producer.transaction():
        producer.send(topic, b"broken")
        raise ZeroDivisionError


def test_the_block_commits_records_and_offsets_or_aborts(
    bootstrap: str, one_partition: str
) -> None:
    topic = one_partition
    with Producer(bootstrap_servers=bootstrap, transactional_id=topic) as producer:
        producer.init_transactions()
        with producer.transaction():
            for number in range(2_000):
                producer.send(topic, b"%d" % number)
            offsets = {TopicPartition(topic, 0): 5}
            producer.send_offsets_to_transaction(offsets, GroupMetadata(f"group-of-{topic}"))
        with pytest.raises(ZeroDivisionError):
            broken_block(producer, topic)
        with pytest.raises(TransactionStateError, match="begin_transaction"):
            producer.send(topic, b"out of turn")
    assert read(bootstrap, topic) == [str(number) for number in range(2_000)]
    assert committed_offsets(bootstrap, f"group-of-{topic}") == {(topic, 0): 5}


def test_a_record_that_was_lost_on_its_way_to_the_loop_keeps_the_transaction_from_being_committed(
    bootstrap: str, one_partition: str
) -> None:
    topic = one_partition

    def choose(topic: str, key: Any, value: Any, partitions: Any) -> int:
        if value == b"bad":
            raise ZeroDivisionError
        return 0

    with Producer(
        bootstrap_servers=bootstrap, transactional_id=topic, partitioner=choose
    ) as producer:
        producer.init_transactions()
        producer.begin_transaction()
        for number in range(20):
            sent = producer.send(topic, b"bad" if number == 10 else b"good")
            if number == 10:
                bad = sent
        with pytest.raises(TransactionFailed, match="ZeroDivisionError"):
            producer.commit_transaction()
        with pytest.raises(ZeroDivisionError):
            bad.result()
        producer.abort_transaction()
        with producer.transaction():
            producer.send(topic, b"the next one")
    assert read(bootstrap, topic) == ["the next one"]
