"""`python -m bench.spark_child ADDRESS FOLDER [JARS]`: one Spark session, jobs as lines of JSON.

Both data sources run in this one session, so that settings, heap and compiled code are the same.
"""

from __future__ import annotations

import itertools
import json
import os
import sys
import time
from collections.abc import Callable
from dataclasses import asdict
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import StreamingQuery

from bench import process_tree
from bench.spark_job import SparkDone, SparkJob
from ottla.blocking import Producer
from ottla.spark import spark_session

QUERY_TIMEOUT_S = 300

Measured = tuple[int, float, list[int]]
"""Rows, seconds, and the milliseconds of each micro-batch."""


class Jobs:
    def __init__(self, spark: SparkSession, address: str, folder: str) -> None:
        self._spark = spark
        self._address = address
        self._folder = folder
        self._numbers = itertools.count()

    def run(self, job: SparkJob) -> SparkDone:
        before = process_tree.cpu_s(os.getpid())
        rows, seconds, batch_ms = getattr(self, f"_{job.kind}")(job)
        return SparkDone(rows, seconds, process_tree.cpu_s(os.getpid()) - before, batch_ms)

    # Jobs return the rows, the seconds, and the milliseconds of each micro-batch.

    def _batch_read(self, job: SparkJob) -> Measured:
        rows = self._options(self._spark.read.format(job.format), job.source).load()
        return job.rows, _timed(rows.write.format("noop").mode("overwrite").save), []

    def _stream_read(self, job: SparkJob) -> Measured:
        return self._stream(job, lambda rows: rows.writeStream.format("noop"))

    def _batch_write(self, job: SparkJob) -> Measured:
        value = f"rpad(cast(id as string), {job.size}, 'abcdefghijklmnopqrstuvwxyz')"
        rows = self._spark.range(0, job.rows, 1, 2).selectExpr(f"{value} AS value")
        return job.rows, _timed(self._sink(rows.write, job).save), []

    def _copy(self, job: SparkJob) -> Measured:
        return self._stream(job, lambda rows: self._sink(rows.select("value").writeStream, job))

    def _trickle_read(self, job: SparkJob) -> Measured:
        return self._trickle(job, lambda rows: rows.writeStream.format("noop"))

    def _trickle_copy(self, job: SparkJob) -> Measured:
        return self._trickle(job, lambda rows: self._sink(rows.select("value").writeStream, job))

    # Their parts.

    def _stream(self, job: SparkJob, sink: Callable[[DataFrame], Any]) -> Measured:
        query = self._start(job, sink, availableNow=True)
        if not query.awaitTermination(QUERY_TIMEOUT_S):
            raise TimeoutError(f"{job} did not end within {QUERY_TIMEOUT_S} s")
        rows, batch_ms = _progress(query)
        return rows, sum(batch_ms) / 1000, batch_ms

    def _trickle(self, job: SparkJob, sink: Callable[[DataFrame], Any]) -> Measured:
        """Run `rows` micro-batches of one record each."""
        query = self._start(job, sink, processingTime="0 seconds")
        with Producer(bootstrap_servers=self._address, linger_ms=0) as producer:
            query.processAllAvailable()
            for number in range(job.rows):
                producer.send_and_wait(job.source, b"%d" % number)
                query.processAllAvailable()
        query.stop()
        rows, batch_ms = _progress(query)
        return rows, sum(batch_ms) / 1000, batch_ms

    def _start(
        self, job: SparkJob, sink: Callable[[DataFrame], Any], **trigger: Any
    ) -> StreamingQuery:
        rows = self._options(self._spark.readStream.format(job.format), job.source)
        writer = sink(rows.option("startingOffsets", "earliest").load())
        place = f"{self._folder}/checkpoint-{next(self._numbers)}"
        query: StreamingQuery = (
            writer.option("checkpointLocation", place).trigger(**trigger).start()
        )
        return query

    def _options(self, reader: Any, topic: str) -> Any:
        return reader.option("kafka.bootstrap.servers", self._address).option("subscribe", topic)

    def _sink(self, writer: Any, job: SparkJob) -> Any:
        writer = writer.format(job.format).option("kafka.bootstrap.servers", self._address)
        writer = writer.options(topic=job.target, **job.options)
        return writer.mode("append") if hasattr(writer, "mode") else writer


def _timed(work: Callable[[], object]) -> float:
    started = time.monotonic()
    work()
    return time.monotonic() - started


def _progress(query: StreamingQuery) -> tuple[int, list[int]]:
    batches = [one for one in query.recentProgress if one["numInputRows"]]
    rows = sum(one["numInputRows"] for one in batches)
    return rows, [one["durationMs"]["triggerExecution"] for one in batches]


def main() -> int:
    address, folder, *jars = sys.argv[1:]
    options = {
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.memory": "1g",
        "spark.local.dir": f"{folder}/local",
        "spark.sql.warehouse.dir": f"{folder}/warehouse",
        **({"spark.jars": jars[0]} if jars else {}),
    }
    spark = spark_session("bench", master="local[2]", options=options)
    jobs = Jobs(spark, address, folder)
    for line in sys.stdin:
        print(json.dumps(asdict(jobs.run(SparkJob(**json.loads(line))))), flush=True)
    spark.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main())
