"""The two ends of the pipeline, in threads of the demo: payments go in, alerts come out."""

from __future__ import annotations

import json
import time
from itertools import islice
from threading import Event, Thread
from typing import Any

from ottla.blocking import Consumer, Producer
from ottla.client.values import TopicPartition
from ottla.demo import rules
from ottla.demo.figures import Figures
from ottla.demo.payments import SPEED, Emission, Generator
from ottla.demo.world import Customer

SLEEP_S = 0.05
POLL_MS = 200


def send_customers(bootstrap: str, customers: list[Customer]) -> None:
    with Producer(bootstrap_servers=bootstrap) as producer:
        for one in customers:
            fields = {"name": one.name, "typical_cents": one.typical_cents}
            producer.send(rules.CUSTOMERS, json.dumps(fields).encode(), key=one.id.encode())


class Terminals(Thread):
    """Sends payments at their time, and keeps a list of them to verify against."""

    def __init__(self, bootstrap: str, generator: Generator, figures: Figures) -> None:
        super().__init__(name="terminals", daemon=True)
        self.sent: list[Emission] = []
        self.sent_at: dict[str, float] = {}
        self.failure: Exception | None = None
        self._servers = bootstrap
        self._emissions = iter(generator)
        self._figures = figures
        self._closing = Event()

    def warm_up(self, count: int) -> None:
        """Send the first payments before the clock runs; they are checked like all others."""
        with Producer(bootstrap_servers=self._servers) as producer:
            for emission in islice(self._emissions, count):
                self._send(producer, emission)

    def close(self) -> None:
        """Send no more payments; `join` then waits until all that were sent have arrived."""
        self._closing.set()

    def run(self) -> None:
        try:
            with Producer(bootstrap_servers=self._servers, linger_ms=20) as producer:
                self._send_all(producer)
        except Exception as error:
            self.failure = error

    def _send_all(self, producer: Producer) -> None:
        began = time.monotonic()
        first_ms: float | None = None
        for emission in self._emissions:
            first_ms = emission.due_ms if first_ms is None else first_ms
            due_s = began + (emission.due_ms - first_ms) / 1000 / SPEED
            # Sleep once for many events: one sleep for each would be most of the work.
            if (ahead_s := due_s - time.monotonic()) > 0 and self._closing.wait(ahead_s + SLEEP_S):
                return
            if self._closing.is_set():
                return
            if emission.payment is not None:
                self.sent_at.setdefault(emission.payment.id, time.time())
            self._send(producer, emission)

    def _send(self, producer: Producer, emission: Emission) -> None:
        self.sent.append(emission)
        producer.send(rules.PAYMENTS, emission.value, key=emission.key)
        self._figures.sent = len(self.sent)


class AlertWatch(Thread):
    """Reads the alerts as a consumer of committed records sees them."""

    def __init__(self, bootstrap: str, terminals: Terminals, figures: Figures) -> None:
        super().__init__(name="alerts", daemon=True)
        partitions = range(rules.TOPICS[rules.ALERTS])
        self._partitions = [TopicPartition(rules.ALERTS, number) for number in partitions]
        self._servers = bootstrap
        self._terminals = terminals
        self._figures = figures
        self._closing = Event()

    def close(self) -> None:
        self._closing.set()
        self.join()

    def run(self) -> None:
        with Consumer(
            bootstrap_servers=self._servers,
            isolation_level="read_committed",
            auto_offset_reset="earliest",
        ) as consumer:
            consumer.assign(self._partitions)
            while not self._closing.is_set():
                for records in consumer.poll(timeout_ms=POLL_MS).values():
                    for record in records:
                        self._saw(json.loads(record.value))

    def _saw(self, alert: dict[str, Any]) -> None:
        self._figures.alert(alert, self._terminals.sent_at.get(alert["payments"][-1]))
