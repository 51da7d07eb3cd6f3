"""Arrow data of any kind as the columns that records are written from."""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.client.errors import BadColumn
from ottla.client.producer.columns import arrow_rows
from ottla.client.producer.columns.arrow_input import (
    PIECE_BYTES,
    PIECE_ROWS,
    ColumnNames,
    as_table,
    is_stream,
    pieces_of,
)
from ottla.client.producer.columns.arrow_rows import (
    ANY_PARTITION,
    RECORD_OVERHEAD_MAX,
    column_buffers,
    grouped,
    largest_record,
    partitions_of,
    settled,
)
from ottla.client.producer.routing.partitioners import StickyChoice
from ottla.records import engine as engine_at_hand
from ottla.records.engine import PayloadWriter, murmur2
from ottla.records.payload import decode_records
from ottla.records.pure import murmur2 as pure_engine
from ottla.records.record import Record

NOW_MS = 1_700_000_000_000
NAMES = ColumnNames("key", "value")
NO_LIMIT = 1 << 30

BYTES_TYPES = [
    pa.binary(),
    pa.string(),
    pa.large_binary(),
    pa.large_string(),
    pa.binary_view(),
    pa.string_view(),
    pa.dictionary(pa.int32(), pa.string()),
    pa.dictionary(pa.int8(), pa.binary()),
    pa.dictionary(pa.int64(), pa.large_binary()),
]


def written(batch: pa.RecordBatch, names: ColumnNames = NAMES) -> list[Record]:
    """What a broker's reader would find in a batch of these rows."""
    names = names.found_in(batch.schema)
    columns = column_buffers(batch, names, NOW_MS)
    writer = PayloadWriter()
    stop = batch.num_rows
    assert writer.extend_rows(columns, None, 0, stop, NO_LIMIT, timestamp=NOW_MS) == stop
    payload = bytes(writer.payload())
    return list(decode_records(payload, writer.count, 0, writer.base_timestamp))


texts = st.lists(st.none() | st.text(max_size=8), min_size=1, max_size=40)


@given(
    keys=texts,
    key_type=st.sampled_from(BYTES_TYPES),
    value_type=st.sampled_from(BYTES_TYPES),
    cut=st.integers(0, 39),
)
def test_any_type_of_bytes_or_text_gives_the_same_records(
    keys: list[str | None], key_type: pa.DataType, value_type: pa.DataType, cut: int
) -> None:
    values = list(reversed(keys))
    batch = pa.record_batch(
        {"key": column(keys, key_type), "value": column(values, value_type)}
    ).slice(min(cut, len(keys) - 1))
    expected = list(zip(keys, values, strict=True))[min(cut, len(keys) - 1) :]
    found = [(one.key, one.value) for one in written(batch)]
    assert found == [(encoded(key), encoded(value)) for key, value in expected]


def column(values: list[str | None], kind: pa.DataType) -> pa.Array:
    if pa.types.is_dictionary(kind):
        return column(values, kind.value_type).dictionary_encode().cast(kind)
    return pa.array(values, pa.string()).cast(kind)


def encoded(text: str | None) -> bytes | None:
    return None if text is None else text.encode()


def test_fixed_size_values_and_columns_of_nothing_are_taken() -> None:
    batch = pa.record_batch(
        {"key": pa.nulls(2), "value": pa.array([b"abc", None], pa.binary(3))},
    )
    assert [(one.key, one.value) for one in written(batch)] == [(None, b"abc"), (None, None)]


def test_a_null_within_a_dictionary_is_null() -> None:
    words = pa.DictionaryArray.from_arrays(pa.array([0, 1, None]), pa.array([b"a", None]))
    assert [one.value for one in written(pa.record_batch({"value": words}))] == [b"a", None, None]


def test_plain_columns_are_not_copied() -> None:
    batch = pa.record_batch({"value": ["one", "two", "three"]}).slice(1)
    columns = column_buffers(batch, ColumnNames(None, "value"), NOW_MS)
    assert columns.value_data.address == batch["value"].buffers()[2].address


def test_without_a_key_column_there_are_no_keys() -> None:
    assert [one.key for one in written(pa.record_batch({"value": ["a"]}))] == [None]


@pytest.mark.parametrize(
    ("columns", "names", "problem"),
    [
        ({"v": ["a"]}, NAMES, "column 'value': there is no such column; there are: v"),
        ({"value": ["a"]}, ColumnNames("id", "value"), "column 'id': there is no such column"),
        ({"value": [1]}, NAMES, "column 'value': is int64, and must be binary or string"),
        ({"value": ["a"], "key": [1.5]}, NAMES, "column 'key': is double"),
        (
            {"value": ["a"], "h": ["x"]},
            NAMES._replace(headers="h"),
            "column 'h': is string, and must be a list of structs of key and value",
        ),
        ({"value": ["a"], "p": ["x"]}, NAMES._replace(partition="p"), "must be integers"),
        ({"value": ["a"], "t": ["x"]}, NAMES._replace(timestamp="t"), "must be timestamps"),
    ],
)
def test_a_wrong_schema_is_told_with_column_and_type(
    columns: dict[str, list], names: ColumnNames, problem: str
) -> None:
    with pytest.raises(BadColumn, match=problem):
        names.found_in(pa.table(columns).schema)


def test_two_columns_of_one_name_are_refused() -> None:
    schema = pa.schema([("value", pa.string()), ("value", pa.string())])
    with pytest.raises(BadColumn, match="several of this name"):
        NAMES.found_in(schema)


@pytest.mark.parametrize(
    ("times", "expected"),
    [
        (pa.array([1, 2_000], pa.int64()), [1, 2_000]),
        (pa.array([1, None], pa.timestamp("s")), [1_000, NOW_MS]),
        (pa.array([1_999_999, 0], pa.timestamp("us", tz="UTC")), [1_999, 0]),
        (pa.array([1_999_999_999, 5_000_000], pa.timestamp("ns", tz="Asia/Tokyo")), [1_999, 5]),
    ],
)
def test_times_of_any_unit_become_milliseconds(times: pa.Array, expected: list[int]) -> None:
    batch = pa.record_batch({"value": ["a", "b"], "at": times})
    found = written(batch, NAMES._replace(timestamp="at"))
    assert [one.timestamp for one in found] == expected


def test_without_times_it_is_now() -> None:
    assert written(pa.record_batch({"value": ["a"]}))[0].timestamp == NOW_MS


PAIRS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
MAP = pa.map_(pa.string(), pa.binary())


@pytest.mark.parametrize("kind", [PAIRS, MAP], ids=["list", "map"])
@given(
    rows=st.lists(
        st.none() | st.lists(st.tuples(st.text(max_size=3), st.none() | st.binary(max_size=3))),
        min_size=2,
        max_size=10,
    )
)
def test_headers_come_from_lists_and_from_maps(kind: pa.DataType, rows: list) -> None:
    as_pairs = [
        row
        if row is None or kind is MAP
        else [{"key": name, "value": content} for name, content in row]
        for row in rows
    ]
    batch = pa.record_batch({"value": ["x"] * len(rows), "h": pa.array(as_pairs, kind)}).slice(1)
    found = written(batch, NAMES._replace(headers="h"))
    assert [list(one.headers) for one in found] == [row or [] for row in rows[1:]]


def test_a_header_without_a_name_is_refused() -> None:
    pairs = pa.array([[{"key": None, "value": b"x"}]], PAIRS)
    with pytest.raises(BadColumn, match="a header without a key"):
        written(pa.record_batch({"value": ["x"], "h": pairs}), NAMES._replace(headers="h"))


def groups_of(
    batch: pa.RecordBatch, names: ColumnNames = NAMES, partition_count: int = 4
) -> list[tuple[int, list[int]]]:
    names = names.found_in(batch.schema)
    columns = column_buffers(batch, names, NOW_MS)
    partitions = partitions_of(batch, names, columns, partition_count)
    return [
        (group.partition, rows_of(group, batch.num_rows))
        for group in grouped(partitions, batch.num_rows)
    ]


def rows_of(group: Any, count: int) -> list[int]:
    if group.rows is None:
        return list(range(group.start, group.stop))
    return pa.Array.from_buffers(pa.int32(), count, [None, group.rows]).to_pylist()[
        group.start : group.stop
    ]


@given(keys=st.lists(st.none() | st.binary(max_size=3), min_size=1, max_size=60))
def test_rows_go_where_their_keys_go_in_order(keys: list[bytes | None]) -> None:
    batch = pa.record_batch({"key": pa.array(keys, pa.binary()), "value": ["x"] * len(keys)})
    expected: dict[int, list[int]] = {}
    for row, key in enumerate(keys):
        partition = ANY_PARTITION if key is None else (murmur2(key) & 0x7FFFFFFF) % 4
        expected.setdefault(partition, []).append(row)
    assert dict(groups_of(batch)) == expected


def test_a_named_partition_goes_before_the_key_and_null_leaves_it_to_the_key() -> None:
    batch = pa.record_batch(
        {
            "key": pa.array([b"alice", b"alice", None], pa.binary()),
            "value": ["x", "y", "z"],
            "p": pa.array([2, None, None], pa.int64()),
        }
    )
    by_key = (murmur2(b"alice") & 0x7FFFFFFF) % 4
    assert by_key != 2
    assert dict(groups_of(batch, NAMES._replace(partition="p"))) == {
        2: [0],
        by_key: [1],
        ANY_PARTITION: [2],
    }


@pytest.mark.parametrize("wrong", [-1, 4, 1 << 40])
def test_a_partition_that_is_not_there_is_told(wrong: int) -> None:
    batch = pa.record_batch({"value": ["x"], "p": [wrong]})
    with pytest.raises(BadColumn, match=f"has partition {wrong}, the topic has 4"):
        groups_of(batch, NAMES._replace(partition="p"))


def test_the_largest_record_is_found_headers_included() -> None:
    batch = pa.record_batch(
        {
            "key": ["k", None, "kk"],
            "value": ["x", "y" * 500, None],
            "h": pa.array([[("a", b"1" * 400)], [], [("b", b"2" * 600), ("c", None)]], MAP),
        }
    )
    columns = column_buffers(batch, NAMES._replace(headers="h"), NOW_MS)
    assert largest_record(columns) == (2 + 601 + 1 + 20 + RECORD_OVERHEAD_MAX, 2)
    plain = column_buffers(batch, NAMES, NOW_MS)
    assert largest_record(plain) == (500 + RECORD_OVERHEAD_MAX, 1)


def test_pieces_are_bounded_in_rows_and_bytes() -> None:
    many = pa.record_batch({"value": pa.array(["x"] * (2 * PIECE_ROWS + 1))})
    assert [piece.num_rows for piece in pieces_of(many, ColumnNames(None, "value"))] == [
        PIECE_ROWS,
        PIECE_ROWS,
        1,
    ]
    word = pa.DictionaryArray.from_arrays(pa.array([0] * 16), pa.array(["y" * (PIECE_BYTES // 3)]))
    heavy = pa.record_batch({"value": word})
    rows = [piece.num_rows for piece in pieces_of(heavy, ColumnNames(None, "value"))]
    assert sum(rows) == 16
    assert max(rows) == 2


def test_large_columns_are_read_wherever_their_slice_lies() -> None:
    whole = pa.array([b"a" * 1000, b"bb", b"ccc"], pa.large_binary())
    assert [one.value for one in written(pa.record_batch({"value": whole}).slice(1))] == [
        b"bb",
        b"ccc",
    ]


class Frame:
    """What a data frame of any library offers."""

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return pa.table({"value": ["a"]}).__arrow_c_stream__(requested_schema)


class Column:
    def __arrow_array__(self, type: object = None) -> pa.Array:
        return pa.array(["a"])


@pytest.mark.parametrize(
    "data",
    [
        pa.table({"value": ["a"]}),
        pa.record_batch({"value": ["a"]}),
        Frame(),
        {"value": ["a"]},
        {"value": Column()},
        {"value": pa.chunked_array([["a"], []])},
    ],
)
def test_columns_are_taken_from_many_kinds_of_data(data: object) -> None:
    assert as_table(data).to_pydict() == {"value": ["a"]}


def test_what_holds_no_columns_is_refused() -> None:
    with pytest.raises(TypeError, match="send_arrow takes"):
        as_table(42)


def test_only_a_reader_is_a_stream() -> None:
    table = pa.table({"value": ["a"]})
    assert is_stream(table.to_reader())
    assert not is_stream(table)


def test_times_before_1970_are_refused_as_send_refuses_them() -> None:
    for times in (pa.array([1, -5], pa.int64()), pa.array([-1, None], pa.timestamp("s"))):
        batch = pa.record_batch({"value": ["a", "b"], "at": times})
        with pytest.raises(BadColumn, match=r"'at': has the time -.* must not be negative"):
            written(batch, NAMES._replace(timestamp="at"))


class Loads:
    def __init__(self, count: int) -> None:
        self.count = count

    def queue_sizes(self) -> tuple[list[int], list[int]]:
        return list(range(self.count)), [0] * self.count


@pytest.mark.parametrize("engine", [engine_at_hand, pure_engine], ids=["at hand", "pure"])
@given(
    keys=st.lists(st.none() | st.binary(max_size=3), min_size=1, max_size=60),
    partition_count=st.integers(1, 6),
    batch_size=st.integers(20, 400),
    produced=st.integers(0, 500),
    seed=st.integers(0, 9),
)
def test_rows_with_and_without_keys_keep_the_order_of_rows_in_each_partition(
    engine: Any,
    keys: list[bytes | None],
    partition_count: int,
    batch_size: int,
    produced: int,
    seed: int,
) -> None:
    batch = pa.record_batch({"key": pa.array(keys, pa.binary()), "value": ["x"] * len(keys)})
    sticky = StickyChoice(Loads(partition_count), Random(seed), adaptive=True)
    sticky.produced = produced
    names = NAMES.found_in(batch.schema)
    columns = column_buffers(batch, names, NOW_MS)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(arrow_rows, "partition_rows", engine.partition_rows)
        partitions = partitions_of(batch, names, columns, partition_count)
    groups = grouped(settled(partitions, columns, sticky, batch_size), batch.num_rows)
    found = {group.partition: rows_of(group, batch.num_rows) for group in groups}
    assert len(found) == len(groups)
    assert all(rows == sorted(rows) for rows in found.values())
    assert sorted(row for rows in found.values() for row in rows) == list(range(len(keys)))
    if all(key is None for key in keys):
        assert set(found) == {ANY_PARTITION}
        return
    where = {row: partition for partition, rows in found.items() for row in rows}
    for row, key in enumerate(keys):
        assert 0 <= where[row] < partition_count
        if key is not None:
            assert where[row] == (murmur2(key) & 0x7FFFFFFF) % partition_count


def test_rows_without_keys_move_on_after_a_batch_of_them() -> None:
    keys = [b"k", *[None] * 2_000]
    batch = pa.record_batch({"key": pa.array(keys, pa.binary()), "value": ["x" * 90] * 2_001})
    columns = column_buffers(batch, NAMES, NOW_MS)
    sticky = StickyChoice(Loads(50), Random(1), adaptive=True)
    found = settled(partitions_of(batch, NAMES, columns, 50), columns, sticky, 10_000)
    assert found is not None
    sizes = Counter(found.to_pylist()[1:])
    assert len(sizes) > 10
    assert max(sizes.values()) < 800
