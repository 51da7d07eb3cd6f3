"""Start-up, memory, and the cost of many partitions and many connections."""

from __future__ import annotations

import time
from functools import partial

from confluent_kafka import Producer

from bench import wire
from bench.brokers import Broker
from bench.requests import pipeline
from bench.results import Reading
from bench.sides import Bench
from bench.topics import create

START_S_TARGET = 0.5
IDLE_RSS_MB_TARGET = 80.0
CONNECTIONS = 1000
FILL_TIMEOUT_S = 180.0


def run_startup(bench: Bench) -> None:
    bench.alternate_fresh("start-up", _startup, rounds=bench.pick(1, 5))


def _startup(broker: Broker) -> list[Reading]:
    broker.start()
    time.sleep(1)
    return [
        Reading("start-up to first answer", broker.start_s, "s", target=START_S_TARGET),
        Reading("idle memory (RSS)", broker.rss_bytes() / 1e6, "MB", target=IDLE_RSS_MB_TARGET),
    ]


def run_partitions(bench: Bench) -> None:
    for count in (1000,) if bench.quick else (1, 1000, 5000):
        bench.alternate_fresh(f"{count} partitions", partial(_partitions, count=count), rounds=1)


def _partitions(broker: Broker, count: int) -> list[Reading]:
    broker.start()
    started = time.monotonic()
    create(broker, "wide", count)
    created_s = time.monotonic() - started
    started = time.monotonic()
    producer = Producer({"bootstrap.servers": broker.address, "log_level": 0})
    for place in range(count):
        producer.produce("wide", bytes(100), partition=place)
    if producer.flush(FILL_TIMEOUT_S):
        raise RuntimeError(f"{broker.name} did not acknowledge a record for each of {count}")
    filled_s = time.monotonic() - started
    del producer  # otherwise it complains about the restart
    cpu = broker.cpu_s()
    time.sleep(2)
    idle = (broker.cpu_s() - cpu) / 2
    loaded = broker.rss_bytes() / 1e6
    broker.stop()
    broker.start()
    name = f"{count} partitions" if count > 1 else "1 partition"
    return [
        Reading(f"{name}: created", created_s, "s"),
        Reading(f"{name}: one record to each", filled_s, "s"),
        Reading(f"{name}: memory (RSS)", loaded, "MB"),
        Reading(f"{name}: idle CPU", idle * 100, "%"),
        Reading(f"{name}: restart to first answer", broker.start_s, "s"),
    ]


def run_connections(bench: Bench) -> None:
    bench.alternate_fresh("connections", _connections, rounds=1)


def _connections(broker: Broker) -> list[Reading]:
    broker.start()
    create(broker, "crowd", 1)
    frame = wire.produce_frame("crowd", 0, wire.batch([bytes(100)]))
    pipeline(broker.port, frame, 5000, 50)
    before = broker.rss_bytes()
    started = time.monotonic()
    peers: list[wire.Peer] = []
    try:
        for _ in range(CONNECTIONS):
            peers.append(wire.Peer(broker.port, 30))
            peers[-1].ask(wire.api_versions_frame())
        opened_s = time.monotonic() - started
        started, cpu = time.monotonic(), broker.cpu_s()
        for _ in range(10):
            for peer in peers:
                peer.send(frame)
            for peer in peers:
                peer.receive()
        taken, used = time.monotonic() - started, broker.cpu_s() - cpu
        memory = broker.rss_bytes() - before
    finally:
        for peer in peers:
            peer.close()
    total = 10 * CONNECTIONS
    name = f"{CONNECTIONS} connections"
    return [
        Reading(f"{name}: opened", opened_s, "s"),
        Reading(f"{name}: memory of each", memory / CONNECTIONS / 1e3, "KB"),
        Reading(f"{name}: requests", total / taken, "/s", less_is_better=False),
        Reading(f"{name}: broker CPU of a request", used / total * 1e6, "us"),
    ]


def run_memory(bench: Bench) -> None:
    """Report the peak memory of the brokers that ran everything before; so it comes last."""
    for side in bench.sides:
        peak = side.lasting.peak_rss_bytes() / 1e6
        bench.results.add(side.name, [Reading("peak memory after the load", peak, "MB")])
