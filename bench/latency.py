"""Produce latency at a fixed, modest rate, counted from when each request was due.

The wait behind a slow request counts, as it does for a real sender.
"""

from __future__ import annotations

import time

from bench import wire
from bench.brokers import Broker
from bench.requests import good_answer
from bench.results import Reading
from bench.sides import Bench
from bench.topics import delete, new_topic

RATE_PER_S = 500


def run(bench: Bench) -> None:
    seconds = bench.pick(4, 20)
    bench.alternate("latency", lambda broker: _round(broker, seconds), rounds=bench.pick(1, 3))


def _round(broker: Broker, seconds: int) -> list[Reading]:
    topic = new_topic(broker)
    frame = wire.produce_frame(topic, 0, wire.batch([bytes(1024)]))
    latencies_ms = []
    try:
        with wire.Peer(broker.port) as peer:
            good_answer(peer, frame)
            start = time.monotonic()
            for number in range(RATE_PER_S * seconds):
                due = start + number / RATE_PER_S
                if (pause := due - time.monotonic()) > 0:
                    time.sleep(pause)
                if wire.parse_produce(peer.ask(frame)).error:
                    raise RuntimeError(f"{broker.name} refused a batch")
                latencies_ms.append((time.monotonic() - due) * 1e3)
    finally:
        delete(broker, topic)
    latencies_ms.sort()
    name = f"produce latency at {RATE_PER_S}/s"
    return [
        Reading(f"{name}: p{percent:g}", at_percent(latencies_ms, percent), "ms")
        for percent in (50, 99, 99.9)
    ]


def at_percent(ordered: list[float], percent: float) -> float:
    """Return the value below which that share of an ordered list lies."""
    return ordered[min(len(ordered) - 1, int(len(ordered) * percent / 100))]
