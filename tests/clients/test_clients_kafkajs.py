"""kafkajs, which speaks old protocol versions: producing and administering.

Its consumer always joins a group, so what it wrote is read back by confluent-kafka.
"""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from client_samples import CODECS, MEGABYTE, UNGROUPED
from confluent_kafka import OFFSET_BEGINNING, Consumer, Message, TopicPartition

SCRIPT = Path(__file__).parent / "kafkajs" / "roundtrip.js"
Run = Callable[[str], Any]


@pytest.fixture
def kafkajs(node_program: str, bootstrap: str, topic: str) -> Run:
    def run(scenario: str) -> Any:
        done = subprocess.run(
            [node_program, str(SCRIPT), bootstrap, topic, scenario],
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert done.returncode == 0, done.stderr + done.stdout
        return json.loads(done.stdout.splitlines()[-1])

    return run


def read(bootstrap: str, topic: str, count: int) -> list[Message]:
    consumer = Consumer({"bootstrap.servers": bootstrap, **UNGROUPED})
    consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
    found: list[Message] = []
    deadline = time.monotonic() + 30
    while len(found) < count and time.monotonic() < deadline:
        found += consumer.consume(count - len(found), 1.0)
    consumer.close()
    assert [message.error() for message in found] == [None] * count
    return found


def test_kafkajs_writes_every_kind_of_record(kafkajs: Run, bootstrap: str, topic: str) -> None:
    (answer,) = kafkajs("records")
    assert (answer["errorCode"], answer["baseOffset"]) == (0, "0")
    messages = read(bootstrap, topic, 5)
    assert [(m.key(), m.value()) for m in messages] == [
        (b"key", b"value"),
        (None, b"no key"),
        (b"no value", None),
        (b"", b""),
        (b"partitioned", b"with a timestamp"),
    ]
    assert messages[0].headers() == [("trace", b"\x00\xff"), ("twice", b"1"), ("twice", b"2")]
    assert messages[4].timestamp()[1] == 1_700_000_000_000


@pytest.mark.parametrize("codec", CODECS)
def test_kafkajs_compresses(kafkajs: Run, bootstrap: str, topic: str, codec: str) -> None:
    kafkajs(f"codec:{codec}")
    messages = read(bootstrap, topic, 200)
    assert [m.value() for m in messages] == [b"compressible " * n for n in range(200)]


@pytest.mark.parametrize("acks", [0, 1, -1])
def test_kafkajs_delivers_with_every_level_of_acks(
    kafkajs: Run, bootstrap: str, topic: str, acks: int
) -> None:
    kafkajs(f"acks:{acks}")
    assert [m.value() for m in read(bootstrap, topic, 2)] == [b"one", b"two"]


def test_kafkajs_writes_a_megabyte(kafkajs: Run, bootstrap: str, topic: str) -> None:
    kafkajs("large")
    assert read(bootstrap, topic, 1)[0].value() == b"m" * MEGABYTE


def test_kafkajs_creates_a_topic_by_producing_to_it(
    kafkajs: Run, bootstrap: str, topic: str
) -> None:
    kafkajs("autocreate")
    assert read(bootstrap, topic, 1)[0].value() == b"hello"


def test_kafkajs_uses_a_hundred_partitions(kafkajs: Run, bootstrap: str, topic: str) -> None:
    kafkajs("partitions")
    for index in (0, 57, 99):
        consumer = Consumer({"bootstrap.servers": bootstrap, **UNGROUPED})
        consumer.assign([TopicPartition(topic, index, OFFSET_BEGINNING)])
        # A retry of a part of its batches may double some: kafkajs is not idempotent by default.
        values: set[int] = set()
        while len(values) < 5:
            message = consumer.poll(30)
            assert message is not None
            values.add(int(message.value()))
        consumer.close()
        assert values == set(range(index, 500, 100))


def test_kafkajs_is_told_that_a_message_is_too_large(kafkajs: Run) -> None:
    assert kafkajs("toolarge") == {"type": "MESSAGE_TOO_LARGE"}


def test_kafkajs_administers(kafkajs: Run, bootstrap: str) -> None:
    assert kafkajs("admin") == {
        "created": True,
        "again": False,
        "partitions": 4,
        "retention": "1234567",
        "byTime": "5",
        "offsets": {"partition": 1, "offset": "10", "high": "10", "low": "3"},
        "brokers": [bootstrap],
        "left": False,
    }
