"""The buffers of fetched batches as Arrow columns."""

from __future__ import annotations

import datetime

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.client.consumer.delivery.columns import Run, arrow_batch, arrow_schema, empty_batch
from ottla.client.values import TopicPartition
from ottla.records.engine import RecordColumns
from ottla.records.payload import encode_records
from ottla.records.record import Record

HERE, THERE = TopicPartition("payments", 3), TopicPartition("ledger", 0)

some_bytes = st.none() | st.binary(max_size=20)
some_headers = st.lists(st.tuples(st.text(max_size=5), some_bytes), max_size=3).map(tuple)
some_records = st.lists(
    st.tuples(st.integers(0, 1 << 40), some_bytes, some_bytes, some_headers), max_size=20
)


def columns_of(records: list[Record], headers: bool) -> RecordColumns:
    columns = RecordColumns(headers)
    if records:
        base, time = records[0].offset, records[0].timestamp
        payload = encode_records(records, base, time)
        columns.add(payload, len(records), base, time, None, 0, len(records))
    return columns


@given(rows=some_records, headers=st.booleans())
@settings(deadline=None)  # the first one imports pyarrow
def test_every_row_holds_what_its_record_held(rows: list, headers: bool) -> None:
    records = [Record(100 + number, *row) for number, row in enumerate(rows)]
    columns = columns_of(records, headers)
    batch = arrow_batch(columns.take(), [Run(HERE, 0, len(records))], headers)
    batch.validate(full=True)
    assert batch.schema == arrow_schema(headers)
    for row, record in zip(batch.to_pylist(), records, strict=True):
        assert (row["key"], row["value"], row["offset"]) == (
            record.key,
            record.value,
            record.offset,
        )
        assert (row["topic"], row["partition"], row["timestampType"]) == ("payments", 3, 0)
        if headers:
            assert [(one["key"], one["value"]) for one in row["headers"]] == list(record.headers)
    assert batch["timestamp"].cast(pa.int64()).to_pylist() == [one.timestamp for one in records]


def test_runs_tell_topic_partition_and_who_set_the_time() -> None:
    records = [Record(number, 5, None, b"x", ()) for number in range(5)]
    batch = arrow_batch(
        columns_of(records, False).take(), [Run(HERE, 0, 2), Run(THERE, 1, 2), Run(HERE, 1, 1)]
    )
    assert batch["topic"].to_pylist() == ["payments"] * 2 + ["ledger"] * 2 + ["payments"]
    assert batch["partition"].to_pylist() == [3, 3, 0, 0, 3]
    assert batch["timestampType"].to_pylist() == [0, 0, 1, 1, 1]


def test_times_are_in_milliseconds_of_utc() -> None:
    batch = arrow_batch(
        columns_of([Record(0, 1_700_000_000_123, None, b"x", ())], False).take(), [Run(HERE, 0, 1)]
    )
    moment = datetime.datetime(2023, 11, 14, 22, 13, 20, 123_000, tzinfo=datetime.UTC)
    assert batch["timestamp"][0].as_py() == moment


@pytest.mark.parametrize("headers", [False, True])
def test_no_rows_have_the_same_schema(headers: bool) -> None:
    assert empty_batch(headers).schema == arrow_schema(headers)
    assert empty_batch(headers).num_rows == 0
    assert pa.Table.from_batches([empty_batch(headers)]).num_rows == 0


def test_values_are_not_copied() -> None:
    taken = columns_of([Record(0, 0, None, b"x" * 100, ())], False).take()
    batch = arrow_batch(taken, [Run(HERE, 0, 1)])
    assert batch["value"].buffers()[2].address == pa.py_buffer(taken.value_data).address
