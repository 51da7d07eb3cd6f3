"""A Spark driver that copies a topic to another with the sink under test; crash stories kill it.

    python sink_driver.py SETTINGS.json

It runs its query again, from the checkpoint, when it fails, until a file `retired` says that
another has taken over, or `stop` that it was enough. What happens is told in JSON lines.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamWriter

LOOK_S = 0.02


class Driver:
    def __init__(self, settings: dict[str, Any]) -> None:
        self.settings = settings
        self.folder = Path(settings["folder"])
        self._notes = os.open(settings["notes"], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)

    def tell(self, what: str, value: object = True) -> None:
        line = json.dumps({"what": what, "value": value, "at": round(time.time(), 3)})
        os.write(self._notes, line.encode() + b"\n")

    def is_told(self, what: str) -> bool:
        return (self.folder / what).exists()

    # Queries

    def source(self, spark: SparkSession) -> DataFrame:
        options = {
            "kafka.bootstrap.servers": self.settings["address"],
            "subscribe": self.settings["source"],
            "startingOffsets": "earliest",
            "includeHeaders": "true",
        }
        return spark.readStream.format("ottla").options(**options).load()

    def sink_options(self, topic: str) -> dict[str, str]:
        address = self.settings["address"]
        return {"kafka.bootstrap.servers": address, "topic": topic, **self.settings["sink"]}

    def copy(self, spark: SparkSession, topic: str) -> DataStreamWriter:
        frame = self.source(spark).select("key", "value", "headers")
        return frame.writeStream.format("ottla").options(**self.sink_options(topic))

    def count(self, spark: SparkSession, topic: str) -> DataStreamWriter:
        """Update mode, by `foreachBatch`: the new count of each key that the batch touched."""
        frame = self.source(spark).groupBy("key").count()
        options = {**self.sink_options(topic), "txnAppId": "counts"}

        def write(counts: DataFrame, batch: int) -> None:
            told = counts.selectExpr("key", f"concat('{batch} ', count) AS value")
            writer = told.write.format("ottla").mode("append")
            writer.options(**options, txnVersion=str(batch)).save()

        return frame.writeStream.outputMode("update").foreachBatch(write)

    # Life

    def run(self) -> None:
        from ottla.spark import spark_session

        options = {
            "spark.driver.memory": "512m",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.driver.host": "127.0.0.1",
            "spark.sql.shuffle.partitions": "2",
            "spark.local.dir": str(self.folder / "local"),
        }
        spark = spark_session("crashes", master="local[2,4]", options=options)
        self.tell("session")
        running = {kind: self.start(spark, kind) for kind in self.queries()}
        while not self.is_told("stop"):
            for kind, query in running.items():
                if not query.isActive:
                    self.tell("failed", str(query.exception())[:20000])
                    if self.is_told("retired"):
                        return self.end(spark)
                    running[kind] = self.start(spark, kind)
            time.sleep(LOOK_S)
        for query in running.values():
            query.processAllAvailable()
        return self.end(spark)

    def queries(self) -> dict[str, tuple[str, str]]:
        """By kind: the topic and the checkpoint."""
        return {kind: (topic, place) for kind, topic, place in self.settings["queries"]}

    def start(self, spark: SparkSession, kind: str) -> StreamingQuery:
        topic, checkpoint = self.queries()[kind]
        made = self.count(spark, topic) if kind == "count" else self.copy(spark, topic)
        made = made.option("checkpointLocation", checkpoint)
        query = made.trigger(processingTime="0 seconds").start()
        self.tell("started", f"{kind} {query.runId}")
        return query

    def end(self, spark: SparkSession) -> None:
        self.tell("ends")
        for query in spark.streams.active:
            query.stop()
        spark.stop()


if __name__ == "__main__":
    Driver(json.loads(Path(sys.argv[1]).read_text())).run()
