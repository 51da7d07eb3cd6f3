"""The sink in Spark: what is written, how often, and what is said when it cannot be."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from sink_tools import committed, open_ids

from ottla.blocking import Admin

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

WAIT_S = 60


def create(bootstrap: str, *topics: str, partitions: int = 2) -> None:
    with Admin(bootstrap_servers=bootstrap) as admin:
        for topic in topics:
            admin.create_topic(topic, partitions=partitions)


def save(frame: DataFrame, bootstrap: str, **options: str) -> None:
    known = {"kafka.bootstrap.servers": bootstrap, **options}
    frame.write.format("ottla").options(**known).mode("append").save()


def values(bootstrap: str, topic: str) -> list[str]:
    return sorted(record.value.decode() for record in committed(bootstrap, topic))


# Tables


def test_spark_sink_writes_every_column_of_a_record(
    spark: SparkSession, bootstrap: str, topic: str
) -> None:
    other = f"{topic}.other"
    create(bootstrap, topic, other)
    noon = datetime(2024, 5, 6, 12, 0, 0, 789000, UTC)
    headers = [("trace", b"\x00\xff"), ("trace", None), ("", b"")]
    rows = [
        (topic, b"k1", "text", headers, 1, noon, "not written"),
        (topic, None, None, None, None, None, None),
        (other, b"", "", [], 0, datetime(1970, 1, 1, tzinfo=UTC), "x"),
    ]
    schema = (
        "topic string, key binary, value string, headers array<struct<key:string,value:binary>>, "
        "partition int, timestamp timestamp, comment string"
    )
    before_ms = int(time.time() * 1000)
    # Columns may come in any order, and others are not written.
    frame = spark.createDataFrame(rows, schema).select(
        "comment", "timestamp", "value", "partition", "key", "headers", "topic"
    )
    save(frame.coalesce(1), bootstrap, **{"kafka.compression.type": "zstd"})
    found = {record.key: record for record in committed(bootstrap, topic)}
    full, bare = found[b"k1"], found[None]
    assert (full.partition, full.value, full.headers) == (1, b"text", tuple(headers))
    assert full.timestamp == int(noon.timestamp() * 1000)
    assert (bare.value, bare.headers) == (None, ())
    assert bare.timestamp >= before_ms
    (third,) = committed(bootstrap, other)
    assert (third.key, third.value, third.headers, third.timestamp) == (b"", b"", (), 0)


def test_spark_sink_keeps_rows_of_a_key_in_order_for_each_topic(
    spark: SparkSession, bootstrap: str, topic: str
) -> None:
    topics = [f"{topic}.{number}" for number in range(3)]
    create(bootstrap, *topics)
    frame = spark.range(0, 30_000, 1, 1).selectExpr(
        f"concat('{topic}.', id % 3) AS topic",
        "cast(id % 7 AS string) AS key",
        "cast(cast(id AS string) AS binary) AS value",
    )
    save(frame, bootstrap)
    seen: list[int] = []
    for number, name in enumerate(topics):
        by_key: dict[bytes, list[int]] = {}
        for record in committed(bootstrap, name):
            by_key.setdefault(record.key, []).append(int(record.value))
        for key, found in by_key.items():
            assert found == sorted(found)
            assert {(value % 3, value % 7) for value in found} == {(number, int(key))}
            seen += found
    assert sorted(seen) == list(range(30_000))


def test_spark_sink_writes_a_table_whole_or_not_at_all(
    spark: SparkSession, bootstrap: str, topic: str
) -> None:
    create(bootstrap, topic)
    frame = spark.range(0, 100, 1, 3).selectExpr(
        "string(if(id = 99, raise_error('the last row'), id)) AS value"
    )
    with pytest.raises(Exception, match="the last row"):
        save(frame, bootstrap, topic=topic)
    assert values(bootstrap, topic) == []
    assert open_ids(bootstrap) == []
    save(spark.range(100).selectExpr("string(id) AS value"), bootstrap, topic=topic)
    assert values(bootstrap, topic) == sorted(map(str, range(100)))
    assert open_ids(bootstrap) == []


def test_spark_sink_writes_a_version_once(spark: SparkSession, bootstrap: str, topic: str) -> None:
    create(bootstrap, topic)
    frame = spark.range(10).selectExpr("string(id) AS value")
    options = {"topic": topic, "txnAppId": f"app-{topic}"}
    for version in (3, 3, 7, 5):
        save(frame, bootstrap, **options, txnVersion=str(version))
    assert len(values(bootstrap, topic)) == 20
    # Other topics are other writes.
    save(frame, bootstrap, **{**options, "topic": f"{topic}.other"}, txnVersion="3")
    assert len(values(bootstrap, f"{topic}.other")) == 10


def refusal(save_it: Callable[[], None]) -> str:
    with pytest.raises(Exception) as raised:  # noqa: PT011 - Spark's own, of several kinds
        save_it()
    return str(raised.value)


def test_spark_sink_says_what_is_wrong_with_rows_and_options(
    spark: SparkSession, bootstrap: str, topic: str
) -> None:
    create(bootstrap, topic)
    plain = spark.range(3).selectExpr("string(id) AS value")
    large = spark.range(1).selectExpr("repeat('x', 2000000) AS value")
    no_topic = plain.selectExpr("value", "if(value = '1', null, 'x') AS topic")
    of_topic = {"topic": topic}

    def told(rows: DataFrame, **options: str) -> str:
        return refusal(lambda: save(rows, bootstrap, **options))

    assert "no topic: set the option 'topic', or add a column 'topic'" in told(plain)
    assert "column 'topic': 1 of" in told(no_topic)
    beyond = plain.selectExpr("value", "9 AS partition")
    message = told(beyond, **of_topic)
    assert f"rows for topic '{topic}': column 'partition': has partition 9" in message
    message = told(large, **of_topic)
    assert f"rows for topic '{topic}'" in message
    assert "kafka.max.request.size" in message
    # The broker refuses it, later.
    message = told(large, **of_topic, **{"kafka.max.request.size": "4000000"})
    assert "rows could not be written" in message
    assert topic in message
    overwriting = plain.write.format("ottla").mode("overwrite").option("topic", topic)
    overwriting = overwriting.option("kafka.bootstrap.servers", bootstrap)
    assert "cannot be overwritten" in refusal(overwriting.save)
    assert values(bootstrap, topic) == []
    assert open_ids(bootstrap) == []


# Streams


class Stream:
    """Rows of small files, a file a batch, through a query that can be started again."""

    def __init__(self, spark: SparkSession, bootstrap: str, folder: Path) -> None:
        self.spark, self.bootstrap, self.folder = spark, bootstrap, folder
        self.input = folder / "input"
        self.input.mkdir()
        self.fed = 0

    def feed(self, rows: int = 20) -> None:
        lines = "".join(f"{number}\n" for number in range(self.fed, self.fed + rows))
        self.fed += rows
        (self.folder / "draft").write_text(lines)
        (self.folder / "draft").rename(self.input / f"{self.fed:08}")

    def frame(self) -> DataFrame:
        reader = self.spark.readStream.option("maxFilesPerTrigger", 1)
        return reader.text(str(self.input))

    def options(self, **options: str) -> dict[str, str]:
        return {"kafka.bootstrap.servers": self.bootstrap, **options}

    def run(self, made: Any) -> None:
        """All there is to do."""
        query: StreamingQuery = (
            made.option("checkpointLocation", str(self.folder / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        assert query.awaitTermination(WAIT_S), "the query does not end"

    def forget_last_batch(self) -> None:
        """As if the driver had died right after the sink's commit."""
        commits = self.folder / "checkpoint" / "commits"
        last = max(commits.glob("[0-9]*"), key=lambda path: int(path.name))
        last.unlink()
        (commits / f".{last.name}.crc").unlink(missing_ok=True)

    def expected(self) -> list[str]:
        return sorted(map(str, range(self.fed)))


def test_spark_sink_writes_each_batch_of_a_stream_once(
    spark: SparkSession, bootstrap: str, topic: str, tmp_path: Path
) -> None:
    create(bootstrap, topic)
    stream = Stream(spark, bootstrap, tmp_path)
    options = stream.options(topic=topic)
    for _ in range(3):
        stream.feed()
    stream.run(stream.frame().writeStream.format("ottla").options(**options))
    assert values(bootstrap, topic) == stream.expected()
    stream.forget_last_batch()
    stream.feed()
    stream.run(stream.frame().writeStream.format("ottla").options(**options))
    assert values(bootstrap, topic) == stream.expected()
    assert open_ids(bootstrap) == []


def test_spark_sink_in_foreach_batch_writes_each_update_once(
    spark: SparkSession, bootstrap: str, topic: str, tmp_path: Path
) -> None:
    create(bootstrap, topic)
    stream = Stream(spark, bootstrap, tmp_path)
    counts = stream.frame().groupBy("value").count()

    def write(batch: DataFrame, number: int) -> None:
        told = batch.selectExpr("value AS key", f"concat('{number}: ', count) AS value")
        for _ in range(2):  # as if the first had failed when it was done
            save(told, bootstrap, topic=topic, txnAppId=topic, txnVersion=str(number))

    def updates() -> Any:
        return counts.writeStream.outputMode("update").foreachBatch(write)

    for _ in range(2):
        stream.fed = 0
        stream.feed(4)
        (stream.input / f"{stream.fed:08}").rename(stream.input / f"{time.time_ns()}")
        stream.run(updates())
    stream.forget_last_batch()
    stream.run(updates())
    assert values(bootstrap, topic) == ["0: 1"] * 4 + ["1: 2"] * 4
    assert open_ids(bootstrap) == []


def test_spark_sink_at_least_once_opens_no_transaction(
    spark: SparkSession, bootstrap: str, topic: str, tmp_path: Path
) -> None:
    create(bootstrap, topic)
    stream = Stream(spark, bootstrap, tmp_path)
    options = stream.options(topic=topic, deliveryGuarantee="at-least-once")
    stream.feed()
    with Admin(bootstrap_servers=bootstrap) as admin:
        before = admin.list_transactions()
        stream.run(stream.frame().writeStream.format("ottla").options(**options))
        assert admin.list_transactions() == before
    assert values(bootstrap, topic) == stream.expected()


def test_spark_sink_leaves_nothing_open_when_a_query_is_stopped(
    spark: SparkSession, bootstrap: str, topic: str, tmp_path: Path
) -> None:
    create(bootstrap, topic)
    rows = spark.readStream.format("rate").option("rowsPerSecond", 1000).load()
    # A task that is at it for long: the query is stopped when rows of it are in a transaction.
    slow = rows.selectExpr("concat(value, reflect('java.lang.Thread', 'sleep', 5L)) AS value")
    query = (
        slow.writeStream.format("ottla")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("topic", topic)
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .start()
    )
    deadline = time.monotonic() + WAIT_S
    while not open_ids(bootstrap, query.id):
        assert query.isActive, query.exception()
        assert time.monotonic() < deadline
        time.sleep(0.02)
    query.stop()
    while open_ids(bootstrap, query.id):
        assert time.monotonic() < deadline, "a transaction is left open"
        time.sleep(0.1)
