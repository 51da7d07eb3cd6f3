"""Turns a piece of Arrow data into the buffers that `PayloadWriter.extend_rows` reads.

Text is sent as its UTF-8 bytes, which is how Arrow holds it. Plain columns are not copied. For
large columns only the offsets are copied (to 32 bits); dictionaries and views are decoded.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from ottla.client.arrow import load_compute, load_pyarrow
from ottla.client.errors import BadColumn
from ottla.client.producer.columns.arrow_input import ColumnNames
from ottla.records.column_buffers import ColumnBuffers
from ottla.records.engine import partition_rows

if TYPE_CHECKING:
    import pyarrow as pa

    from ottla.client.producer.routing.partitioners import StickyChoice

ANY_PARTITION = -1
RECORD_OVERHEAD_MAX = 61 + 36
"""Batch header, and the lengths, attributes and deltas of a record at their longest."""
RECORD_OVERHEAD_LIKELY = 10
HEADER_OVERHEAD_MAX = 10

_INT32_BYTES, _INT64_BYTES = 4, 8


class BytesBuffers(NamedTuple):
    offsets: Any
    data: Any
    validity: Any


class Group(NamedTuple):
    """Rows for one partition: `rows[start:stop]`, or all of `start:stop` if `rows` is None."""

    partition: int
    """`ANY_PARTITION`: the sticky partition of the moment."""
    rows: Any
    start: int
    stop: int


def column_buffers(piece: pa.RecordBatch, names: ColumnNames, now_ms: int) -> ColumnBuffers:
    key = _NO_BYTES if names.key is None else _bytes_buffers(piece[names.key])
    times = (
        None if names.timestamp is None else _times(piece[names.timestamp], names.timestamp, now_ms)
    )
    headers = () if names.headers is None else _headers(piece[names.headers], names.headers)
    return ColumnBuffers(
        piece.num_rows, None, times, *key, *_bytes_buffers(piece[names.value]), *headers
    )


_NO_BYTES = BytesBuffers(None, None, None)
_EMPTY_BYTES = BytesBuffers(bytes(_INT32_BYTES), b"", None)


def _bytes_buffers(array: pa.Array) -> BytesBuffers:
    pa, pc = load_pyarrow(), load_compute()
    if not len(array):
        return _EMPTY_BYTES  # Arrow allows such an array to have no buffers
    if pa.types.is_null(array.type):
        return _NO_BYTES
    array = _plain(array)
    # A new bitmap, because that of a slice may begin in the middle of a byte.
    validity = pc.is_valid(array).buffers()[1] if array.null_count else None
    if pa.types.is_large_binary(array.type):
        return BytesBuffers(*_narrowed(array), validity)
    _, offsets, data = array.buffers()
    begin, size = array.offset * _INT32_BYTES, (len(array) + 1) * _INT32_BYTES
    return BytesBuffers(offsets.slice(begin, size), b"" if data is None else data, validity)


def _plain(array: pa.Array) -> pa.Array:
    """Return the array as binary or large binary; no copy for these types and for strings."""
    pa = load_pyarrow()
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    kind = array.type
    if pa.types.is_large_string(kind) or pa.types.is_large_binary(kind):
        return array.cast(pa.large_binary())
    return array.cast(pa.binary())


def _narrowed(array: pa.Array) -> tuple[Any, Any]:
    """Return 32-bit offsets that count from the first row, and its data: a piece is small."""
    pa, pc = load_pyarrow(), load_compute()
    _, wide, data = array.buffers()
    offsets = pa.Array.from_buffers(
        pa.int64(), len(array) + 1, [None, wide], null_count=0, offset=array.offset
    )
    first, last = offsets[0].as_py(), offsets[-1].as_py()
    narrow = pc.subtract(offsets, first).cast(pa.int32())
    return narrow.buffers()[1], b"" if data is None else data.slice(first, last - first)


def _times(array: pa.Array, name: str, now_ms: int) -> Any:
    """Return milliseconds: finer units are truncated, times without a zone are UTC, null is now."""
    pa = load_pyarrow()
    if pa.types.is_timestamp(array.type):
        array = array.cast(pa.timestamp("ms", tz=array.type.tz), safe=False).cast(pa.int64())
    earliest = load_compute().min(array).as_py()
    if earliest is not None and earliest < 0:
        raise BadColumn(name, f"has the time {earliest} ms; times must not be negative")
    return _fixed_buffer(array.fill_null(now_ms) if array.null_count else array, _INT64_BYTES)


def _headers(array: pa.Array, name: str) -> tuple[Any, ...]:
    pa, pc = load_pyarrow(), load_compute()
    if pa.types.is_null(array.type):
        return ()
    if pa.types.is_map(array.type):
        pair = [("key", array.type.key_type), ("value", array.type.item_type)]
        array = array.cast(pa.list_(pa.struct(pair)))
    counts = pc.list_value_length(array).cast(pa.int32()).fill_null(0)
    starts = pa.concat_arrays([pa.array([0], pa.int32()), pc.cumulative_sum(counts)])
    # Flattening twice skips what lies beneath null rows and outside the slice.
    pairs = array.flatten()
    keys, values = pairs.flatten()
    if keys.null_count:
        raise BadColumn(name, "has a header without a key")
    key = _bytes_buffers(keys)
    return _fixed_buffer(starts, _INT32_BYTES), key.offsets, key.data, *_bytes_buffers(values)


def _fixed_buffer(array: pa.Array, width: int) -> Any:
    return array.buffers()[1].slice(array.offset * width, len(array) * width)


def largest_record(columns: ColumnBuffers) -> tuple[int, int]:
    """Return the size of the largest record including the batch header, and its row. The size is an
    upper bound: length fields are counted at their longest."""
    pa, pc = load_pyarrow(), load_compute()
    sizes = _content_sizes(columns)
    largest = pc.max(sizes).as_py()
    row = pc.index(sizes, pa.scalar(largest, sizes.type)).as_py()
    return largest + RECORD_OVERHEAD_MAX, row


def _content_sizes(columns: ColumnBuffers) -> pa.Array:
    """Return the bytes of key, value and headers of each row."""
    pc = load_compute()
    sizes = _lengths(columns.value_offsets, columns.count)
    if columns.key_offsets is not None:
        sizes = pc.add(sizes, _lengths(columns.key_offsets, columns.count))
    if columns.header_offsets is not None:
        sizes = pc.add(sizes, _header_sizes(columns))
    return sizes


def _lengths(offsets: Any, count: int) -> pa.Array:
    pa, pc = load_pyarrow(), load_compute()
    if offsets is None:
        return pa.nulls(count, pa.int64()).fill_null(0)
    ends = pa.Array.from_buffers(pa.int32(), count + 1, [None, pa.py_buffer(offsets)])
    return pc.subtract(ends.slice(1), ends.slice(0, count)).cast(pa.int64())


def _header_sizes(columns: ColumnBuffers) -> pa.Array:
    """Return the bytes of all headers of each row, including their length fields."""
    pa, pc = load_pyarrow(), load_compute()
    starts = pa.Array.from_buffers(
        pa.int32(), columns.count + 1, [None, pa.py_buffer(columns.header_offsets)]
    )
    total = starts[-1].as_py()
    each = pc.add(
        _lengths(columns.header_key_offsets, total), _lengths(columns.header_value_offsets, total)
    )
    each = pc.add(each, HEADER_OVERHEAD_MAX)
    sums = pa.concat_arrays([pa.array([0], pa.int64()), pc.cumulative_sum(each)])
    at = sums.take(starts)
    return pc.subtract(at.slice(1), at.slice(0, columns.count))


def partitions_of(
    piece: pa.RecordBatch, names: ColumnNames, columns: ColumnBuffers, partition_count: int
) -> pa.Array | None:
    """Return the partition of each row: from the column, else by key, else `ANY_PARTITION`; None
    if all rows may go anywhere."""
    pa, pc = load_pyarrow(), load_compute()
    by_key = None
    if columns.key_offsets is not None:
        numbers = partition_rows(*columns[3:6], columns.count, partition_count)
        by_key = pa.Array.from_buffers(pa.int32(), columns.count, [None, pa.py_buffer(numbers)])
    if names.partition is None:
        return by_key
    named = _named_partitions(piece[names.partition], names.partition, partition_count)
    if not named.null_count:
        return named
    return pc.coalesce(named, ANY_PARTITION if by_key is None else by_key)


def _named_partitions(array: pa.Array, name: str, partition_count: int) -> pa.Array:
    pa, pc = load_pyarrow(), load_compute()
    bounds = pc.min_max(array).as_py()
    for number in (bounds["min"], bounds["max"]):
        if number is not None and not 0 <= number < partition_count:
            raise BadColumn(
                name, f"has partition {number}, the topic has {partition_count} from 0 on"
            )
    return array.cast(pa.int32())


def settled(
    partitions: pa.Array | None, columns: ColumnBuffers, sticky: StickyChoice, batch_size: int
) -> pa.Array | None:
    """Choose partitions for the free rows if only some rows are free: a batch's worth for each
    sticky choice.

    They then share partitions with other rows, and rows of one partition stay in order.
    """
    pa, pc = load_pyarrow(), load_compute()
    if partitions is None:
        return None
    bounds = pc.min_max(partitions).as_py()
    if bounds["min"] != ANY_PARTITION or bounds["max"] == ANY_PARTITION:
        return partitions
    is_free = pc.equal(partitions, ANY_PARTITION)
    sizes = pc.if_else(is_free, pc.add(_content_sizes(columns), RECORD_OVERHEAD_LIKELY), 0)
    ends = pc.add(pc.cumulative_sum(sizes), sticky.produced)
    turns = pc.divide(pc.subtract(ends, sizes), batch_size)
    choices = [sticky.current]
    for _ in range(pc.max(turns).as_py()):
        sticky.move()
        choices.append(sticky.current)
    sticky.produced = ends[-1].as_py() % batch_size
    return pc.if_else(is_free, pa.array(choices, pa.int32()).take(turns), partitions)


def grouped(partitions: pa.Array | None, count: int) -> list[Group]:
    """Group rows by partition, in order within each."""
    pa, pc = load_pyarrow(), load_compute()
    if partitions is None:
        return [Group(ANY_PARTITION, None, 0, count)]
    bounds = pc.min_max(partitions).as_py()
    if bounds["min"] == bounds["max"]:
        return [Group(bounds["min"], None, 0, count)]
    order = pc.array_sort_indices(partitions)  # stable
    runs = pc.run_end_encode(partitions.take(order))
    rows = order.cast(pa.int32()).buffers()[1]
    groups, start = [], 0
    for partition, stop in zip(runs.values.to_pylist(), runs.run_ends.to_pylist(), strict=True):
        groups.append(Group(partition, rows, start, stop))
        start = stop
    return groups
