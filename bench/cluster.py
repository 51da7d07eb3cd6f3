"""Three nodes beside three of Apache Kafka: replicated writes, fail-over, elections, metadata.

Topics have three replicas, `min.insync.replicas` is 2, producers use `acks=all`. Both sides have
the same settings, also those that decide how soon a dead node is noticed (docs/cluster.md). All
nodes share this machine with the client, so the figures are for comparison only and say nothing
about three machines.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from bench import wire
from bench.cluster_nodes import NODES, Trio, await_true
from bench.latency import at_percent
from bench.results import Reading
from bench.sides import Bench

SIZE = 1000
PARTITIONS = 6
CHUNK = 1000
DEADLINE_S = 180.0
LATENCY_PER_S = 200
KILLS = 3
PACE_S = 0.005
BACK_S = 30.0


def run(bench: Bench) -> None:
    work: list[tuple[str, Callable[[Trio, Bench], list[Reading]]]] = [
        ("replicated produce", _produce),
        ("produce latency", _latency),
        ("fail-over", _fail_over),
        ("elections", _elections),
    ]
    for number in range(bench.pick(1, 3)):
        sides = [None, *([bench.libs] if bench.libs is not None else [])]
        for libs in sides[:: 1 if number % 2 else -1]:
            _round(bench, libs, work, number)


def _round(bench: Bench, libs: Path | None, work: Any, number: int) -> None:
    folder = bench.folder / f"trio-{number}"
    with Trio(folder, libs, {"auto.leader.rebalance.enable": "false"}) as trio:
        for title, measure in work:
            bench.say(f"cluster, {title}: {trio.name}, round {number + 1}")
            bench.results.add(trio.name, measure(trio, bench))


# Writes


def _produce(trio: Trio, bench: Bench) -> list[Reading]:
    _create(trio, "replicated", PARTITIONS)
    _send(trio, "replicated", 20_000)  # a JVM needs a while to reach full speed
    count = bench.pick(50, 200) * 1_000_000 // SIZE
    cpu = trio.cpu_s()
    taken = _send(trio, "replicated", count)
    used, total = trio.cpu_s() - cpu, count * SIZE
    name = f"3 nodes, acks=all, {SIZE} B, {PARTITIONS} part."
    return [
        Reading(f"{name}: throughput", total / taken / 1e6, "MB/s", less_is_better=False),
        Reading(f"{name}: CPU of all brokers", used / (total / 1e9), "s/GB"),
        Reading("3 nodes: memory of all (RSS)", trio.rss_bytes() / 1e6, "MB"),
    ]


def _send(trio: Trio, topic: str, count: int) -> float:
    """Return the seconds from the first record sent to the last one acknowledged."""
    producer = Producer(
        {"bootstrap.servers": trio.address, "acks": "all", "enable.idempotence": True}
    )
    value = (bytes(range(256)) * (SIZE // 256 + 1))[:SIZE]
    chunks = [[{"value": value, "partition": place}] * CHUNK for place in range(PARTITIONS)]
    started = time.monotonic()
    for number in range(count // CHUNK):
        while len(producer) > 90_000:  # below the limit of its queue
            producer.poll(0.005)
        if producer.produce_batch(topic, chunks[number % PARTITIONS]) != CHUNK:
            raise RuntimeError(f"{trio.name} did not take {count} records")
    if producer.flush(DEADLINE_S):
        raise RuntimeError(f"{trio.name} did not acknowledge everything in {DEADLINE_S} s")
    return time.monotonic() - started


def _latency(trio: Trio, bench: Bench) -> list[Reading]:
    """Measure latency at a modest rate, from when each request was due."""
    _create(trio, "paced", 1)
    leader = _leaders(trio, "paced")[0]
    frame = wire.produce_frame("paced", 0, wire.batch([bytes(SIZE)]))
    taken_ms = []
    with wire.Peer(trio.nodes[leader].port) as peer:
        for _ in range(200):
            peer.ask(frame)
        start = time.monotonic()
        for number in range(LATENCY_PER_S * bench.pick(4, 15)):
            due = start + number / LATENCY_PER_S
            if (pause := due - time.monotonic()) > 0:
                time.sleep(pause)
            if wire.parse_produce(peer.ask(frame)).error:
                raise RuntimeError(f"{trio.name} refused a batch")
            taken_ms.append((time.monotonic() - due) * 1e3)
    taken_ms.sort()
    name = f"3 nodes, acks=all, latency at {LATENCY_PER_S}/s"
    return [
        Reading(f"{name}: p{percent:g}", at_percent(taken_ms, percent), "ms")
        for percent in (50, 99)
    ]


# Fail-over


class Pulse:
    """A producer that writes to one partition all the time, and keeps the times of the answers."""

    def __init__(self, trio: Trio, topic: str) -> None:
        self.heard: list[float] = []
        self._topic = topic
        self._stopping = threading.Event()
        self._producer = Producer(
            {
                "bootstrap.servers": trio.address,
                "acks": "all",
                "linger.ms": 0,
                "enable.idempotence": True,
                "request.timeout.ms": 1500,
                "log_level": 0,
                "retry.backoff.ms": 20,
                "reconnect.backoff.max.ms": 100,
                "topic.metadata.refresh.fast.interval.ms": 50,
            }
        )
        self._thread = threading.Thread(target=self._beat)
        self._thread.start()

    def _beat(self) -> None:
        while not self._stopping.is_set():
            self._producer.produce(self._topic, b"beat", partition=0, on_delivery=self._delivered)
            self._producer.poll(PACE_S)
            time.sleep(PACE_S)
        self._producer.flush(10)

    def _delivered(self, error: object, _: object) -> None:
        if error is None:
            self.heard.append(time.monotonic())

    def await_steady(self) -> None:
        """Wait until a write has just been answered, so that a gap can be measured."""
        began = time.monotonic()
        await_true(lambda: self.heard and self.heard[-1] > began, BACK_S, "writes are answered")

    def gap_around(self, moment: float) -> float:
        """Return the time from the last answer before the moment to the first after it."""
        await_true(lambda: self.heard and self.heard[-1] > moment + 0.5, BACK_S, "writes are back")
        heard = list(self.heard)
        return max(after - before for before, after in pairwise(heard) if after > moment)

    def stop(self) -> None:
        self._stopping.set()
        self._thread.join()


def _fail_over(trio: Trio, bench: Bench) -> list[Reading]:
    _create(trio, "beats", 1)
    pulse = Pulse(trio, "beats")
    killed, stopped = [], []
    try:
        for _ in range(bench.pick(1, KILLS)):
            time.sleep(1)
            killed.append(_lose(trio, pulse, lambda node: node.kill()))
            time.sleep(1)
            stopped.append(_lose(trio, pulse, lambda node: node.stop()))
    finally:
        pulse.stop()
    return [
        Reading("3 nodes, leader killed: no writes for", max(killed), "s", target=3.0),
        Reading("3 nodes, leader stopped properly: no writes for", max(stopped), "s", target=0.5),
    ]


def _lose(trio: Trio, pulse: Pulse, by: Callable[[Any], object]) -> float:
    leader = _leaders(trio, "beats")[0]
    pulse.await_steady()
    moment = time.monotonic()
    by(trio.nodes[leader])
    gap = pulse.gap_around(moment)
    trio.start(leader)
    await_true(lambda: _in_sync(trio, "beats"), BACK_S, "the copy is in sync again")
    return gap


# Elections and metadata


def _elections(trio: Trio, bench: Bench) -> list[Reading]:
    count = bench.pick(1000, 5000)
    before = trio.metadata_bytes()
    started = time.monotonic()
    _create(trio, "wide", count)
    created_s = time.monotonic() - started
    grown = trio.metadata_bytes() - before
    victim = NODES[-1]
    led = sum(leader == victim for leader in _leaders(trio, "wide").values())
    started = time.monotonic()
    trio.nodes[victim].kill()
    await_true(lambda: victim not in _leaders(trio, "wide").values(), 120, "new leaders")
    elected_s = time.monotonic() - started
    trio.start(victim)
    await_true(lambda: _in_sync(trio, "wide"), 300, "all copies are in sync again")
    recovered_s = time.monotonic() - started - elected_s
    name = f"3 nodes, {count} partitions"
    return [
        Reading(f"{name}: created with 3 copies", created_s, "s"),
        Reading(f"{name}: {led} leaders elected after a kill", elected_s, "s"),
        Reading(f"{name}: back and in sync", recovered_s, "s"),
        Reading(f"{name}: metadata of one", grown / count, "B"),
        Reading(f"{name}: memory of all (RSS)", trio.rss_bytes() / 1e6, "MB"),
    ]


# Topics


def _admin(trio: Trio) -> AdminClient:
    return AdminClient({"bootstrap.servers": trio.address, "log_level": 0})


def _create(trio: Trio, name: str, partitions: int) -> None:
    """Return once every partition has a leader and all replicas are in sync."""
    topic, admin = NewTopic(name, partitions, len(NODES)), _admin(trio)
    admin.create_topics([topic], request_timeout=120)[name].result(120)
    await_true(
        lambda: len(_leaders(trio, name)) == partitions and _in_sync(trio, name), 120, "leaders"
    )


def _partitions(trio: Trio, name: str) -> dict[int, Any]:
    found: dict[int, Any] = _admin(trio).list_topics(name, timeout=30).topics[name].partitions
    return found


def _leaders(trio: Trio, name: str) -> dict[int, int]:
    return {place: one.leader for place, one in _partitions(trio, name).items() if one.leader >= 0}


def _in_sync(trio: Trio, name: str) -> bool:
    return all(set(one.isrs) == set(one.replicas) for one in _partitions(trio, name).values())
