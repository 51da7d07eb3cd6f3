"""`__consumer_offsets` as Kafka's own tool reads it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from bench.brokers import Broker, run_java
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from ottla.broker.coordinator.hashing import partition_of

WAIT_S = 20.0


@pytest.mark.ottla_only
def test_kafka_reads_the_offsets_and_groups_that_are_written(
    fresh_broker: Callable[..., Broker], kafka_libs: Path
) -> None:
    broker = fresh_broker({"group.initial.rebalance.delay.ms": "0"})
    admin = AdminClient({"bootstrap.servers": broker.address})
    admin.create_topics([NewTopic("t", 2, 1)])["t"].result(WAIT_S)
    consumer = Consumer(
        {"bootstrap.servers": broker.address, "group.id": "g", "client.id": "someone"}
    )
    consumer.subscribe(["t"])
    while len(consumer.assignment()) < 2:
        consumer.poll(0.1)
    place = TopicPartition("t", 1, 42, metadata="a note")
    consumer.commit(offsets=[place], asynchronous=False)
    consumer.close()
    broker.stop()
    entries = dumped(broker, kafka_libs, "g")
    committed = [value for key, value in entries if key["type"] == "1"]
    (value,) = committed
    # The client counts the zero at the end of a C string as part of it.
    note = value["data"]["metadata"].rstrip("\0")
    assert (value["version"], value["data"]["offset"], note) == ("4", 42, "a note")
    groups = [value["data"] for key, value in entries if key["type"] == "2"]
    assert [len(group["members"]) for group in groups][-2:] == [1, 0]
    (member,) = groups[-2]["members"]
    assert (member["clientId"], member["clientHost"]) == ("someone", "/127.0.0.1")
    assert groups[-1]["protocolType"] == "consumer"


def dumped(broker: Broker, libs: Path, group: str) -> list[tuple[dict, dict]]:
    """Keys and values of the partition of a group, in order."""
    folder = broker.data / f"__consumer_offsets-{partition_of(group, 50)}"
    segment = folder / "00000000000000000000.log"
    done = run_java(
        libs, "org.apache.kafka.tools.DumpLogSegments", "--offsets-decoder", "--files", str(segment)
    )
    found = []
    for line in done.stdout.splitlines():
        if " key: " in line:
            key, _, payload = line.partition(" key: ")[2].partition(" payload: ")
            found.append((json.loads(key), json.loads(payload)))
    return found
