"""Topics in Spark: Ottla's data source beside Spark's own Kafka connector, on Ottla's broker.

One session in local[2] has both; they take turns on the same topics. Rows are read into Spark's
`noop` sink, which reads every column of every row and drops it. The connector can only write at
least once; Ottla's source writes exactly once, and is measured at least once, too.

The time of a stream is that of its batches. Its CPU time is that of the whole query with its start
and end, some seconds of which have nothing to do with rows: they matter in short rounds (--quick).
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from statistics import median

import pyarrow as pa

from bench.brokers import Broker
from bench.client_job import values
from bench.sides import Bench
from bench.spark_job import CONNECTOR, OURS, SparkDone, SparkJob
from bench.spark_table import Figure, Line, SparkTable
from bench.topics import delete, new_topic
from ottla.blocking import Producer

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "scripts"))
import fetch_spark_kafka

ROOT = Path(__file__).resolve().parent.parent
PARTITIONS = 2
SIZES = (100, 1000)
CHUNK_ROWS = 10_000
WARM_UP_ROWS = 20_000
SINK_ROWS_PER_S = 300_000
AT_LEAST_ONCE = {"deliveryGuarantee": "at-least-once"}


def run(bench: Bench) -> None:
    for side in bench.sides:
        side.close()  # nothing else may use the two cores
    table = SparkTable()
    bench.results.attach("spark", table)
    broker = bench.sides[0].fresh({"log.segment.delete.delay.ms": "1000"})
    try:
        broker.start()
        with _session(bench, broker) as spark:
            for number in range(-1, bench.pick(1, 3)):
                bench.say(f"spark: {'warm-up' if number < 0 else f'round {number + 1}'}")
                _round(_Round(bench, broker, spark, table, warm_up=number < 0))
    finally:
        broker.remove()


class _Spark:
    """The child process with the session."""

    def __init__(self, process: subprocess.Popen[str], formats: list[str]) -> None:
        self._process = process
        self.formats = formats

    def run(self, job: SparkJob) -> SparkDone:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(asdict(job)) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"Spark ended with {self._process.wait()} at {job}")
        return SparkDone(**json.loads(line))


@contextmanager
def _session(bench: Bench, broker: Broker) -> Iterator[_Spark]:
    jars = _jars(bench)
    command = [sys.executable, "-m", "bench.spark_child", broker.address, str(broker.folder)]
    process = subprocess.Popen(
        [*command, *([jars] if jars else [])],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
    )
    try:
        yield _Spark(process, [OURS, *([CONNECTOR] if jars else [])])
    finally:
        assert process.stdin is not None
        process.stdin.close()
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            process.kill()


def _jars(bench: Bench) -> str:
    try:
        return ",".join(map(str, sorted(fetch_spark_kafka.fetch().glob("*.jar"))))
    except RuntimeError as error:
        bench.say(f"spark: ours alone; no connector here: {error}")
        return ""


class _Round:
    def __init__(
        self, bench: Bench, broker: Broker, spark: _Spark, table: SparkTable, *, warm_up: bool
    ) -> None:
        self.broker = broker
        self.formats = spark.formats
        self.batches = 3 if warm_up else bench.pick(10, 30)
        self._bench = bench
        self._spark = spark
        self._table = table
        self._warm_up = warm_up

    def rows(self, size: int) -> int:
        return WARM_UP_ROWS if self._warm_up else (self._bench.pick(100, 400) << 20) // size

    def measure(self, line: Line, job: SparkJob) -> None:
        before = self.broker.cpu_s()
        done = self._spark.run(job)
        broker_s = self.broker.cpu_s() - before
        assert done.rows == job.rows, f"{done.rows} rows of {job}"
        if not self._warm_up:
            self._table.add(line, job.format, _figure(done, broker_s))


def _figure(done: SparkDone, broker_s: float) -> Figure:
    return Figure(
        per_s=done.rows / done.seconds,
        spark_cpu_us=done.cpu_s / done.rows * 1e6,
        broker_cpu_us=broker_s / done.rows * 1e6,
        batch_ms=median(done.batch_ms) if done.batch_ms else 0.0,
    )


def _round(turn: _Round) -> None:
    for size in SIZES:
        rows = turn.rows(size)
        topic = _filled(turn.broker, rows, size)
        for form in turn.formats:
            batch = Line(f"source, batch, {size} B", "rows/s", target=1.0, target_is_ratio=True)
            turn.measure(batch, SparkJob("batch_read", form, topic, rows=rows))
            stream = Line(f"source, stream, {size} B", "rows/s", target=1.0, target_is_ratio=True)
            turn.measure(stream, SparkJob("stream_read", form, topic, rows=rows))
        _writes(turn, topic, rows, size)
        delete(turn.broker, topic)
    _trickles(turn)


def _writes(turn: _Round, topic: str, rows: int, size: int) -> None:
    target = SINK_ROWS_PER_S if size == SIZES[0] else None
    once = Line(f"sink, {size} B, exactly once", "rows/s", target)
    relaxed = Line(f"sink, {size} B, at least once", "rows/s")
    copy = Line(f"stream to stream, {size} B", "rows/s")
    for form in turn.formats:
        relax = AT_LEAST_ONCE if form == OURS else {}
        with _scratch(turn.broker) as out:
            turn.measure(relaxed, SparkJob("batch_write", form, "", out, rows, size, relax))
        if form == OURS:
            with _scratch(turn.broker) as out:
                turn.measure(once, SparkJob("batch_write", form, "", out, rows, size))
        with _scratch(turn.broker) as out:
            turn.measure(copy, SparkJob("copy", form, topic, out, rows))


def _trickles(turn: _Round) -> None:
    for form in turn.formats:
        with _scratch(turn.broker) as topic, _scratch(turn.broker) as out:
            read = Line("micro-batch of one record, read", "ms")
            turn.measure(read, SparkJob("trickle_read", form, topic, rows=turn.batches))
        with _scratch(turn.broker) as topic, _scratch(turn.broker) as out:
            copy = Line("micro-batch of one record, copied", "ms")
            turn.measure(copy, SparkJob("trickle_copy", form, topic, out, turn.batches))


@contextmanager
def _scratch(broker: Broker) -> Iterator[str]:
    topic = new_topic(broker, PARTITIONS)
    yield topic
    delete(broker, topic)


def _filled(broker: Broker, rows: int, size: int) -> str:
    topic = new_topic(broker, PARTITIONS)
    some = values(size)
    chunk = pa.table({"value": [some[number % len(some)] for number in range(CHUNK_ROWS)]})
    with Producer(bootstrap_servers=broker.address, batch_size=128 << 10) as producer:
        for first in range(0, rows, CHUNK_ROWS):
            producer.send_arrow(topic, chunk.slice(0, min(CHUNK_ROWS, rows - first)))
    return topic
