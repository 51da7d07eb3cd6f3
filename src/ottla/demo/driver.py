"""`python -m ottla.demo.driver BOOTSTRAP FOLDER`: Spark with the pipeline, in a process of its own.

Told by lines on its stdin: `finish` means to process what is there and end; the end of stdin, that
nobody is waiting any more. Tells its progress by lines of JSON on stdout.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from queue import Empty, Queue
from threading import Thread
from typing import TYPE_CHECKING, Any

from ottla.demo import pipeline
from ottla.spark import spark_session

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

LOOK_EVERY_S = 0.3


def main(bootstrap: str, folder: str) -> int:
    orders: Queue[str] = Queue()
    Thread(target=_listen, args=(orders,), daemon=True).start()
    options = {
        "spark.driver.memory": "1g",
        "spark.local.dir": f"{folder}/spark",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.warehouse.dir": f"{folder}/spark",
    }
    log = Path(folder, "spark.log")
    spark = spark_session("ottla-demo", master="local[2]", options=options, log_file=log)
    queries = pipeline.start(spark, pipeline.Place(bootstrap, folder))
    _say(event="started")
    try:
        order = _watch(queries, orders)
        for query in queries.values() if order == "finish" else ():
            query.processAllAvailable()
        for query in queries.values():
            query.stop()
    except Exception as error:
        _say(event="failed", reason=str(error))
        return 1
    finally:
        spark.stop()
    _say(event="finished")
    return 0


def _listen(orders: Queue[str]) -> None:
    for line in sys.stdin:
        orders.put(line.strip())
    orders.put("end")


def _watch(queries: dict[str, StreamingQuery], orders: Queue[str]) -> str:
    """Tell of every batch, until there is an order; raise what ended a query."""
    told: dict[str, int] = {}
    while True:
        for name, query in queries.items():
            if error := query.exception():
                raise error
            progress: Any = query.lastProgress
            if progress and told.get(name) != progress["batchId"]:
                told[name] = progress["batchId"]
                _say(event="batch", query=name, **_figures(progress))
        try:
            return orders.get(timeout=LOOK_EVERY_S)
        except Empty:
            pass


def _figures(progress: Any) -> dict[str, Any]:
    return {
        "batch": progress["batchId"],
        "rows": progress["numInputRows"],
        "ms": progress["durationMs"].get("triggerExecution", 0),
        "end": progress["sources"][0]["endOffset"],
    }


def _say(**fields: Any) -> None:
    print(json.dumps(fields), flush=True)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
