"""How exactly quotas are held, and what a quota costs the requests of others.

A greedy client sends its next request at once, whatever it is told about throttling. At first it
uses what quiet windows allow; then what it gets is compared with its rate. It gets all windows but
the newest in a burst, so only two windows are measured: a burst is then small beside the rest.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from bench import wire
from bench.brokers import Broker
from bench.requests import WINDOW, pipeline
from bench.results import Reading
from bench.sides import Bench
from bench.topics import delete, new_topic
from ottla.blocking import Admin
from ottla.client.admin.quotas import QuotaEntity
from ottla.client.errors import ClientError
from ottla.protocol.errors import KafkaError

BYTES_PER_S = 4_000_000.0
PERCENT = 10.0
MUTATIONS_PER_S = 10.0
CONNECTIONS_PER_S = 40.0
PARTITIONS = 5
CONNECTING_THREADS = 8
VALUE_BYTES = 16 * 1024
CLIENT_ID = "bench"
"""`wire.frame` gives it."""
CLIENT = QuotaEntity(client_id=CLIENT_ID)
SOMEBODY = QuotaEntity(client_id="somebody else")
ADDRESS = QuotaEntity(ip="127.0.0.1")
HELD_TARGET = 105.0
WINDOWS = 2
WARM_S = 5.0
SEEN_S = 1.0
"""Quotas count on a broker at most this long after they were set."""

Move = Callable[[], float]
"""Does something once; returns how much it was."""


def run(bench: Bench) -> None:
    options = {"quota.window.num": str(WINDOWS), "controller.quota.window.num": str(WINDOWS)}
    measured_s = float(bench.pick(25, 100))
    for side in bench.sides:
        side.close()
        broker = side.fresh(options)
        try:
            broker.start()
            for title, measure in MEASURES.items():
                bench.say(f"quotas: {side.name}, {title}")
                held = measure(broker, WARM_S, measured_s)
                label = f"quota of {title}: used of what is set"
                # What quotas count of request time is less than all that the broker does.
                target = None if measure is _worked else HELD_TARGET
                bench.results.add(side.name, [Reading(label, held, "%", target=target)])
            bench.say(f"quotas: {side.name}, their cost")
            bench.results.add(side.name, _costs(broker, bench.pick(40_000, 200_000)))
        finally:
            broker.remove()


def _produced(broker: Broker, warm_s: float, measured_s: float) -> float:
    topic = new_topic(broker)
    frame = wire.produce_frame(topic, 0, wire.batch([bytes(VALUE_BYTES)]))

    def move() -> float:
        peer.ask(frame)
        return float(len(frame) - 4)

    _limit(broker, CLIENT, producer_byte_rate=BYTES_PER_S)
    try:
        with wire.Peer(broker.port, 60) as peer:
            return _per_second(move, warm_s, measured_s) / BYTES_PER_S * 100
    finally:
        _limit(broker, CLIENT, producer_byte_rate=None)
        delete(broker, topic)


def _fetched(broker: Broker, warm_s: float, measured_s: float) -> float:
    topic = new_topic(broker)
    fetch = wire.fetch_frame(topic, 0, 0, max_bytes=1)

    def move() -> float:
        return float(len(peer.ask(fetch)))

    try:
        with wire.Peer(broker.port, 60) as peer:
            peer.ask(wire.produce_frame(topic, 0, wire.batch([bytes(VALUE_BYTES)])))
            _limit(broker, CLIENT, consumer_byte_rate=BYTES_PER_S)
            return _per_second(move, warm_s, measured_s) / BYTES_PER_S * 100
    finally:
        _limit(broker, CLIENT, consumer_byte_rate=None)
        delete(broker, topic)


def _worked(broker: Broker, warm_s: float, measured_s: float) -> float:
    """The broker's whole CPU time is compared: it has more to do than what quotas count."""
    frame = wire.metadata_frame(None)
    _limit(broker, CLIENT, request_percentage=PERCENT)
    try:
        with wire.Peer(broker.port, 60) as peer:

            def move() -> float:
                before = broker.cpu_s()
                until = time.monotonic() + 0.5
                while time.monotonic() < until:
                    peer.ask(frame)
                return broker.cpu_s() - before

            return _per_second(move, warm_s, measured_s) * 100 / PERCENT * 100
    finally:
        _limit(broker, CLIENT, request_percentage=None)


def _mutated(broker: Broker, warm_s: float, measured_s: float) -> float:
    _limit(broker, CLIENT, controller_mutation_rate=MUTATIONS_PER_S)
    try:
        with Admin(bootstrap_servers=broker.address, client_id=CLIENT_ID) as admin:
            exists = False

            def move() -> float:
                nonlocal exists
                try:
                    if exists:
                        admin.delete_topic("mutated")
                    else:
                        admin.create_topic("mutated", partitions=PARTITIONS)
                except (KafkaError, ClientError):
                    return 0.0
                exists = not exists
                return float(PARTITIONS)

            return _per_second(move, warm_s, measured_s) / MUTATIONS_PER_S * 100
    finally:
        _limit(broker, CLIENT, controller_mutation_rate=None)


def _connected(broker: Broker, warm_s: float, measured_s: float) -> float:
    _limit(broker, ADDRESS, connection_creation_rate=CONNECTIONS_PER_S)
    frame = wire.api_versions_frame()

    def move() -> float:
        try:
            with wire.Peer(broker.port, 5) as peer:
                peer.ask(frame)
        except (OSError, AssertionError):
            return 0.0  # it was kept silent, then closed
        return 1.0

    try:
        with ThreadPoolExecutor(CONNECTING_THREADS) as threads:
            rates = [
                threads.submit(_per_second, move, warm_s, measured_s)
                for _ in range(CONNECTING_THREADS)
            ]
            return sum(rate.result() for rate in rates) / CONNECTIONS_PER_S * 100
    finally:
        time.sleep(warm_s)  # or the next connection would be one too many
        _limit(broker, ADDRESS, connection_creation_rate=None)


MEASURES: dict[str, Callable[[Broker, float, float], float]] = {
    "produced bytes": _produced,
    "fetched bytes": _fetched,
    "request time, by the whole CPU": _worked,
    "changes of partitions": _mutated,
    "new connections": _connected,
}


def _costs(broker: Broker, count: int) -> list[Reading]:
    """Return the CPU time of a produce without quotas, beside those of others, and with one."""
    topic = new_topic(broker)
    frame = wire.produce_frame(topic, 0, wire.batch([bytes(1024)]))

    def cost() -> float:
        cpu = broker.cpu_s()
        pipeline(broker.port, frame, count, WINDOW)
        return (broker.cpu_s() - cpu) / count * 1e6

    cost()  # a warm-up
    found: dict[str, list[float]] = {"without quotas": [], "while others have quotas": []}
    found["with generous quotas"] = []
    for _ in range(3):
        found["without quotas"].append(cost())
        _limit(broker, SOMEBODY, producer_byte_rate=1e6, request_percentage=1.0)
        found["while others have quotas"].append(cost())
        _limit(broker, CLIENT, producer_byte_rate=1e12, request_percentage=1e6)
        found["with generous quotas"].append(cost())
        for entity in (SOMEBODY, CLIENT):
            _limit(broker, entity, producer_byte_rate=None, request_percentage=None)
    delete(broker, topic)
    return [
        Reading(f"produce 1 KB {how}: broker CPU", min(costs), "us") for how, costs in found.items()
    ]


def _limit(broker: Broker, entity: QuotaEntity, **quotas: float | None) -> None:
    with Admin(bootstrap_servers=broker.address) as admin:
        for error in admin.alter_client_quotas({entity: quotas}).values():
            if error is not None:
                raise error
    time.sleep(SEEN_S)


def _per_second(move: Move, warm_s: float, measured_s: float) -> float:
    """Return what is moved per second after the warm-up."""
    end = time.monotonic() + warm_s
    while time.monotonic() < end:
        move()
    started, moved = time.monotonic(), 0.0
    while time.monotonic() - started < measured_s:
        moved += move()
    return moved / (time.monotonic() - started)
