"""Clients side by side on Ottla's broker: Ottla's, confluent-kafka, kafka-python and aiokafka.

The client has one process and one core, the broker another core; all clients have the same settings
(see client_job.py), and each is used as its documentation advises. If a peer has several ways, each
is measured. Ratios are to the best of the same kind: many records per call, or one.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import NamedTuple

from bench import client_memory
from bench.brokers import Broker
from bench.client_job import PARTITIONS, Job, Measured
from bench.client_table import OURS, ClientTable, Row
from bench.sides import Bench
from bench.topics import delete, new_topic

CHILD_TIMEOUT_S = 300.0
CLIENT_CORE, BROKER_CORE = 0, 1
FOREVER_S = 1e6
ROOT = Path(__file__).resolve().parent.parent


class Entry(NamedTuple):
    client: str
    """A module `bench.client_...`."""
    method: str
    in_bulk: bool = False


NAMES = {
    "ottla": OURS,
    "confluent": "confluent-kafka",
    "kafka_python": "kafka-python",
    "aiokafka": "aiokafka",
}
PRODUCERS = [
    Entry("confluent", "produce"),
    Entry("confluent", "produce_batch", in_bulk=True),
    Entry("kafka_python", "send"),
    Entry("aiokafka", "send"),
    Entry("aiokafka", "send_batch", in_bulk=True),
    Entry("ottla", "send"),
    Entry("ottla", "blocking send"),
    Entry("ottla", "send_arrow", in_bulk=True),
]
CONSUMERS = [
    Entry("confluent", "consume", in_bulk=True),
    Entry("confluent", "poll"),
    Entry("kafka_python", "iterate"),
    Entry("kafka_python", "poll", in_bulk=True),
    Entry("aiokafka", "iterate"),
    Entry("aiokafka", "getmany", in_bulk=True),
    Entry("ottla", "iterate"),
    Entry("ottla", "poll", in_bulk=True),
    Entry("ottla", "blocking iterate"),
    Entry("ottla", "blocking poll", in_bulk=True),
    Entry("ottla", "fetch_arrow", in_bulk=True),
]
SIZES = (100, 1000)
CODECS = ("none", "lz4")


def run(bench: Bench) -> None:
    for side in bench.sides:
        side.close()  # nothing else may use the two cores
    table = ClientTable()
    with _pinned_broker(bench) as broker:
        for size in SIZES:
            for codec in CODECS:
                for number in range(bench.pick(1, 3)):
                    bench.say(f"clients: {size} B, {codec}, round {number + 1}")
                    _produce(bench, broker, table, size, codec)
                    _consume(bench, broker, table, size, codec)
        bench.say("clients: memory beside a broker that stands still")
        table.memory = client_memory.measure(broker)
    bench.results.attach("clients", table)


def _produce(bench: Bench, broker: Broker, table: ClientTable, size: int, codec: str) -> None:
    for entry in PRODUCERS:
        topic = new_topic(broker, PARTITIONS)
        most = (bench.pick(400, 800) << 20) // size
        job = Job(broker.address, topic, size, codec, bench.pick(3, 6), most, entry.method)
        table.add(_row("produce", job, entry), _child(entry, job))
        delete(broker, topic)


def _consume(bench: Bench, broker: Broker, table: ClientTable, size: int, codec: str) -> None:
    filled = (bench.pick(200, 400) << 20) // size
    topic = new_topic(broker, PARTITIONS)
    fill = Job(broker.address, topic, size, codec, FOREVER_S, filled, "produce_batch")
    _child(Entry("confluent", fill.method), fill)
    for entry in CONSUMERS:
        # Not all of it: records before the first look at the clock are not counted.
        job = Job(
            broker.address, topic, size, codec, bench.pick(3, 6), filled * 8 // 10, entry.method
        )
        table.add(_row("consume", job, entry), _child(entry, job))
    delete(broker, topic)


def _row(verb: str, job: Job, entry: Entry) -> Row:
    return Row(verb, job.size, job.codec, NAMES[entry.client], entry.method, entry.in_bulk)


def _child(entry: Entry, job: Job) -> Measured:
    done = subprocess.run(
        [
            *(sys.executable, "-m", "bench.client_child"),
            *(entry.client, str(CLIENT_CORE), json.dumps(asdict(job))),
        ],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=CHILD_TIMEOUT_S,
    )
    if done.returncode:
        raise RuntimeError(f"{entry.client} {entry.method} failed:\n{done.stderr[-4000:]}")
    return Measured(**json.loads(done.stdout.splitlines()[-1]))


@contextmanager
def _pinned_broker(bench: Bench) -> Iterator[Broker]:
    """Yield a separate broker, on its own core if there are two."""
    # Deleted topics must not fill the disk or the page cache for the next measurement.
    broker = bench.sides[0].fresh({"log.segment.delete.delay.ms": "1000"})
    broker.start()
    try:
        cores = os.sched_getaffinity(0)
        for thread in os.listdir(f"/proc/{broker.pid}/task"):
            os.sched_setaffinity(int(thread), {BROKER_CORE} & cores or cores)
        yield broker
    finally:
        broker.remove()
