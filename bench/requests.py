"""The broker's cost of one request: the client only sends frames that were built beforehand.

Since the client does almost nothing, the figure is the broker's CPU time per request.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterable

from bench import wire
from bench.brokers import Broker
from bench.results import Reading
from bench.sides import Bench
from bench.topics import delete, new_topic

WINDOW = 64
CPU_US_TARGET = 60.0
CPU_S_PER_GB_TARGET = 0.25


def run(bench: Bench) -> None:
    count = bench.pick(40_000, 200_000)
    rounds = bench.pick(1, 3)
    bench.alternate("requests", lambda broker: _requests(broker, count), rounds=rounds)
    gigabytes = bench.pick(2, 8)
    bench.alternate("cached reads", lambda broker: _reads(broker, gigabytes), rounds=rounds)


def _requests(broker: Broker, count: int) -> list[Reading]:
    topic = new_topic(broker)
    try:
        small = wire.produce_frame(topic, 0, wire.batch([bytes(100)]))
        kilobyte = wire.produce_frame(topic, 0, wire.batch([bytes(1024)]))
        readings = _measured(broker, "produce 100 B batch, pipelined", small, count, WINDOW)
        readings += _measured(
            broker, "produce 1 KB batch, pipelined", kilobyte, count, WINDOW, CPU_US_TARGET
        )
        readings += _measured(
            broker, "produce 1 KB batch, one at a time", kilobyte, count // 4, 1, CPU_US_TARGET
        )
        # The 1 KB batches lie after the small ones; a limit of one byte returns one batch.
        fetch = wire.fetch_frame(topic, 0, count + count // 2, max_bytes=1)
        readings += _measured(
            broker, "fetch of 1 KB, pipelined", fetch, count, WINDOW, CPU_US_TARGET
        )
        readings += _measured(
            broker, "fetch of 1 KB, one at a time", fetch, count // 4, 1, CPU_US_TARGET
        )
        return readings
    finally:
        delete(broker, topic)


def _measured(
    broker: Broker, label: str, frame: bytes, count: int, window: int, target: float | None = None
) -> list[Reading]:
    cpu, started = broker.cpu_s(), time.monotonic()
    pipeline(broker.port, frame, count, window)
    taken, used = time.monotonic() - started, broker.cpu_s() - cpu
    return [
        Reading(f"{label}: requests", count / taken, "/s", less_is_better=False),
        # The figure is also CPU seconds per million requests.
        Reading(f"{label}: broker CPU", used / count * 1e6, "us", target=target),
    ]


def pipeline(port: int, frame: bytes, count: int, window: int) -> None:
    """Send `frame` `count` times, never more than two windows ahead of the answers."""
    with wire.Peer(port, 30) as peer:
        answer = good_answer(peer, frame)
        exchange(peer, itertools.repeat(frame * window, -(-count // window)), window, len(answer))


def exchange(
    peer: wire.Peer,
    batches: Iterable[bytes],
    window: int,
    answer_size: int,
    kept: bytearray | None = None,
) -> int:
    """Send batches of `window` frames, never more than two ahead; return the number of answers.

    All answers must have the same size; `kept` collects them, for a caller that checks them.
    """
    buffer = memoryview(bytearray(1 << 20))
    receive = peer.socket.recv_into
    size = 4 + answer_size
    answered = sent = 0

    def take() -> int:
        got = receive(buffer)
        if not got:
            raise ConnectionError("the broker closed the connection")
        if kept is not None:
            kept.extend(buffer[:got])
        return got

    for batch in batches:
        while sent - answered // size > window:
            answered += take()
        peer.send(batch)
        sent += window
    while answered < sent * size:
        answered += take()
    return sent


def good_answer(peer: wire.Peer, frame: bytes) -> bytes:
    """Return the first answer without an error: a new topic may need a moment on the broker."""
    parse = wire.parse_fetch if frame[5] == wire.FETCH else wire.parse_produce
    deadline = time.monotonic() + 10
    while True:
        answer = peer.ask(frame)
        if (code := parse(answer).error) == 0:
            return answer
        if time.monotonic() > deadline:
            raise RuntimeError(f"the broker answers with error {code}")
        time.sleep(0.05)


def _reads(broker: Broker, gigabytes: int) -> list[Reading]:
    """Measure 1 MB fetches of data in the page cache; the client drops what it reads."""
    topic = new_topic(broker)
    try:
        batch = wire.produce_frame(topic, 0, wire.batch([bytes(1024)] * 1000))
        pipeline(broker.port, batch, 64, 4)
        fetch = wire.fetch_frame(topic, 0, 10_000, max_bytes=16 << 20)
        with wire.Peer(broker.port) as peer:
            size = len(good_answer(peer, fetch))
        count = gigabytes * 1_000_000_000 // size
        cpu, started = broker.cpu_s(), time.monotonic()
        pipeline(broker.port, fetch, count, 1)
        taken, used = time.monotonic() - started, broker.cpu_s() - cpu
        total = count * size / 1e9
        return [
            Reading("cached reads: throughput", total / taken * 1e3, "MB/s", less_is_better=False),
            Reading("cached reads: broker CPU", used / total, "s/GB", target=CPU_S_PER_GB_TARGET),
        ]
    finally:
        delete(broker, topic)
