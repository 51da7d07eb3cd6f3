"""The source in a real Spark session: columns, tasks, streams that go on where they stopped."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from pyspark.errors import AnalysisException, StreamingQueryException

from ottla.blocking import Admin, Producer

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def fill(bootstrap: str, topic: str, count: int, first: int = 0) -> None:
    with Producer(bootstrap_servers=bootstrap) as producer:
        for number in range(first, first + count):
            headers = (("n", b"%d" % number), ("none", None)) if number % 2 else ()
            producer.send(
                topic, b"v%d" % number, b"k%d" % number, partition=number % 2, headers=headers
            )


def make(bootstrap: str, topic: str) -> None:
    with Admin(bootstrap_servers=bootstrap) as admin:
        admin.create_topic(topic, partitions=2)


def table(spark: SparkSession, bootstrap: str, **options: str) -> DataFrame:
    # Nothing registers the format: Spark finds the package `pyspark_ottla` by itself.
    reader = spark.read.format("ottla").option("kafka.bootstrap.servers", bootstrap)
    return reader.options(**options).load()


def test_a_table_has_the_columns_of_sparks_source(
    spark: SparkSession, bootstrap: str, topic: str
) -> None:
    make(bootstrap, topic)
    fill(bootstrap, topic, 10)
    rows = table(
        spark, bootstrap, subscribe=topic, includeHeaders="true", minPartitions="4"
    ).selectExpr("*", "spark_partition_id() AS task")
    assert rows.schema.simpleString() == (
        "struct<key:binary,value:binary,topic:string,partition:int,offset:bigint,"
        "timestamp:timestamp,timestampType:int,headers:array<struct<key:string,value:binary>>,"
        "task:int>"
    )
    found = rows.orderBy("partition", "offset").collect()
    assert len({row.task for row in found}) == 4
    assert [(row.partition, row.offset) for row in found] == [
        (number // 5, number % 5) for number in range(10)
    ]
    assert [bytes(row.value) for row in found[:2]] == [b"v0", b"v2"]
    assert [bytes(row.key) for row in found[5:7]] == [b"k1", b"k3"]
    assert {row.headers is None for row in found[:5]} == {True}
    assert [(pair.key, pair.value) for pair in found[5].headers] == [("n", b"1"), ("none", None)]
    assert {(row.topic, row.timestampType) for row in found} == {(topic, 0)}


def test_a_stream_goes_on_where_it_stopped(
    spark: SparkSession, bootstrap: str, topic: str, tmp_path: Path
) -> None:
    make(bootstrap, topic)
    fill(bootstrap, topic, 4)
    stream = (
        spark.readStream.format("ottla")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("subscribe", topic)
        .option("maxOffsetsPerTrigger", "60")
        .load()
    )
    writer = stream.writeStream.format("parquet").option("path", str(tmp_path / "rows"))
    writer = writer.option("checkpointLocation", str(tmp_path / "checkpoint"))

    def run() -> list[dict]:
        query = writer.trigger(availableNow=True).start()
        assert query.awaitTermination(60)
        return [json.loads(batch.json) for batch in query.recentProgress]

    run()  # from the latest: nothing yet, but the place is known from now on
    fill(bootstrap, topic, 100, first=4)
    batches = [batch for batch in run() if batch["numInputRows"]]
    assert [batch["numInputRows"] for batch in batches] == [60, 40]
    ends = batches[0]["sources"][0]
    assert ends["startOffset"][topic] == {"0": 2, "1": 2}
    assert ends["endOffset"][topic] == {"0": 32, "1": 32}
    assert ends["latestOffset"][topic] == {"0": 52, "1": 52}
    fill(bootstrap, topic, 6, first=104)
    run()
    found = [
        row.value for row in spark.read.parquet(str(tmp_path / "rows")).select("value").collect()
    ]
    assert sorted(map(bytes, found)) == sorted(b"v%d" % number for number in range(4, 110))


def test_what_is_wrong_is_told_where_it_was_written(
    spark: SparkSession, bootstrap: str, topic: str, tmp_path: Path
) -> None:
    make(bootstrap, topic)
    with pytest.raises(AnalysisException, match=r"did you mean 'startingOffsets'\?"):
        table(spark, bootstrap, subscribe=topic, startingOffset="earliest")
    with pytest.raises(AnalysisException, match="starting offset can't be latest for batch"):
        table(spark, bootstrap, subscribe=topic, startingOffsets="latest").count()
    stream = spark.readStream.format("ottla").option("kafka.bootstrap.servers", bootstrap)
    missing = stream.option("subscribe", f"{topic}-missing").load()
    place = str(tmp_path / "checkpoint")
    query = missing.writeStream.format("noop").option("checkpointLocation", place).start()
    with pytest.raises(StreamingQueryException, match=f"there is no topic '{topic}-missing'"):
        query.awaitTermination(60)
