"""What test_interop_spark_connector.py has Spark's own connector do, in a process of its own.

A JVM takes jars only when it starts, and the one of the other tests has started without these.
Arguments: jars, bootstrap, a folder, a prefix of topics. Prints one line of JSON.
"""

from __future__ import annotations

import json
import sys
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from ottla.spark import spark_session


class Jobs:
    def __init__(self, spark: SparkSession, bootstrap: str, folder: str, prefix: str) -> None:
        self.spark = spark
        self.bootstrap = bootstrap
        self.folder = folder
        self.prefix = prefix

    def run(self) -> dict[str, Any]:
        written = self._rows(40)
        self._write(written, "written")
        found = self._read(subscribe="written", includeHeaders="true")
        return {
            "written": found.count(),
            "headers": _lists(found.filter("key = 'k7'").select("headers")),
            "uncommitted": self._values("mixed"),
            "committed": self._values("mixed", **{"kafka.isolation.level": "read_committed"}),
            "from_time": self._values("timed", startingTimestamp="3000"),
            "between": self._values("timed", startingTimestamp="2000", endingTimestamp="4000"),
            "streamed": self._stream_twice(),
        }

    def _rows(self, count: int) -> DataFrame:
        header = "array(named_struct('key', 'number', 'value', cast(cast(id as string) as binary)))"
        return self.spark.range(count).selectExpr(
            "concat('k', id) key", "concat('v', id) value", f"{header} headers"
        )

    def _write(self, rows: DataFrame, topic: str) -> None:
        writer = rows.write.format("kafka").option("kafka.bootstrap.servers", self.bootstrap)
        writer.option("topic", self.prefix + topic).option("includeHeaders", "true").save()

    def _read(self, subscribe: str, **options: str) -> DataFrame:
        reader = self.spark.read.format("kafka").option("kafka.bootstrap.servers", self.bootstrap)
        return reader.options(subscribe=self.prefix + subscribe, **options).load()

    def _values(self, subscribe: str, **options: str) -> list[str]:
        rows = self._read(subscribe, **options).select(F.col("value").cast("string"))
        return sorted(row[0] for row in rows.collect())

    def _stream_twice(self) -> list[list[int]]:
        """Copy what is there, then, from the same checkpoint, what has come since."""
        copies = [self._copy_available()]
        self._write(self._rows(10), "part-2")
        copies.append(self._copy_available())
        return copies

    def _copy_available(self) -> list[int]:
        source = self.spark.readStream.format("kafka").options(
            **{
                "kafka.bootstrap.servers": self.bootstrap,
                "subscribePattern": f"{self.prefix}part-.*",
                "startingOffsets": "earliest",
                "maxOffsetsPerTrigger": "30",
                "includeHeaders": "true",
            }
        )
        sink = source.load().select("key", "value", "headers").writeStream.format("kafka")
        sink = sink.option("kafka.bootstrap.servers", self.bootstrap)
        sink = sink.option("topic", f"{self.prefix}copied").option("includeHeaders", "true")
        sink = sink.option("checkpointLocation", f"{self.folder}/checkpoint")
        query = sink.trigger(availableNow=True).start()
        query.awaitTermination()
        return [batch["numInputRows"] for batch in query.recentProgress if batch["numInputRows"]]


def _lists(rows: DataFrame) -> list[list[list[str]]]:
    found = [row[0] for row in rows.collect()]
    return [[[one["key"], bytes(one["value"]).decode()] for one in headers] for headers in found]


def main(jars: str, bootstrap: str, folder: str, prefix: str) -> None:
    options = {
        "spark.jars": jars,
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.memory": "1g",
        "spark.local.dir": f"{folder}/local",
        "spark.sql.warehouse.dir": f"{folder}/warehouse",
    }
    spark = spark_session("connector", master="local[2]", options=options)
    try:
        print(json.dumps(Jobs(spark, bootstrap, folder, prefix).run()))
    finally:
        spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
