"""Partitions between two data folders of a broker process: Kafka's tools, ours, and `kill -9`."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from bench.brokers import Broker, run_java
from cli_tools import call
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from broker_harness import MakeBroker

WAIT_S = 30
LIMIT = "replica.alter.log.dirs.io.max.bytes.per.second"


class TwoFolders:
    def __init__(self, make: MakeBroker, folder: Path, **settings: str) -> None:
        self.paths = [folder / "one", folder / "two"]
        options = {"log.dirs": ",".join(map(str, self.paths))}
        options |= {name.replace("_", "."): value for name, value in settings.items()}
        self.broker: Broker = make(options)
        admin = AdminClient({"bootstrap.servers": self.broker.address})
        admin.create_topics([NewTopic("t", 1, 1)])["t"].result(WAIT_S)
        self.written: list[bytes] = []
        self.write(2000)

    def write(self, count: int) -> None:
        producer = Producer({"bootstrap.servers": self.broker.address, "batch.size": 20_000})
        first = len(self.written)
        fresh = [b"%06d" % n + b"x" * 1000 for n in range(first, first + count)]
        for value in fresh:
            producer.produce("t", value)
        assert producer.flush(WAIT_S) == 0
        self.written += fresh

    def read(self) -> list[bytes | None]:
        consumer = Consumer({"bootstrap.servers": self.broker.address, "group.id": "g"})
        consumer.assign([TopicPartition("t", 0, 0)])
        try:
            found: list[bytes | None] = []
            deadline = time.monotonic() + WAIT_S
            while len(found) < len(self.written) and time.monotonic() < deadline:
                found += [message.value() for message in consumer.consume(1000, 0.5)]
            return found
        finally:
            consumer.close()

    @property
    def home(self) -> Path:
        (path,) = [path for path in self.paths if (path / "t-0").is_dir()]
        return path

    @property
    def other(self) -> Path:
        return next(path for path in self.paths if path != self.home)

    @property
    def copies(self) -> list[Path]:
        return [found for path in self.paths for found in path.glob("t-0.*-future")]

    def ottla(self, *arguments: str) -> Any:
        return call(*arguments, environment={"OTTLA_BOOTSTRAP": self.broker.address})

    def until_home_is(self, path: Path) -> None:
        _until((path / "t-0").is_dir, "the replica did not arrive")

    def until_copy_has(self, size: int) -> None:
        _until(lambda: sum(map(_bytes_of_records, self.copies)) >= size, "the copy did not grow")


def _until(holds: Callable[[], bool], otherwise: str) -> None:
    deadline = time.monotonic() + WAIT_S
    while not holds():
        assert time.monotonic() < deadline, otherwise
        time.sleep(0.05)


def _bytes_of_records(folder: Path) -> int:
    return sum(file.stat().st_size for file in folder.glob("*.log"))


def test_kafkas_own_tool_moves_partitions_between_folders(
    fresh_broker: MakeBroker, kafka_libs: Path, tmp_path: Path
) -> None:
    folders = TwoFolders(fresh_broker, tmp_path)
    target = folders.other
    wish = {"topic": "t", "partition": 0, "replicas": [1], "log_dirs": [str(target)]}
    plan = tmp_path / "plan.json"
    plan.write_text(json.dumps({"version": 1, "partitions": [wish]}))

    def tool(*arguments: str) -> str:
        where = ("--bootstrap-server", folders.broker.address)
        name = "org.apache.kafka.tools.reassign.ReassignPartitionsCommand"
        given = (*where, "--reassignment-json-file", str(plan), *arguments)
        return run_java(kafka_libs, name, *given).stdout

    assert "Successfully started moving log directory" in tool("--execute")
    folders.until_home_is(target)
    assert "completed" in tool("--verify")
    assert folders.read() == folders.written


def test_our_tool_moves_them_and_shows_the_way(fresh_broker: MakeBroker, tmp_path: Path) -> None:
    folders = TwoFolders(fresh_broker, tmp_path)
    target = folders.other
    moved = folders.ottla("log-dirs", "move", "t:0", "--to", str(target), "--json").json
    assert (moved["done"], len(moved["replicas"])) == (True, 1)
    assert folders.home == target
    assert folders.read() == folders.written
    refused = folders.ottla("log-dirs", "move", "t", "--to", "/elsewhere")
    assert refused.code != 0
    assert "/elsewhere" in refused.err


@pytest.mark.ottla_only
def test_a_move_goes_on_after_kill_9(fresh_broker: MakeBroker, tmp_path: Path) -> None:
    # The first eleven seconds' worth comes at once: 1.1 of 2 MB.
    folders = TwoFolders(
        fresh_broker, tmp_path, replica_alter_log_dirs_io_max_bytes_per_second="100000"
    )
    source, target = folders.home, folders.other
    folders.ottla("log-dirs", "move", "t:0", "--to", str(target), "--no-wait")
    folders.until_copy_has(500_000)
    assert (folders.home, len(folders.copies)) == (source, 1)
    folders.write(10)
    for _ in range(3):
        folders.broker.kill()
        folders.broker.start()
        assert folders.home in (source, target)
        folders.write(10)
    folders.ottla("configs", "alter", "--broker", "1", "--set", f"{LIMIT}=100000000")
    folders.until_home_is(target)
    assert folders.home == target
    assert not folders.copies
    assert folders.read() == folders.written
