"""A topic made anew while a query is away: its id, kept with the offsets, tells.

The readers are asked as Spark asks them, without Spark.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable

from ottla.blocking import Admin, Producer
from ottla.spark.source.columns import spark_schema
from ottla.spark.source.data_loss import DataLoss
from ottla.spark.source.stream_reader import StreamReader

Json = dict[str, dict[str, Any]]


def reader(bootstrap: str, topic: str, *, fails: bool) -> StreamReader:
    options = {
        "kafka.bootstrap.servers": bootstrap,
        "subscribe": topic,
        "startingOffsets": "earliest",
        "failOnDataLoss": str(fails).lower(),
    }
    return StreamReader(options, spark_schema(headers=False))


@contextmanager
def stopping(source: StreamReader) -> Iterator[StreamReader]:
    try:
        yield source
    finally:
        source.stop()


def fill(bootstrap: str, topic: str, values: list[bytes]) -> None:
    with Admin(bootstrap_servers=bootstrap) as admin:
        if topic in admin.list_topics():
            admin.delete_topic(topic)
        admin.create_topic(topic, partitions=1)
    with Producer(bootstrap_servers=bootstrap) as producer:
        for value in values:
            producer.send(topic, value)


def read(bootstrap: str, topic: str, start: Json, *, fails: bool = False) -> list[bytes]:
    """What a query reads that begins again at `start`, batch by batch, until it stands still."""
    found: list[bytes] = []
    with stopping(reader(bootstrap, topic, fails=fails)) as source:
        while (end := source.latestOffset(start, ReadAllAvailable())) != start:
            tasks = source.partitions(start, end)
            rows = [batch for task in tasks for batch in source.read(task)]
            found += [value for batch in rows for value in batch.column("value").to_pylist()]
            start = end
    return found


def read_all(bootstrap: str, topic: str) -> Json:
    with stopping(reader(bootstrap, topic, fails=True)) as source:
        end: Json = source.latestOffset(source.initialOffset(), ReadAllAvailable())
    return end


@pytest.mark.parametrize("count", [0, 1, 3, 9])
def test_source_reads_all_of_a_topic_that_was_made_anew_while_the_query_was_away(
    bootstrap: str, topic: str, count: int
) -> None:
    fill(bootstrap, topic, [b"old"] * 3)
    end = read_all(bootstrap, topic)
    new = [b"new %d" % number for number in range(count)]
    fill(bootstrap, topic, new)
    assert read(bootstrap, topic, end) == new


def test_source_says_that_a_topic_was_made_anew_though_nothing_of_it_was_read(
    bootstrap: str, topic: str
) -> None:
    fill(bootstrap, topic, [])
    end = read_all(bootstrap, topic)
    fill(bootstrap, topic, [b"new"])
    with pytest.raises(DataLoss, match=rf"{topic} was deleted and made anew"):
        read(bootstrap, topic, end, fails=True)


def test_source_goes_on_from_a_checkpoint_of_sparks_own_connector(
    bootstrap: str, topic: str
) -> None:
    fill(bootstrap, topic, [b"a", b"b", b"c"])
    assert read(bootstrap, topic, {topic: {"0": 2}}, fails=True) == [b"c"]
