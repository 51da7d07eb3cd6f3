"""Ranges as tasks read them: every record once, none outside, and an end whatever is missing."""

from __future__ import annotations

import concurrent.futures
import os
import random
import time
from collections.abc import Iterable

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from broker_harness import Broker
from ottla.blocking import Admin, Producer
from ottla.client.values import TopicPartition
from ottla.protocol.uuids import ZERO_UUID
from ottla.records.builder import Record, build_batch
from ottla.records.header import read_header
from ottla.spark.source import range_reader
from ottla.spark.source.columns import arrow_schema
from ottla.spark.source.data_loss import DataLoss
from ottla.spark.source.fetching import Answer, Asked
from ottla.spark.source.options import SourceOptions, batch_options
from ottla.spark.source.planning import Range
from ottla.spark.source.range_reader import RangeReader, read_range
from ottla.spark.source.source_client import SourceClient


def options_for(bootstrap: str, topic: str, **more: str) -> SourceOptions:
    given = {"kafka.bootstrap.servers": bootstrap, "subscribe": topic}
    return batch_options(given | {name.replace("__", "."): value for name, value in more.items()})


def rows_of(batches: Iterable[pa.RecordBatch], *, headers: bool = False) -> list[dict]:
    tables = list(batches)
    assert all(batch.schema == arrow_schema(headers) for batch in tables)
    return [row for batch in tables for row in batch.to_pylist()]


def offsets_of(options: SourceOptions, topic: str, start: int, until: int) -> list[int]:
    wanted = Range(TopicPartition(topic, 0), start, until)
    return [row["offset"] for row in rows_of(read_range(options, wanted))]


def make_topic(bootstrap: str, topic: str, **config: str) -> bytes:
    """Its id."""
    configs = {name.replace("_", "."): value for name, value in config.items()}
    with Admin(bootstrap_servers=bootstrap) as admin:
        return admin.create_topic(topic, partitions=1, configs=configs).topic_id


def send(bootstrap: str, topic: str, values: Iterable[bytes | None], **options) -> None:
    with Producer(bootstrap_servers=bootstrap, **options) as producer:
        for value in values:
            producer.send(topic, value)


# What is in a range


def test_any_part_of_a_log_comes_back_as_it_was_written(bootstrap: str, topic: str) -> None:
    seed = random.randrange(1 << 32)
    print(f"seed {seed}")
    chance = random.Random(seed)
    make_topic(bootstrap, topic, message_timestamp_before_max_ms=str(1 << 62))
    written = []
    for codec in ("none", "gzip", "snappy", "lz4", "zstd"):
        with Producer(
            bootstrap_servers=bootstrap, compression_type=codec, batch_size=20_000
        ) as producer:
            for _ in range(400):
                row = {
                    "key": chance.choice((None, b"", chance.randbytes(5))),
                    "value": chance.choice((None, b"", chance.randbytes(chance.randrange(300)))),
                    "timestamp_ms": chance.randrange(1 << 40),
                    "headers": [
                        (f"h{n}", chance.choice((None, b"", b"x")))
                        for n in range(chance.randrange(3))
                    ],
                }
                written.append(row)
                producer.send(topic, **row)
    options = options_for(
        bootstrap, topic, includeHeaders="true", kafka__max__partition__fetch__bytes="10000"
    )
    for _ in range(8):
        start, until = sorted(chance.randrange(len(written) + 1) for _ in range(2))
        found = rows_of(
            read_range(options, Range(TopicPartition(topic, 0), start, until)), headers=True
        )
        assert [row["offset"] for row in found] == list(range(start, until))
        for row, expected in zip(found, written[start:until], strict=True):
            assert (row["key"], row["value"]) == (expected["key"], expected["value"])
            assert row["timestamp"].timestamp() * 1000 == pytest.approx(expected["timestamp_ms"])
            pairs = [(pair["key"], pair["value"]) for pair in row["headers"] or ()]
            assert pairs == expected["headers"]
            assert (row["headers"] is None) == (not expected["headers"])
            assert (row["topic"], row["partition"], row["timestampType"]) == (topic, 0, 0)


def test_large_batches_are_cut_to_arrow_batches(bootstrap: str, topic: str) -> None:
    make_topic(bootstrap, topic, message_timestamp_type="LogAppendTime")
    count = 45_000
    values = pa.record_batch({"value": pa.array([b"v"] * count, pa.binary())})
    with Producer(bootstrap_servers=bootstrap, batch_size=900_000, linger_ms=100) as producer:
        producer.send_arrow(topic, values)
        producer.flush()
    wanted = Range(TopicPartition(topic, 0), 1, count - 1)
    batches = list(read_range(options_for(bootstrap, topic), wanted))
    assert max(map(len, batches)) <= 20_000
    assert [row["offset"] for row in rows_of(batches)] == list(range(1, count - 1))
    assert {row["timestampType"] for row in rows_of(batches)} == {1}


def transactions(bootstrap: str, topic: str) -> None:
    """0-2 committed, 3 marker, 4-6 aborted, 7 marker, 8-10 committed, 11 marker."""
    with Producer(bootstrap_servers=bootstrap, transactional_id=f"{topic}-id") as producer:
        producer.init_transactions()
        for end in ("commit", "abort", "commit"):
            producer.begin_transaction()
            for number in range(3):
                producer.send(topic, b"%d" % number)
            producer.flush()  # what an abort finds unsent, it never sends
            getattr(producer, f"{end}_transaction")()


def test_markers_and_aborted_records_are_stepped_over(bootstrap: str, topic: str) -> None:
    make_topic(bootstrap, topic)
    transactions(bootstrap, topic)
    committed = options_for(bootstrap, topic, kafka__isolation__level="read_committed")
    everything = options_for(bootstrap, topic)
    assert offsets_of(committed, topic, 0, 12) == [0, 1, 2, 8, 9, 10]
    assert offsets_of(everything, topic, 0, 12) == [0, 1, 2, 4, 5, 6, 8, 9, 10]
    assert offsets_of(committed, topic, 5, 9) == [8]
    started = time.monotonic()
    assert offsets_of(committed, topic, 3, 8) == []
    assert offsets_of(committed, topic, 11, 12) == []
    assert offsets_of(everything, topic, 7, 8) == []
    assert time.monotonic() - started < 5, "it waited for records that cannot come"


class Canned:
    """A client whose cluster holds one partition: these batches, readable up to `end`."""

    def __init__(self, options: SourceOptions, batches: list[bytes], end: int) -> None:
        self.settings = SourceClient(options.client).settings
        self.batches = batches
        self.end = end
        self.asked = 0

    def begin_fetch(self, asked: Asked, within_s: float) -> concurrent.futures.Future[Answer]:
        self.asked += 1
        found = b""
        for batch in self.batches:
            if read_header(batch).next_offset > asked.offset and len(found) < asked.bytes_max:
                found += batch
        future: concurrent.futures.Future[Answer] = concurrent.futures.Future()
        future.set_result(Answer(found, [], self.end))
        return future


def read_canned(
    batches: list[bytes], start: int, until: int, *, end: int, **more: str
) -> tuple[list[int], int]:
    """The offsets that were read, and in how many requests."""
    options = options_for("localhost:1", "t", **more)
    client = Canned(options, batches, end)
    wanted = Range(TopicPartition("t", 0), start, until)
    reader = RangeReader(client, options, wanted, ZERO_UUID)
    return [row["offset"] for row in rows_of(reader.batches())], client.asked


@st.composite
def compacted_logs(draw) -> tuple[list[bytes], list[int], int]:
    """Batches whose ranges follow each other, the offsets with a record, and the end."""
    batches, there, offset = [], [], 0
    for _ in range(draw(st.integers(0, 8))):
        offset += draw(st.sampled_from((0, 0, 1, 30)))
        size = draw(st.integers(1, 20))
        kept = draw(st.sets(st.integers(offset, offset + size - 1), min_size=1))
        there += sorted(kept)
        records = [Record(one, 5, b"k", b"v" * 40) for one in sorted(kept)]
        batches.append(build_batch(records, base_offset=offset, last_offset=offset + size - 1))
        offset += size
    return batches, there, offset + draw(st.sampled_from((0, 3)))


@settings(deadline=None)
@given(compacted_logs(), st.data())
def test_a_range_has_each_record_in_it_and_no_other_whatever_is_missing(log, data) -> None:
    batches, there, end = log
    start = data.draw(st.integers(0, end))
    until = data.draw(st.integers(start, end))
    size = data.draw(st.sampled_from(("1", "500", "100000")))
    found, _ = read_canned(batches, start, until, end=end, kafka__max__partition__fetch__bytes=size)
    assert found == [offset for offset in there if start <= offset < until]


def test_a_range_whose_rest_was_compacted_away_ends() -> None:
    assert read_canned([], 5, 10, end=10) == ([], 3)


def test_a_log_that_stays_too_short_is_a_loss() -> None:
    with pytest.raises(DataLoss, match="can be read up to offset 9, but the batch goes on to 10"):
        read_canned([], 5, 10, end=9, kafkaConsumer__pollTimeoutMs="50")


def test_a_damaged_batch_is_told_by_its_offset() -> None:
    batch = bytearray(build_batch([Record(7, 5, b"k", b"v")]))
    batch[-1] ^= 1
    with pytest.raises(ValueError, match=r"t-0 at offset 7: .*damaged on the broker's disk"):
        read_canned([bytes(batch)], 7, 8, end=8)


def test_a_time_that_spark_cannot_show_is_told_with_its_record(bootstrap: str, topic: str) -> None:
    make_topic(bootstrap, topic, message_timestamp_after_max_ms=str((1 << 63) - 1))
    with Producer(bootstrap_servers=bootstrap) as producer:
        producer.send(topic, b"a")
        producer.send(topic, b"b", timestamp_ms=1_700_000_000_000_000_000)
    with pytest.raises(ValueError, match=r"-0 at offset 1: the timestamp 17\d+ is too large for"):
        offsets_of(options_for(bootstrap, topic), topic, 0, 2)


# What is gone


def test_what_retention_took_is_a_loss_or_left_out(bootstrap: str, topic: str) -> None:
    make_topic(bootstrap, topic)
    send(bootstrap, topic, [b"v"] * 10)
    with Admin(bootstrap_servers=bootstrap) as admin:
        admin.delete_records({TopicPartition(topic, 0): 6})
    with pytest.raises(DataLoss, match="holds the offsets 6 to 10 now, and 2 to 6 could not"):
        offsets_of(options_for(bootstrap, topic), topic, 2, 9)
    lenient = options_for(bootstrap, topic, failOnDataLoss="false")
    assert offsets_of(lenient, topic, 2, 9) == [6, 7, 8]
    assert offsets_of(lenient, topic, 2, 5) == []


def test_another_topic_of_the_name_is_not_read_in_its_place(bootstrap: str, topic: str) -> None:
    old = make_topic(bootstrap, topic)
    send(bootstrap, topic, [b"old"] * 3)
    strict, lenient = (
        options_for(bootstrap, topic, failOnDataLoss=fails) for fails in ("true", "false")
    )
    wanted = Range(TopicPartition(topic, 0), 0, 3)
    assert len(rows_of(read_range(strict, wanted, old))) == 3
    with Admin(bootstrap_servers=bootstrap) as admin:
        admin.delete_topic(topic)
    new = make_topic(bootstrap, topic)
    send(bootstrap, topic, [b"new"] * 3)
    with pytest.raises(DataLoss, match="was deleted before the offsets 0 to 3 of"):
        list(read_range(strict, wanted, old))
    assert rows_of(read_range(lenient, wanted, old)) == []
    assert [row["value"] for row in rows_of(read_range(strict, wanted, new))] == [b"new"] * 3
    with Admin(bootstrap_servers=bootstrap) as admin:
        admin.delete_topic(topic)
    assert rows_of(read_range(lenient, wanted, new)) == []


def test_reading_goes_on_where_a_broker_died_and_came_back(fresh_broker, topic: str) -> None:
    broker: Broker = fresh_broker()
    make_topic(broker.address, topic)
    send(broker.address, topic, [b"v" * 1000] * 3000, batch_size=50_000)
    options = options_for(broker.address, topic, kafka__max__partition__fetch__bytes="100000")
    found: list[int] = []
    for batch in read_range(options, Range(TopicPartition(topic, 0), 0, 3000)):
        if not found:
            broker.kill()
            broker.start()
        found += batch.column("offset").to_pylist()
    assert found == list(range(3000))


# Clients


def test_little_is_fetched_from_behind_a_range(bootstrap: str, topic: str) -> None:
    make_topic(bootstrap, topic)
    send(bootstrap, topic, [b"v" * 1000] * 5000, batch_size=20_000)
    options = options_for(bootstrap, topic)
    client = SourceClient(options.client)
    client.start()
    try:
        wanted = Range(TopicPartition(topic, 0), 100, 200)
        reader = RangeReader(client, options, wanted, ZERO_UUID)
        assert sum(map(len, reader.batches())) == 100
        received = client.metrics()["incoming-byte-total"]
    finally:
        client.close()
    assert 100_000 < received < 250_000


def test_a_process_keeps_its_clients_and_a_child_has_its_own(bootstrap: str, topic: str) -> None:
    make_topic(bootstrap, topic)
    send(bootstrap, topic, [b"v"] * 3)
    options = options_for(bootstrap, topic, kafka__client__id=topic)
    key = tuple(sorted((name, str(value)) for name, value in options.client.items()))
    assert offsets_of(options, topic, 0, 3) == [0, 1, 2]
    (kept,) = range_reader._clients._idle[key]
    assert offsets_of(options, topic, 0, 3) == [0, 1, 2]
    assert range_reader._clients._idle[key] == [kept]
    child = os.fork()
    if child == 0:
        os._exit(0 if offsets_of(options, topic, 0, 3) == [0, 1, 2] else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert offsets_of(options, topic, 0, 3) == [0, 1, 2]
    assert range_reader._clients._idle[key] == [kept]
