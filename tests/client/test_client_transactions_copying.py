"""Consume, transform, produce: exactly once, while the processes that do it are killed."""

from __future__ import annotations

import random
import subprocess
import sys
import time
from pathlib import Path

import pytest
from bench.brokers import Broker
from confluent_kafka import Producer
from transaction_tools import committed_offsets, create_topic, read

PROCESS = [sys.executable, str(Path(__file__).with_name("copying_process.py"))]
PARTITIONS = 4
KILLS = 8
RECORDS_A_TURN = 1_000
RECORDS = RECORDS_A_TURN * (KILLS + 1)
WAIT_S = 40


def feed(bootstrap: str, topic: str, turn: int) -> None:
    producer = Producer({"bootstrap.servers": bootstrap})
    for number in range(turn * RECORDS_A_TURN, (turn + 1) * RECORDS_A_TURN):
        producer.produce(topic, f"record {number:05}".encode(), partition=number % PARTITIONS)
    assert producer.flush(WAIT_S) == 0


class Workers:
    """Two copying processes; the one that is killed is started again under the same id."""

    def __init__(self, *arguments: str) -> None:
        self._arguments = arguments
        self._running: dict[str, subprocess.Popen[str]] = {}

    def start(self, name: str, protocol: int) -> None:
        bootstrap, source, target, group = self._arguments
        line = [*PROCESS, bootstrap, source, target, group, f"{group}-{name}", str(protocol)]
        self._running[name] = subprocess.Popen(
            line, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
        )

    def kill(self, name: str) -> None:
        self._running.pop(name).kill()

    def check(self) -> None:
        for name, process in self._running.items():
            if process.poll() is not None:
                assert process.stderr is not None
                raise AssertionError(f"worker {name} ended:\n{process.stderr.read()}")

    def end(self) -> None:
        for process in self._running.values():
            process.kill()
            process.communicate()


@pytest.mark.timeout(110)
@pytest.mark.parametrize("protocol", [1, 2])
def test_each_record_is_copied_once_though_the_copying_processes_are_killed(
    group_broker: Broker, topic: str, protocol: int
) -> None:
    bootstrap = group_broker.address
    target, group = f"{topic}-copy", f"{topic}-group"
    create_topic(bootstrap, topic, PARTITIONS)
    create_topic(bootstrap, target, PARTITIONS)
    workers = Workers(bootstrap, topic, target, group)
    chance = random.Random(protocol)
    try:
        for name in ("a", "b"):
            workers.start(name, protocol)
        for turn in range(KILLS):
            feed(bootstrap, topic, turn)
            time.sleep(chance.uniform(0.2, 2.2))
            workers.check()
            victim = "ab"[turn % 2]
            workers.kill(victim)
            workers.start(victim, protocol)
        feed(bootstrap, topic, KILLS)
        until_copied(bootstrap, group, workers)
    finally:
        workers.end()
    expected = [
        f"RECORD {number:05}"
        for partition in range(PARTITIONS)
        for number in range(partition, RECORDS, PARTITIONS)
    ]
    assert read(bootstrap, target, partitions=PARTITIONS) == expected


def until_copied(bootstrap: str, group: str, workers: Workers) -> None:
    deadline = time.monotonic() + WAIT_S
    while sum(committed_offsets(bootstrap, group).values()) < RECORDS:
        assert time.monotonic() < deadline, committed_offsets(bootstrap, group)
        workers.check()
        time.sleep(0.2)
