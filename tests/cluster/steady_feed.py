"""Writes numbers under a few keys at a steady pace, and notes when each was acknowledged and where.

    python steady_feed.py <bootstrap> <topic> <partitions> <notes>

Runs until SIGTERM, then waits for all that is under way. A line a record:
`<when> <partition> <offset> <key> <number>`. A record that is refused ends it: a client that
retries for as long as this one must not lose any.
"""

from __future__ import annotations

import signal
import sys
import time
from pathlib import Path
from typing import Any, NamedTuple

from confluent_kafka import KafkaError, Message, Producer

KEYS = [f"key-{number}" for number in range(12)]
PERIOD_S = 0.02
FLUSH_S = 60.0
UNKNOWN = -1
SETTINGS = {
    "acks": "all",
    "enable.idempotence": True,
    "linger.ms": 1,
    # A broker that is frozen keeps what it was sent: not for half a minute.
    "request.timeout.ms": 1500,
    "socket.timeout.ms": 2000,
    "socket.connection.setup.timeout.ms": 2000,
    "retry.backoff.ms": 50,
    "reconnect.backoff.ms": 20,
    "reconnect.backoff.max.ms": 200,
    "topic.metadata.refresh.fast.interval.ms": 50,
    "message.timeout.ms": 120_000,
    "debug": "eos",
}


class Acked(NamedTuple):
    at: float
    partition: int
    offset: int
    key: str
    number: int


def read_acked(path: Path) -> list[Acked]:
    if not path.exists():
        return []
    whole = path.read_text().rpartition("\n")[0]
    found = []
    for line in whole.splitlines():
        at, partition, offset, key, number = line.split()
        found.append(Acked(float(at), int(partition), int(offset), key, int(number)))
    return found


class Feed:
    def __init__(self, bootstrap: str, topic: str, partitions: int, notes: Path) -> None:
        self.topic, self.partitions = topic, partitions
        self.notes = notes.open("w", buffering=1 << 16)
        self.numbers = dict.fromkeys(KEYS, 0)
        self.refused: list[str] = []
        self.producer = Producer({"bootstrap.servers": bootstrap, **SETTINGS})

    def turn(self) -> None:
        for place, key in enumerate(KEYS):
            number = self.numbers[key]
            try:
                self.producer.produce(
                    self.topic,
                    str(number),
                    key,
                    place % self.partitions,
                    on_delivery=self._delivered,
                )
            except BufferError:
                break
            self.numbers[key] += 1
        until = time.monotonic() + PERIOD_S
        while (left := until - time.monotonic()) > 0:
            self.producer.poll(left)
        self.notes.flush()

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self.refused.append(error.str())
            return
        key, value = message.key(), message.value()
        assert key is not None
        assert value is not None
        # Without an offset if all that is known is that it was there before this attempt.
        offset = UNKNOWN if message.offset() is None else message.offset()
        place = f"{message.partition()} {offset}"
        self.notes.write(f"{time.time():.4f} {place} {key.decode()} {value.decode()}\n")

    def end(self) -> int:
        left = self.producer.flush(FLUSH_S)
        self.notes.close()
        if left or self.refused:
            print(f"{left} without an answer, refused: {self.refused[:3]}", file=sys.stderr)
            return 1
        return 0


def main(bootstrap: str, topic: str, partitions: str, notes: str) -> int:
    feed = Feed(bootstrap, topic, int(partitions), Path(notes))
    stopping: list[Any] = []
    signal.signal(signal.SIGTERM, lambda *_: stopping.append(True))
    while not stopping and not feed.refused:
        feed.turn()
    return feed.end()


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
