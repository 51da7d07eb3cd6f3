"""The readers as Spark's driver uses them, without Spark: offsets asked for, batches planned."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows, ReadMinRows

from ottla.blocking import Admin, Producer
from ottla.client.errors import TopicMissing
from ottla.client.values import TopicPartition
from ottla.spark.source.batch_reader import BatchReader
from ottla.spark.source.columns import spark_schema
from ottla.spark.source.data_loss import DataLoss
from ottla.spark.source.offsets import IDS
from ottla.spark.source.stream_reader import StreamReader

ALL = ReadAllAvailable()


class Desk:
    """A topic with two partitions to begin with, and readers of it."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self.bootstrap = bootstrap
        self.topic = topic
        self.admin = Admin(bootstrap_servers=bootstrap)
        self.admin.start()
        self.readers: list[StreamReader] = []
        self.make()

    def make(self, topic: str | None = None, partitions: int = 2) -> None:
        self.admin.create_topic(topic or self.topic, partitions=partitions)

    def send(self, *counts: int, topic: str | None = None, start_ms: int = 1000) -> None:
        """So many records to each partition, a second apart."""
        with Producer(bootstrap_servers=self.bootstrap) as producer:
            for partition, count in enumerate(counts):
                for number in range(count):
                    producer.send(
                        topic or self.topic,
                        b"v",
                        partition=partition,
                        timestamp_ms=start_ms + 1000 * number,
                    )

    def options(self, **more: str) -> dict[str, str]:
        way = {} if {"assign", "subscribePattern"} & more.keys() else {"subscribe": self.topic}
        return {
            "kafka.bootstrap.servers": self.bootstrap,
            "fetchOffset.retryIntervalMs": "20",
            **way,
            **more,
        }

    def reader(self, **more: str) -> StreamReader:
        reader = StreamReader(self.options(**more), spark_schema())
        self.readers.append(reader)
        return reader

    def at(self, *offsets: int) -> dict[str, dict[str, int]]:
        return {self.topic: {str(index): offset for index, offset in enumerate(offsets)}}

    def close(self) -> None:
        for reader in self.readers:
            reader.stop()
        self.admin.close()


@pytest.fixture
def desk(bootstrap: str, topic: str) -> Iterator[Desk]:
    made = Desk(bootstrap, topic)
    try:
        yield made
    finally:
        made.close()


def bare(offsets: dict | None) -> dict:
    """Without the topics' ids."""
    return {name: parts for name, parts in (offsets or {}).items() if name != IDS}


def planned(reader: StreamReader, start: dict, end: dict) -> list[tuple[str, int, int, int]]:
    return [
        (one.topic, one.partition, one.start, one.until) for one in reader.partitions(start, end)
    ]


# Where a query begins


def test_the_latest_is_written_down_by_a_first_batch_without_rows(desk: Desk) -> None:
    desk.send(3, 4)
    reader = desk.reader()
    start = reader.initialOffset()
    end = reader.latestOffset(start, ALL)
    assert bare(end) == desk.at(3, 4)
    desk.send(10, 10)
    # Planned again after a crash: still nothing, and the next batch begins at the same place.
    again = desk.reader()
    assert planned(again, again.initialOffset(), end) == []
    assert planned(again, end, again.latestOffset(end, ALL)) == [
        *((desk.topic, 0, 3, 13), (desk.topic, 1, 4, 14))
    ]
    assert again.reportLatestOffset() == desk.at(13, 14)


def test_the_earliest_is_the_first_record_there_is(desk: Desk) -> None:
    desk.send(3, 4)
    desk.admin.delete_records({TopicPartition(desk.topic, 1): 2})
    reader = desk.reader(startingOffsets="earliest")
    start = reader.initialOffset()
    expected = [(desk.topic, 0, 0, 3), (desk.topic, 1, 2, 4)]
    assert planned(reader, start, reader.latestOffset(start, ALL)) == expected


def test_offsets_by_partition_may_name_the_ends(desk: Desk) -> None:
    desk.send(3, 4)
    reader = desk.reader(startingOffsets=f'{{"{desk.topic}":{{"0":1,"1":-1}}}}')
    start = reader.initialOffset()
    end = reader.latestOffset(start, ReadMaxRows(1))
    assert bare(end) == desk.at(2, 4)
    assert planned(reader, start, end) == [(desk.topic, 0, 1, 2)]


def test_a_start_behind_the_last_record_is_a_loss_or_the_latest(desk: Desk) -> None:
    desk.send(3, 4)
    offsets = f'{{"{desk.topic}":{{"0":1,"1":5}}}}'
    with pytest.raises(DataLoss, match="is to be read from offset 5, but ends at 4"):
        desk.reader(startingOffsets=offsets).initialOffset()
    lenient = desk.reader(startingOffsets=offsets, failOnDataLoss="false")
    assert lenient.initialOffset() == desk.at(1, -1)


def test_offsets_by_partition_must_name_all(desk: Desk) -> None:
    desk.send(1, 1)
    reader = desk.reader(startingOffsets=f'{{"{desk.topic}":{{"0":1}}}}')
    start = reader.initialOffset()
    with pytest.raises(ValueError, match=r"you must specify all TopicPartitions.*-1 for latest"):
        reader.latestOffset(start, ALL)


def test_a_first_batch_is_planned_again_though_partitions_came_meanwhile(desk: Desk) -> None:
    """Its query died before it was done: Spark asks for the first offsets, and for its tasks."""
    desk.send(3, 4)
    offsets = f'{{"{desk.topic}":{{"0":1,"1":0}}}}'
    first = desk.reader(startingOffsets=offsets)
    start = first.initialOffset()
    end = first.latestOffset(start, ALL)
    desk.admin.create_partitions(desk.topic, 3)
    again = desk.reader(startingOffsets=offsets)
    assert again.initialOffset() == start
    assert planned(again, start, end) == planned(first, start, end)
    assert bare(again.latestOffset(end, ALL)) == desk.at(3, 4, 0)


def test_times_are_looked_up_and_a_time_too_late_is_an_error_or_the_latest(desk: Desk) -> None:
    desk.send(3, 1)
    assert desk.reader(startingTimestamp="1000").initialOffset() == desk.at(0, 0)
    with pytest.raises(ValueError, match=r"No offset matched .*-1 and timestamp 2500"):
        desk.reader(startingTimestamp="2500").initialOffset()
    times = f'{{"{desk.topic}":{{"0":2500,"1":2500}}}}'
    lenient = desk.reader(
        startingOffsetsByTimestamp=times, startingOffsetsByTimestampStrategy="latest"
    )
    assert lenient.initialOffset() == desk.at(2, -1)


def test_what_is_not_there_is_named(desk: Desk) -> None:
    with pytest.raises(TopicMissing, match="there is no topic 'nowhere'"):
        desk.reader(subscribe=f"{desk.topic},nowhere").initialOffset()
    with pytest.raises(TopicMissing, match="has no partition 7"):
        desk.reader(assign=f'{{"{desk.topic}":[0,7]}}').initialOffset()
    assigned = desk.reader(assign=f'{{"{desk.topic}":[1]}}').initialOffset()
    assert assigned == {desk.topic: {"1": -1}}


# How far a batch goes


def test_limits_are_kept_unless_all_is_asked_for(desk: Desk) -> None:
    desk.send(30, 10)
    reader = desk.reader(startingOffsets="earliest", maxOffsetsPerTrigger="8")
    start, limit = reader.initialOffset(), reader.getDefaultReadLimit()
    assert limit == ReadMaxRows(8)
    first = reader.latestOffset(start, limit)
    assert bare(first) == desk.at(6, 2)
    assert bare(reader.latestOffset(first, limit)) == desk.at(12, 4)
    assert bare(reader.latestOffset(first, ALL)) == desk.at(30, 10)
    assert reader.reportLatestOffset() == desk.at(30, 10)


def test_too_few_records_wait_for_more(desk: Desk) -> None:
    desk.send(1, 1)
    reader = desk.reader(startingOffsets="earliest", minOffsetsPerTrigger="4", maxTriggerDelay="1h")
    limit = reader.getDefaultReadLimit()
    assert limit == ReadMinRows(4)
    start = reader.latestOffset(reader.initialOffset(), limit)
    assert bare(start) == desk.at(1, 1)  # the first batch does not wait
    desk.send(2, 1)
    assert reader.latestOffset(start, limit) == start
    desk.send(1, 0)
    assert bare(reader.latestOffset(start, limit)) == desk.at(4, 2)


def test_too_few_records_do_not_wait_longer_than_the_delay(desk: Desk) -> None:
    reader = desk.reader(minOffsetsPerTrigger="4", maxTriggerDelay="50ms")
    limit = reader.getDefaultReadLimit()
    start = reader.latestOffset(reader.initialOffset(), limit)
    desk.send(1, 0)
    time.sleep(0.06)
    assert bare(reader.latestOffset(start, limit)) == desk.at(1, 0)


def test_available_now_ends_with_what_was_there(desk: Desk) -> None:
    desk.send(5, 5)
    reader = desk.reader(
        startingOffsets="earliest", maxOffsetsPerTrigger="6", minOffsetsPerTrigger="5"
    )
    reader.prepareForTriggerAvailableNow()
    desk.send(9, 9)
    desk.admin.create_partitions(desk.topic, 3)
    offset, limit = reader.initialOffset(), reader.getDefaultReadLimit()
    seen = []
    for _ in range(10):
        before, offset = offset, reader.latestOffset(offset, limit)
        if offset == before:
            break
        seen += planned(reader, before, offset)
    assert bare(offset) == desk.at(5, 5)
    assert sorted(seen) == [
        *((desk.topic, 0, 0, 3), (desk.topic, 0, 3, 5)),
        *((desk.topic, 1, 0, 3), (desk.topic, 1, 3, 5)),
    ]


def test_tasks_are_as_many_as_wanted(desk: Desk) -> None:
    desk.send(90, 10)
    reader = desk.reader(minPartitions="6")
    tasks = planned(reader, desk.at(0, 0), desk.at(90, 10))
    assert tasks == [
        *((desk.topic, 0, 18 * number, 18 * number + 18) for number in range(5)),
        (desk.topic, 1, 0, 10),
    ]
    limited = desk.reader(maxRecordsPerPartition="50")
    assert [
        until - start for *_, start, until in planned(limited, desk.at(0, 0), desk.at(90, 10))
    ] == [*(45, 45, 10)]


# What changes while a query runs


def test_new_partitions_and_topics_are_read_from_their_first_record(desk: Desk) -> None:
    desk.send(2, 2)
    reader = desk.reader(subscribePattern=f"^{desk.topic}", startingOffsets="latest")
    start = reader.latestOffset(reader.initialOffset(), ALL)
    assert bare(start) == desk.at(2, 2)
    desk.admin.create_partitions(desk.topic, 3)
    later = f"{desk.topic}-later"
    desk.make(later, 1)
    desk.send(0, 0, 4)
    desk.send(5, topic=later)
    end = reader.latestOffset(start, ReadMaxRows(100))
    assert bare(end) == desk.at(2, 2, 4) | {later: {"0": 5}}
    assert planned(reader, start, end) == [(desk.topic, 2, 0, 4), (later, 0, 0, 5)]


def test_a_new_partition_that_has_lost_records_already_is_told(desk: Desk) -> None:
    desk.send(2, 2)
    desk.admin.delete_records({TopicPartition(desk.topic, 1): 1})
    start, end = {desk.topic: {"0": 2}}, desk.at(2, 2)
    with pytest.raises(DataLoss, match=r"Added partition .* starts from 1 instead of 0"):
        desk.reader().partitions(start, end)
    assert planned(desk.reader(failOnDataLoss="false"), start, end) == [(desk.topic, 1, 1, 2)]


def test_a_topic_that_is_gone_is_a_loss_or_left_out(desk: Desk) -> None:
    other = f"{desk.topic}-other"
    desk.make(other, 1)
    desk.send(1, 1)
    strict, lenient = (
        desk.reader(subscribe=f"{desk.topic},{other}", failOnDataLoss=fails)
        for fails in ("true", "false")
    )
    start = strict.latestOffset(strict.initialOffset(), ALL)
    assert lenient.latestOffset(lenient.initialOffset(), ALL) == start
    desk.admin.delete_topic(other)
    desk.send(1, 0)
    for reader in (strict, lenient):
        assert bare(reader.latestOffset(start, ALL)) == desk.at(2, 1)
    with pytest.raises(DataLoss, match=f"Partitions {other}-0 are gone"):
        strict.partitions(start, desk.at(2, 1))
    assert planned(lenient, start, desk.at(2, 1)) == [(desk.topic, 0, 1, 2)]


@pytest.mark.parametrize("now", [(2, 1), (9, 9)], ids=["shorter", "longer"])
def test_a_topic_made_anew_is_a_loss_or_read_from_its_first_record(desk: Desk, now) -> None:
    desk.send(5, 5)
    strict, lenient = (
        desk.reader(failOnDataLoss=fails, startingOffsets="earliest") for fails in ("true", "false")
    )
    start = strict.latestOffset(strict.initialOffset(), ALL)
    assert lenient.latestOffset(lenient.initialOffset(), ALL) == start
    assert bare(start) == desk.at(5, 5)
    desk.admin.delete_topic(desk.topic)
    desk.make()
    desk.send(*now)
    with pytest.raises(DataLoss, match="was deleted and made anew"):
        strict.partitions(start, strict.latestOffset(start, ALL))
    seen: dict[int, list[int]] = {0: [], 1: []}
    for _ in range(3):
        end = lenient.latestOffset(start, ReadMaxRows(100))
        for _, partition, first, until in planned(lenient, start, end):
            seen[partition] += range(first, until)
        start = end
    assert seen == {index: list(range(count)) for index, count in enumerate(now)}


# A topic as a table


def ranges(reader: BatchReader) -> list[tuple[int, int, int]]:
    return [(one.partition, one.start, one.until) for one in reader.partitions()]


def test_a_table_is_everything_between_two_places(desk: Desk) -> None:
    desk.send(5, 3)
    by_offset = desk.options(
        startingOffsets=f'{{"{desk.topic}":{{"0":1,"1":-2}}}}',
        endingOffsets=f'{{"{desk.topic}":{{"0":4,"1":-1}}}}',
    )
    by_time = desk.options(startingTimestamp="2000", endingTimestamp="4000")
    for options, expected in (
        (desk.options(), [(0, 0, 5), (1, 0, 3)]),
        (by_offset, [(0, 1, 4), (1, 0, 3)]),
        (by_time, [(0, 1, 3), (1, 1, 3)]),
    ):
        assert ranges(BatchReader(options, spark_schema())) == expected
    backwards = desk.options(startingTimestamp="3000", endingTimestamp="1000")
    with pytest.raises(
        ValueError, match="start offset 2 is greater than the resolved end offset 0"
    ):
        ranges(BatchReader(backwards, spark_schema()))
    beyond = desk.options(endingOffsets=f'{{"{desk.topic}":{{"0":99,"1":-1}}}}')
    with pytest.raises(ValueError, match="is 99, but it ends at offset 5"):
        ranges(BatchReader(beyond, spark_schema()))


def test_another_schema_is_refused(desk: Desk) -> None:
    with pytest.raises(ValueError, match="Kafka source has a fixed schema"):
        BatchReader(desk.options(), spark_schema(headers=True))
