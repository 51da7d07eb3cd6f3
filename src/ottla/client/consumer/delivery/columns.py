"""Converts records to Arrow: from the buffers of `RecordColumns` to a `pyarrow.RecordBatch`.

The columns are named and typed as in Spark's Kafka source:

    key binary, value binary, topic string, partition int32, offset int64,
    timestamp timestamp[ms, UTC], timestampType int32,
    headers list<struct<key: string, value: binary>>      if requested; an empty list if none

Nothing is copied: pyarrow uses the buffers as they are. Topic, partition and timestamp type are the
same for whole runs of rows and are written run by run. The topic is a plain string column: a
dictionary would save 3 ns a row, but some readers (Spark's workers, Arrow files written batch after
batch) do not accept one.
"""

from __future__ import annotations

import functools
import struct
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, NamedTuple

from ottla.client.arrow import load_pyarrow
from ottla.client.values import TopicPartition

if TYPE_CHECKING:
    import pyarrow as pa

    from ottla.records.column_buffers import ColumnBuffers

_INT32 = struct.Struct("<i")


class Run(NamedTuple):
    """Consecutive rows with the same partition and timestamp type."""

    partition: TopicPartition
    timestamp_type: int
    rows: int


@functools.cache
def arrow_schema(headers: bool = False) -> pa.Schema:
    """Return the schema of `fetch_arrow`, with or without the headers column."""
    pa = load_pyarrow()
    fields = [
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("timestamp", pa.timestamp("ms", tz="UTC")),
        ("timestampType", pa.int32()),
    ]
    if headers:
        fields.append(("headers", _headers_type()))
    return pa.schema(fields)


def arrow_batch(columns: ColumnBuffers, runs: list[Run], headers: bool = False) -> pa.RecordBatch:
    """Return the rows of `columns`; `runs` tells their partitions and timestamp types."""
    pa = load_pyarrow()
    count = columns.count
    binary = functools.partial(_variable, pa.binary(), count)
    arrays = [
        binary(columns.key_offsets, columns.key_data, columns.key_validity),
        binary(columns.value_offsets, columns.value_data, columns.value_validity),
        _topics(runs, count),
        _fixed(pa.int32(), count, _repeated((run.partition.partition, run.rows) for run in runs)),
        _fixed(pa.int64(), count, columns.offsets),
        _fixed(pa.timestamp("ms", tz="UTC"), count, columns.timestamps),
        _fixed(pa.int32(), count, _repeated((run.timestamp_type, run.rows) for run in runs)),
    ]
    if headers:
        arrays.append(_headers(columns))
    return pa.RecordBatch.from_arrays(arrays, schema=arrow_schema(headers))


@functools.cache
def empty_batch(headers: bool = False) -> pa.RecordBatch:
    return load_pyarrow().RecordBatch.from_pylist([], schema=arrow_schema(headers))


def _headers_type() -> pa.DataType:
    pa = load_pyarrow()
    fields = [pa.field("key", pa.string(), nullable=False), pa.field("value", pa.binary())]
    return pa.list_(pa.field("item", pa.struct(fields), nullable=False))


def _headers(columns: ColumnBuffers) -> pa.Array:
    pa = load_pyarrow()
    total = _last_of(columns.header_offsets, columns.count)
    keys = _variable(pa.string(), total, columns.header_key_offsets, columns.header_key_data, None)
    values = _variable(
        pa.binary(),
        total,
        columns.header_value_offsets,
        columns.header_value_data,
        columns.header_value_validity,
    )
    kind = _headers_type()
    pairs = pa.Array.from_buffers(kind.value_type, total, [None], children=[keys, values])
    starts = pa.py_buffer(columns.header_offsets)
    return pa.Array.from_buffers(kind, columns.count, [None, starts], children=[pairs])


def _topics(runs: list[Run], count: int) -> pa.Array:
    """Encode the topics as a dictionary and let pyarrow decode it, which is the fastest way."""
    pa = load_pyarrow()
    names = {name: number for number, name in enumerate({run.partition.topic for run in runs})}
    numbers = _repeated((names[run.partition.topic], run.rows) for run in runs)
    indices = _fixed(pa.int32(), count, numbers)
    return pa.DictionaryArray.from_arrays(indices, pa.array(names, pa.string())).cast(pa.string())


def _repeated(runs: Iterable[tuple[int, int]]) -> bytes:
    return b"".join([_INT32.pack(value) * count for value, count in runs])


def _fixed(kind: pa.DataType, count: int, values: Any) -> pa.Array:
    pa = load_pyarrow()
    return pa.Array.from_buffers(kind, count, [None, pa.py_buffer(values)], null_count=0)


def _variable(kind: pa.DataType, count: int, offsets: Any, data: Any, validity: Any) -> pa.Array:
    pa = load_pyarrow()
    present = None if validity is None else pa.py_buffer(validity)
    return pa.Array.from_buffers(
        kind,
        count,
        [present, pa.py_buffer(offsets), pa.py_buffer(data)],
        null_count=0 if validity is None else -1,
    )


def _last_of(offsets: Any, count: int) -> int:
    last: int = _INT32.unpack_from(offsets, _INT32.size * count)[0]
    return last
