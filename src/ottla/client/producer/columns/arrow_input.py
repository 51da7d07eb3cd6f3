"""Checks Arrow data of any kind, and cuts it into pieces of bounded size.

The schema is checked before the first row is sent. Pieces are slices: nothing is copied here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

from ottla.client.arrow import load_compute, load_pyarrow
from ottla.client.errors import BadColumn

if TYPE_CHECKING:
    import pyarrow as pa

DEFAULT_KEY = "key"
PIECE_ROWS = 32_768
PIECE_BYTES = 4 << 20
"""The most that is encoded at once, without yielding to the event loop."""

_BYTES_KINDS = (
    "is_binary",
    "is_string",
    "is_large_binary",
    "is_large_string",
    "is_fixed_size_binary",
    "is_binary_view",
    "is_string_view",
    "is_null",
)


class ColumnNames(NamedTuple):
    """The columns that records are made of; None for those that are not used."""

    key: str | None
    value: str
    headers: str | None = None
    partition: str | None = None
    timestamp: str | None = None

    def found_in(self, schema: pa.Schema) -> ColumnNames:
        """Return the names after checking that every column exists and has a suitable type. The
        default key column may be missing, because not all data has keys; named columns may not."""
        names = self
        if self.key == DEFAULT_KEY and DEFAULT_KEY not in schema.names:
            names = self._replace(key=None)
        for name, fits, wanted in (
            (names.key, holds_bytes, "binary or string"),
            (names.value, holds_bytes, "binary or string"),
            (names.headers, _holds_headers, "a list of structs of key and value, or a map"),
            (names.partition, _holds_integers, "integers"),
            (names.timestamp, _holds_times, "timestamps, or milliseconds as int64"),
        ):
            if name is not None:
                _check(schema, name, fits, wanted)
        return names


def _check(schema: pa.Schema, name: str, fits: Callable[[pa.DataType], bool], wanted: str) -> None:
    positions = schema.get_all_field_indices(name)
    if len(positions) != 1:
        problem = "there are several of this name" if positions else "there is no such column"
        raise BadColumn(name, f"{problem}; there are: {', '.join(schema.names)}")
    kind = schema.field(positions[0]).type
    if not fits(kind):
        raise BadColumn(name, f"is {kind}, and must be {wanted}: cast or encode it first")


def holds_bytes(kind: pa.DataType) -> bool:
    types = load_pyarrow().types
    if types.is_dictionary(kind):
        return holds_bytes(kind.value_type)
    return any(getattr(types, test)(kind) for test in _BYTES_KINDS)


def _holds_headers(kind: pa.DataType) -> bool:
    types = load_pyarrow().types
    if types.is_map(kind):
        return holds_bytes(kind.key_type) and holds_bytes(kind.item_type)
    if not (types.is_list(kind) or types.is_large_list(kind)):
        return bool(types.is_null(kind))
    pair = kind.value_type
    return (
        types.is_struct(pair)
        and [pair.field(number).name for number in range(pair.num_fields)] == ["key", "value"]
        and all(holds_bytes(pair.field(number).type) for number in range(pair.num_fields))
    )


def _holds_integers(kind: pa.DataType) -> bool:
    return bool(load_pyarrow().types.is_integer(kind))


def _holds_times(kind: pa.DataType) -> bool:
    types = load_pyarrow().types
    return bool(types.is_timestamp(kind) or types.is_int64(kind))


def is_stream(data: Any) -> bool:
    """True if the data is to be read while it is sent, as it may be larger than memory."""
    return isinstance(data, load_pyarrow().RecordBatchReader)


def as_table(data: Any) -> pa.Table:
    """Return a table from anything with columns: a record batch, a data frame, a dict, ..."""
    pa = load_pyarrow()
    if isinstance(data, pa.RecordBatch):
        return pa.Table.from_batches([data])
    if isinstance(data, pa.Table):
        return data
    try:
        return pa.table(data)
    except (TypeError, ValueError, pa.ArrowException) as error:
        raise TypeError(
            "send_arrow takes a pyarrow.RecordBatch, Table or RecordBatchReader, a data frame that "
            f"speaks Arrow, or a dict of arrays; {type(data).__name__} is none: {error}"
        ) from None


def pieces_of(batch: pa.RecordBatch, names: ColumnNames) -> Iterator[pa.RecordBatch]:
    """Yield slices with a bounded number of rows and bytes, and at least one row each."""
    for start in range(0, batch.num_rows, PIECE_ROWS):
        yield from _halved(batch.slice(start, PIECE_ROWS), names)


def _halved(piece: pa.RecordBatch, names: ColumnNames) -> Iterator[pa.RecordBatch]:
    rows = piece.num_rows
    if rows == 1 or sum(_weight(piece[name]) for name in _bytes_columns(names)) <= PIECE_BYTES:
        yield piece
        return
    yield from _halved(piece.slice(0, rows // 2), names)
    yield from _halved(piece.slice(rows // 2), names)


def _bytes_columns(names: ColumnNames) -> list[str]:
    return [name for name in (names.key, names.value) if name is not None]


def _weight(array: pa.Array) -> int:
    """Return the bytes of the values; for a dictionary, of the decoded values."""
    pa, pc = load_pyarrow(), load_compute()
    if pa.types.is_null(array.type):
        return 0
    if pa.types.is_dictionary(array.type):
        lengths = pc.binary_length(_countable(array.dictionary))
        return pc.sum(pc.take(lengths, array.indices)).as_py() or 0
    return pc.sum(pc.binary_length(_countable(array))).as_py() or 0


def _countable(array: pa.Array) -> pa.Array:
    """Cast views, whose lengths cannot be computed."""
    pa = load_pyarrow()
    if pa.types.is_binary_view(array.type) or pa.types.is_string_view(array.type):
        return array.cast(pa.large_binary())
    return array
