"""`python -m ottla.demo.driver BOOTSTRAP FOLDER`: Spark with the pipeline, in a process of its own.

It reads commands on stdin: `finish` means to process what is there and end; the end of stdin means
that nobody waits any more. It reports its progress as lines of JSON on stdout.
"""

from __future__ import annotations

import json
import sys
import time
from functools import partial
from pathlib import Path
from queue import Empty, Queue
from threading import Thread
from typing import TYPE_CHECKING, Any

from ottla.demo import pipeline
from ottla.pipelines.progress import rows_in
from ottla.spark import spark_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from ottla.streams import Running

LOOK_EVERY_S = 0.3
RECORDS_PER_BATCH = 10_000
WORKER_LATE = "Python worker failed to connect back"


def main(bootstrap: str, folder: str) -> int:
    orders: Queue[str] = Queue()
    Thread(target=_listen, args=(orders,), daemon=True).start()
    options = {
        "spark.driver.memory": "1g",
        "spark.local.dir": f"{folder}/spark",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.streaming.numRecentProgressUpdates": "10",
        "spark.sql.warehouse.dir": f"{folder}/spark",
    }
    log = Path(folder, "spark.log")
    spark = spark_session("ottla-demo", master="local[2]", options=options, log_file=log)
    app = pipeline.payments_app(bootstrap)
    try:
        with app.start(
            spark,
            checkpoints=f"{folder}/checkpoints",
            trigger="1 second",
            max_records_per_batch=RECORDS_PER_BATCH,
        ) as running:
            archive = Archive(spark, bootstrap, Path(folder))
            Teller(running, archive).start()
            _say(event="started")
            if _watch(running, archive, orders) == "finish":
                running.process_all_available()
                archive.query.processAllAvailable()
            archive.query.stop()
    except Exception as error:
        _say(event="failed", reason=str(error))
        return 1
    finally:
        spark.stop()
    _say(event="finished")
    return 0


class Archive:
    """The query of the archive, restarted if a busy machine was too slow to start its Python."""

    def __init__(self, spark: SparkSession, bootstrap: str, folder: Path) -> None:
        self._start = partial(pipeline.archive, spark, bootstrap, folder)
        self.query = self._start()

    def look_after(self) -> None:
        error = self.query.exception()
        if error is not None:
            if WORKER_LATE not in str(error):
                raise error
            self.query = self._start()


def _listen(orders: Queue[str]) -> None:
    for line in sys.stdin:
        orders.put(line.strip())
    orders.put("end")


def _watch(running: Running, archive: Archive, orders: Queue[str]) -> str:
    """Watch until there is an order; raise the error that ended a query."""
    while True:
        running.await_termination(LOOK_EVERY_S)
        archive.look_after()
        try:
            return orders.get_nowait()
        except Empty:
            pass


class Teller(Thread):
    """Reports every batch that had rows, and the progress of the others, as long as it can."""

    def __init__(self, running: Running, archive: Archive) -> None:
        super().__init__(daemon=True)
        self._queries = dict(zip(running.progress(), running.queries, strict=True))
        self._archive = archive
        self._told: dict[str, str] = {}
        """By query: when the newest reported batch began."""

    def run(self) -> None:
        while True:
            time.sleep(LOOK_EVERY_S)
            try:
                for name, query in [*self._queries.items(), ("archive", self._archive.query)]:
                    self._report_new(name, [json.loads(one.json) for one in query.recentProgress])
            except Exception:
                return  # Spark has ended; the code that watches it knows why

    def _report_new(self, name: str, recent: list[dict[str, Any]]) -> None:
        """Report new progress, by time: a trigger without data has the next batch's number."""
        for progress in recent:
            if progress["timestamp"] > self._told.get(name, ""):
                self._told[name] = progress["timestamp"]
                _say(event="batch", query=name, **_figures(progress))


def _figures(progress: Any) -> dict[str, Any]:
    return {
        "batch": progress["batchId"],
        "rows": rows_in(progress),
        "ms": progress["durationMs"].get("triggerExecution", 0),
        "end": progress["sources"][0]["endOffset"],
    }


def _say(**fields: Any) -> None:
    print(json.dumps(fields), flush=True)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
