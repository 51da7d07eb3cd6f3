"""Rows as in Spark's Kafka source: the same columns, in the Arrow types that Spark expects.

    key binary, value binary, topic string, partition int, offset bigint, timestamp timestamp,
    timestampType int, and with includeHeaders: headers array<struct<key string, value binary>>

Keys and values are not copied on the way from the decoder to Arrow. Topic, partition and timestamp
type are the same in all rows of a range: they are written once and sliced.
"""

from __future__ import annotations

import functools
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from ottla.client.values import TopicPartition
from ottla.records.column_buffers import ColumnBuffers

ROWS_MAX = 20_000
"""The most rows of one Arrow batch."""

_MILLIS = pa.timestamp("ms", tz="UTC")
_MICROS = pa.timestamp("us", tz="UTC")
_HEADER = pa.struct([("key", pa.string()), ("value", pa.binary())])
_HEADERS = pa.list_(pa.field("element", _HEADER))
_MILLIS_MAX = ((1 << 63) - 1) // 1000


def spark_schema(headers: bool = False) -> StructType:
    fields = [
        StructField("key", BinaryType()),
        StructField("value", BinaryType()),
        StructField("topic", StringType()),
        StructField("partition", IntegerType()),
        StructField("offset", LongType()),
        StructField("timestamp", TimestampType()),
        StructField("timestampType", IntegerType()),
    ]
    if headers:
        pair = StructType([StructField("key", StringType()), StructField("value", BinaryType())])
        fields.append(StructField("headers", ArrayType(pair)))
    return StructType(fields)


@functools.cache
def arrow_schema(headers: bool = False) -> pa.Schema:
    fields = [
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("timestamp", _MICROS),
        ("timestampType", pa.int32()),
    ]
    return pa.schema([*fields, ("headers", _HEADERS)] if headers else fields)


class RowColumns:
    """Builds the Arrow batches of one partition."""

    def __init__(self, partition: TopicPartition, *, headers: bool = False) -> None:
        self.with_headers = headers
        self._partition = partition
        self._schema = arrow_schema(headers)
        self._topic = pa.repeat(pa.scalar(partition.topic, pa.string()), ROWS_MAX)
        self._number = pa.repeat(pa.scalar(partition.partition, pa.int32()), ROWS_MAX)
        self._types = {kind: pa.repeat(pa.scalar(kind, pa.int32()), ROWS_MAX) for kind in (0, 1)}

    def batch(self, columns: ColumnBuffers, timestamp_type: int) -> pa.RecordBatch:
        """Build a batch of at most ROWS_MAX rows, whose times are all of one type."""
        count = columns.count
        offsets = _fixed(pa.int64(), count, columns.offsets)
        arrays = [
            _variable(
                pa.binary(), count, columns.key_offsets, columns.key_data, columns.key_validity
            ),
            _variable(
                pa.binary(),
                count,
                columns.value_offsets,
                columns.value_data,
                columns.value_validity,
            ),
            self._topic.slice(0, count),
            self._number.slice(0, count),
            offsets,
            self._times(_fixed(_MILLIS, count, columns.timestamps), offsets),
            self._types[timestamp_type].slice(0, count),
        ]
        if self.with_headers:
            arrays.append(_headers(columns))
        return pa.RecordBatch.from_arrays(arrays, schema=self._schema)

    def _times(self, millis: pa.Array, offsets: pa.Array) -> pa.Array:
        """Convert to Spark's microseconds, which end some 292,000 years from now."""
        try:
            return millis.cast(_MICROS)
        except pa.ArrowInvalid:
            numbers = millis.cast(pa.int64())
            far = pc.greater(pc.abs_checked(numbers), _MILLIS_MAX)
            row = pc.index(far, pa.scalar(True)).as_py()
            raise ValueError(
                f"{self._partition} at offset {offsets[row]}: the timestamp {numbers[row]} is too "
                "large for milliseconds since 1970: its producer seems to write microseconds or "
                "nanoseconds; let it write milliseconds, or start behind this record"
            ) from None


def _headers(columns: ColumnBuffers) -> pa.Array:
    """Return the headers; null for a record without any, as in Spark's Kafka source."""
    count = columns.count
    starts = _fixed(pa.int32(), count + 1, columns.header_offsets)
    total = starts[count].as_py()
    keys = _variable(pa.string(), total, columns.header_key_offsets, columns.header_key_data, None)
    values = _variable(
        pa.binary(),
        total,
        columns.header_value_offsets,
        columns.header_value_data,
        columns.header_value_validity,
    )
    pairs = pa.Array.from_buffers(_HEADER, total, [None], children=[keys, values])
    none = pc.equal(starts.slice(0, count), starts.slice(1, count))
    return pa.ListArray.from_arrays(starts, pairs, type=_HEADERS, mask=none)


def _fixed(kind: pa.DataType, count: int, values: Any) -> pa.Array:
    return pa.Array.from_buffers(kind, count, [None, pa.py_buffer(values)], null_count=0)


def _variable(kind: pa.DataType, count: int, offsets: Any, data: Any, validity: Any) -> pa.Array:
    present = None if validity is None else pa.py_buffer(validity)
    return pa.Array.from_buffers(
        kind,
        count,
        [present, pa.py_buffer(offsets), pa.py_buffer(data)],
        null_count=0 if validity is None else -1,
    )
