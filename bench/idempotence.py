"""The cost of idempotence per batch on the broker: the same batches, with and without sequences.

The two take turns within a round, so that other load on the machine affects both.
"""

from __future__ import annotations

import time

from bench import coordinator_wire, wire
from bench.brokers import Broker
from bench.requests import exchange, good_answer
from bench.results import Reading
from bench.sides import Bench
from bench.topics import delete, new_topic

WINDOW = 64
SLICES = 4
VALUE = bytes(1024)


def run(bench: Bench) -> None:
    windows = bench.pick(100, 500)  # in each slice
    bench.alternate("idempotence", lambda broker: _round(broker, windows), rounds=bench.pick(1, 3))


def _round(broker: Broker, windows: int) -> list[Reading]:
    topics = [new_topic(broker), new_topic(broker)]
    try:
        with wire.Peer(broker.port, 30) as peer:
            plain = _Plain(peer, topics[0])
            idempotent = _Idempotent(peer, topics[1])
            for _ in range(SLICES):
                plain.send(broker, windows)
                idempotent.send(broker, windows)
            plain.check()
            idempotent.check()
    finally:
        for topic in topics:
            delete(broker, topic)
    return [
        *plain.readings("plain"),
        *idempotent.readings("idempotent"),
        Reading("idempotent over plain: broker CPU", idempotent.cpu_s / plain.cpu_s, "x"),
    ]


class _Plain:
    def __init__(self, peer: wire.Peer, topic: str) -> None:
        self.peer = peer
        self.topic = topic
        self.sent = 0
        self.cpu_s = self.taken_s = 0.0
        self.answer_size = len(good_answer(peer, self._frame()))
        self.offset = 1

    def _frame(self) -> bytes:
        return wire.produce_frame(self.topic, 0, wire.batch([VALUE]))

    def batches(self, windows: int) -> list[bytes]:
        return [self._frame() * WINDOW] * windows

    def send(self, broker: Broker, windows: int) -> None:
        batches = self.batches(windows)
        cpu, started = broker.cpu_s(), time.monotonic()
        count = exchange(self.peer, batches, WINDOW, self.answer_size)
        self.taken_s += time.monotonic() - started
        self.cpu_s += broker.cpu_s() - cpu
        self.sent += count
        self.offset += count

    def check(self) -> None:
        """Check that one more batch gets the expected offset, so all before it were accepted."""
        produced = wire.parse_produce(self.peer.ask(self._frame()))
        if produced != (0, self.offset):
            raise RuntimeError(f"{produced} after {self.offset} batches")

    def readings(self, kind: str) -> list[Reading]:
        name = f"produce 1 KB, {kind}, pipelined"
        rate, cost = self.sent / self.taken_s, self.cpu_s / self.sent * 1e6
        return [
            Reading(f"{name}: requests", rate, "/s", less_is_better=False),
            Reading(f"{name}: broker CPU", cost, "us"),
        ]


class _Idempotent(_Plain):
    def __init__(self, peer: wire.Peer, topic: str) -> None:
        question = coordinator_wire.init_producer_id_frame()
        answer = coordinator_wire.ready_answer(peer, question, coordinator_wire.parse_error)
        self._producer = coordinator_wire.parse_init_producer_id(answer)
        self._sequence = 0
        super().__init__(peer, topic)
        self._sequence = 1

    def _frame(self) -> bytes:
        records = wire.batch([VALUE], producer=(*self._producer, self._sequence))
        return wire.produce_frame(self.topic, 0, records)

    def batches(self, windows: int) -> list[bytes]:
        made = []
        for _ in range(windows):
            frames = []
            for _ in range(WINDOW):
                frames.append(self._frame())
                self._sequence += 1
            made.append(b"".join(frames))
        return made
