"""What is written record by record, read back by the decoder that other tests have proved."""

from __future__ import annotations

import struct
from array import array
from types import SimpleNamespace
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.records import engine
from ottla.records.builder import build_batch, restamp, seal_payload
from ottla.records.codec import Codec
from ottla.records.column_buffers import ColumnBuffers
from ottla.records.errors import InvalidBatch
from ottla.records.header import read_header
from ottla.records.payload import encode_records
from ottla.records.pure import (
    consumer_records,
    index_search,
    key_offsets,
    murmur2,
    record_columns,
    record_copy,
    record_search,
    survey_records,
    writer,
)
from ottla.records.reader import check_crc, read_records
from ottla.records.record import Record
from ottla.records.survey import NO_EARLIEST, Survey

PURE = SimpleNamespace(
    PayloadWriter=writer.PayloadWriter,
    record_size_max=writer.record_size_max,
    consumer_records=consumer_records.consumer_records,
    RecordColumns=record_columns.RecordColumns,
    murmur2=murmur2.murmur2,
    partition_rows=murmur2.partition_rows,
    KeyOffsets=key_offsets.KeyOffsets,
    copy_records=record_copy.copy_records,
    renumber_records=record_copy.renumber_records,
    find_timestamp=record_search.find_timestamp,
    find_faults=record_search.find_faults,
    survey_records=survey_records.survey_records,
    floor_slot=index_search.floor_slot,
)
ENGINES = [pytest.param(PURE, id="pure")]
if engine.NATIVE:
    ENGINES.append(pytest.param(engine, id="native"))

TIMES = st.integers(-(1 << 62), (1 << 62) - 1)
BYTES = st.none() | st.binary(max_size=200)
HEADERS = st.lists(st.tuples(st.text(max_size=10), st.none() | st.binary(max_size=100)), max_size=3)
RECORDS = st.lists(st.tuples(TIMES, BYTES, BYTES, HEADERS), max_size=12).map(
    lambda rows: [Record(i, t, k, v, tuple(h)) for i, (t, k, v, h) in enumerate(rows)]
)


class Row(NamedTuple):
    topic: str
    partition: int
    offset: int
    timestamp: int
    timestamp_type: int
    key: Any
    value: Any
    headers: Any
    leader_epoch: int


@pytest.fixture(params=ENGINES)
def records(request: pytest.FixtureRequest) -> Any:
    return request.param


def written(records: Any, rows: list[Record]) -> Any:
    writer = records.PayloadWriter()
    for row in rows:
        bound = writer.size + records.record_size_max(row.key, row.value, row.headers)
        size = writer.append(row.timestamp, row.key, row.value, row.headers)
        assert size == writer.size <= bound
    return writer


def rows_of(columns: ColumnBuffers) -> list[Record]:
    """Columns read the plain way, as another program would."""
    count = columns.count

    def ints(buffer: Any, code: str) -> tuple[int, ...]:
        data = bytes(buffer)
        return struct.unpack(f"<{len(data) // struct.calcsize(code)}{code}", data)

    def column(offsets: Any, data: Any, validity: Any) -> list[bytes | None]:
        places, content = ints(offsets, "i"), bytes(data)
        assert places[-1] == len(content)
        bits = None if validity is None else bytes(validity)
        return [
            content[places[i] : places[i + 1]]
            if bits is None or bits[i >> 3] >> (i & 7) & 1
            else None
            for i in range(len(places) - 1)
        ]

    keys = column(columns.key_offsets, columns.key_data, columns.key_validity)
    values = column(columns.value_offsets, columns.value_data, columns.value_validity)
    headers: list[Any] = [()] * count
    if columns.header_offsets is not None:
        names = column(columns.header_key_offsets, columns.header_key_data, None)
        contents = column(
            columns.header_value_offsets,
            columns.header_value_data,
            columns.header_value_validity,
        )
        pairs = [((n or b"").decode(), c) for n, c in zip(names, contents, strict=True)]
        places = ints(columns.header_offsets, "i")
        headers = [tuple(pairs[places[i] : places[i + 1]]) for i in range(count)]
    offsets, times = ints(columns.offsets, "q"), ints(columns.timestamps, "q")
    return [Record(*row) for row in zip(offsets, times, keys, values, headers, strict=True)]


@given(rows=RECORDS)
def test_a_writer_writes_what_the_encoder_does(rows: list[Record]) -> None:
    for param in ENGINES:
        made = written(param.values[0], rows)
        base = rows[0].timestamp if rows else 0
        assert bytes(made.payload()) == encode_records(rows, 0, base)
        assert made.count == len(rows)
        assert made.base_timestamp == (base if rows else -1)
        assert made.max_timestamp == max((row.timestamp for row in rows), default=-1)


def test_a_cleared_writer_begins_anew(records: Any) -> None:
    made = written(records, [Record(0, 50, b"k", b"v")])
    made.clear()
    assert (made.count, made.size, made.base_timestamp, made.max_timestamp) == (0, 0, -1, -1)
    made.append(7, None, b"again")
    assert bytes(made.payload()) == encode_records([Record(0, 7, None, b"again")], 0, 7)


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_a_writer_takes_whatever_holds_bytes(records: Any, kind: Any) -> None:
    made = records.PayloadWriter()
    made.append(1, kind(b"key"), kind(b"value"), [("h", kind(b"x")), ("none", None)])
    made.append(1, memoryview(b"abcdef")[::2], memoryview(array("i", [1, 2])))
    first = Record(0, 1, b"key", b"value", (("h", b"x"), ("none", None)))
    second = Record(1, 1, b"ace", array("i", [1, 2]).tobytes())
    assert bytes(made.payload()) == encode_records([first, second], 0, 1)


@pytest.mark.parametrize(
    ("arguments", "error", "words"),
    [
        ((0, "key", None), TypeError, "key of a record must be bytes or None, not str"),
        ((0, None, 5), TypeError, "value of a record must be bytes or None, not int"),
        ((0, None, None, [("h", "x")]), TypeError, "header value of a record must be bytes"),
        ((0, None, None, [(b"h", b"x")]), (TypeError, AttributeError), None),
        ((0, None, None, [("h", b"x", b"y")]), ValueError, None),
        ((1 << 63, None, None), OverflowError, None),
        (("now", None, None), TypeError, None),
    ],
)
def test_a_refused_record_leaves_the_writer_as_it_was(
    records: Any, arguments: Any, error: Any, words: str | None
) -> None:
    made = written(records, [Record(0, 50, b"k", b"v")])
    before = bytes(made.payload())
    with pytest.raises(error, match=words):
        made.append(*arguments)
    assert (bytes(made.payload()), made.count, made.max_timestamp) == (before, 1, 50)


def test_timestamps_further_apart_than_64_bits_are_refused(records: Any) -> None:
    made = written(records, [Record(0, -(1 << 63), b"k", b"v")])
    with pytest.raises(OverflowError):
        made.append(1, b"k", b"v")
    assert made.count == 1


@given(rows=RECORDS, codec=st.sampled_from(Codec))
def test_a_sealed_payload_is_the_batch_a_producer_sends(rows: list[Record], codec: Codec) -> None:
    for param in ENGINES:
        made = written(param.values[0], rows)
        if not rows:
            with pytest.raises(ValueError, match="at least one record"):
                seal_payload(made, codec=codec)
            continue
        fields = {"producer_id": 9, "producer_epoch": 2, "base_sequence": 31}
        batch = seal_payload(made, codec=codec, transactional=True, **fields)
        check_crc(read_header(batch), batch)
        assert batch == build_batch(rows, codec=codec, transactional=True, **fields)
        assert read_records(batch) == rows


def test_a_restamped_batch_is_what_its_new_producer_would_have_built() -> None:
    made = written(PURE, [Record(0, 50, b"k", b"v")])
    batch = seal_payload(made, codec=Codec.LZ4)
    restamp(batch, 7, 1, 5)
    assert batch == seal_payload(
        made, codec=Codec.LZ4, producer_id=7, producer_epoch=1, base_sequence=5
    )


@given(rows=RECORDS, from_offset=st.integers(0, 12), append_time=st.none() | st.integers(0, 99))
def test_consumers_get_the_records_they_asked_for(
    rows: list[Record], from_offset: int, append_time: int | None
) -> None:
    payload = encode_records(rows, 0, 5)
    for param in ENGINES:
        got = param.values[0].consumer_records(
            *(payload, len(rows), 100, 5, append_time, 100 + from_offset),
            *("topic", 3, 1, 8, Row, None, bytes.hex),
        )
        assert [type(row) for row in got] == [Row] * len(got)
        assert got == [
            Row(
                *("topic", 3, 100 + row.offset),
                row.timestamp if append_time is None else append_time,
                *(1, row.key, None if row.value is None else row.value.hex()),
                *(row.headers, 8),
            )
            for row in rows[from_offset:]
        ]


@given(
    rows=RECORDS,
    from_offset=st.integers(0, 4),
    limit=st.integers(0, 12),
    headers=st.booleans(),
    column_bytes_max=st.sampled_from([0, 100, 1 << 31]),
)
def test_columns_hold_the_records_in_order_however_often_they_are_taken(
    rows: list[Record], from_offset: int, limit: int, headers: bool, column_bytes_max: int
) -> None:
    payload = encode_records(rows, 0, 5)
    for param in ENGINES:
        columns = param.values[0].RecordColumns(headers, column_bytes_max=column_bytes_max)
        start, got = from_offset, []
        for _ in range(20):
            added = columns.add(payload, len(rows), 0, 5, None, start, limit)
            assert added == columns.count <= limit
            start = columns.next_offset if added else start
            taken = columns.take()
            assert taken.count == added
            got += rows_of(taken)
            if columns.complete or not added:
                break
        expected = rows[from_offset : from_offset + len(got)]
        assert got == (expected if headers else [row._replace(headers=()) for row in expected])
        if limit and column_bytes_max == 1 << 31:
            assert columns.complete
            assert len(got) == len(rows[from_offset:])


def test_columns_of_many_payloads_are_one(records: Any) -> None:
    rows = [Record(i, i, b"k", b"v" * i) for i in range(10)]
    columns = records.RecordColumns()
    for part in (rows[:4], rows[4:6], rows[6:]):
        base = part[0].offset
        payload = encode_records(part, base, base)
        assert columns.add(payload, len(part), base, base, None, 0, 1000) == len(part)
    assert (columns.count, columns.bytes, columns.next_offset) == (10, 10 + 45, 10)
    assert rows_of(columns.take()) == rows
    assert (columns.count, columns.bytes) == (0, 0)


def test_a_damaged_payload_adds_nothing_to_columns(records: Any) -> None:
    rows = [Record(i, i, None if i else b"k", b"v", (("h", None),)) for i in range(9)]
    columns = records.RecordColumns(True)
    columns.add(encode_records(rows, 0, 0), 9, 0, 0, None, 0, 1000)
    with pytest.raises(InvalidBatch, match="bytes are left"):
        columns.add(encode_records(rows, 0, 0) + b"x", 9, 0, 0, None, 0, 1000)
    assert columns.count == 9
    assert rows_of(columns.take()) == rows


@given(
    rows=RECORDS.filter(bool),
    with_headers=st.booleans(),
    size_limit=st.sampled_from([1, 200, 1 << 30]),
    data=st.data(),
)
def test_rows_of_columns_are_written_like_records(
    rows: list[Record], with_headers: bool, size_limit: int, data: st.DataObject
) -> None:
    numbers = data.draw(st.none() | st.lists(st.integers(0, len(rows) - 1), max_size=8))
    picked = rows if numbers is None else [rows[number] for number in numbers]
    if not with_headers:
        picked = [row._replace(headers=()) for row in picked]
    columns = PURE.RecordColumns(with_headers)
    columns.add(encode_records(rows, 0, 0), len(rows), 0, 0, None, 0, 1000)
    source = columns.take()
    choice = None if numbers is None else array("i", numbers)
    for param in ENGINES:
        made = param.values[0].PayloadWriter()
        position = 0
        while position < len(picked):
            made.clear()
            added = made.extend_rows(source, choice, position, len(picked), size_limit)
            assert added == made.count >= 1
            assert made.size <= size_limit or added == 1
            part = [
                row._replace(offset=i) for i, row in enumerate(picked[position : position + added])
            ]
            assert bytes(made.payload()) == encode_records(part, 0, part[0].timestamp)
            position += added


def columns_of(**changes: Any) -> ColumnBuffers:
    plain = ColumnBuffers(
        2, None, None, *(struct.pack("<3i", 0, 1, 2), b"ab", None), *(None, None, None)
    )
    return plain._replace(**changes)


def test_rows_without_times_get_the_one_given_and_missing_columns_are_null(records: Any) -> None:
    made = records.PayloadWriter()
    assert made.extend_rows(columns_of(), None, 0, 2, 1000, timestamp=9) == 2
    expected = [Record(0, 9, b"a", None), Record(1, 9, b"b", None)]
    assert bytes(made.payload()) == encode_records(expected, 0, 9)


def test_a_writer_with_records_takes_no_row_beyond_the_limit(records: Any) -> None:
    made = written(records, [Record(0, 9, b"k", b"v")])
    assert made.extend_rows(columns_of(), None, 0, 2, made.size, 9) == 0
    assert made.extend_rows(columns_of(), None, 0, 0, 1000, 9) == 0
    assert made.count == 1


@pytest.mark.parametrize(
    ("changes", "rows", "stop"),
    [
        ({"count": 3}, None, 2),
        ({"count": -1}, None, 0),
        ({}, None, 3),
        ({}, struct.pack("<i", 2), 1),
        ({}, struct.pack("<i", -1), 1),
        ({}, struct.pack("<i", 0), 2),
        ({"key_offsets": struct.pack("<3i", 0, -1, 2)}, None, 2),
        ({"key_offsets": struct.pack("<3i", 1, 0, 2)}, None, 2),
        ({"key_offsets": struct.pack("<3i", 0, 1, 3)}, None, 2),
        ({"key_data": None}, None, 2),
        ({"key_validity": b""}, None, 2),
        ({"timestamps": b"1234567"}, None, 2),
        ({"header_offsets": struct.pack("<3i", 0, 0, 1)}, None, 2),
        ({"header_offsets": b"", "header_key_offsets": bytes(4)}, None, 2),
        ({"header_offsets": struct.pack("<3i", 0, 0, -5)}, None, 2),
        (
            {
                "header_offsets": struct.pack("<3i", 0, 0, 1),
                "header_key_offsets": struct.pack("<2i", 0, 5),
                "header_key_data": b"name",
            },
            None,
            2,
        ),
    ],
)
def test_columns_that_contradict_themselves_are_refused(
    records: Any, changes: dict[str, Any], rows: Any, stop: int
) -> None:
    with pytest.raises(ValueError, match=r"row|buffer"):
        records.PayloadWriter().extend_rows(columns_of(**changes), rows, 0, stop, 1000, 9)


def test_columns_without_times_need_one(records: Any) -> None:
    with pytest.raises(ValueError, match="no timestamps"):
        records.PayloadWriter().extend_rows(columns_of(), None, 0, 2, 1000)


@given(rows=RECORDS, step=st.sampled_from([0, 1, 1, 2]))
def test_a_survey_tells_what_the_records_have_in_common(rows: list[Record], step: int) -> None:
    rows = [row._replace(offset=row.offset * step) for row in rows]
    times = [row.timestamp for row in rows]
    expected = Survey(
        min((time for time in times if time != -1), default=NO_EARLIEST),
        max([-1, *times]),
        [row.offset for row in rows] == list(range(len(rows))),
        all(row.key is not None for row in rows),
    )
    for param in ENGINES:
        found = param.values[0].survey_records(encode_records(rows, 0, 7), len(rows), 7)
        assert type(found) is Survey
        assert found == expected


# Hashes that Java's client is known to give, as signed 32-bit numbers.
KNOWN = {
    b"21": -973932308,
    b"foobar": -790332482,
    b"abc": 479470107,
    b"a-little-bit-long-string": -985981536,
}


@pytest.mark.parametrize(("key", "expected"), KNOWN.items())
def test_murmur2_agrees_with_javas_client(records: Any, key: bytes, expected: int) -> None:
    assert records.murmur2(key) == expected & 0xFFFFFFFF
    assert records.murmur2(memoryview(bytearray(key))) == expected & 0xFFFFFFFF


@given(keys=st.lists(BYTES, max_size=20), partitions=st.integers(1, 100))
def test_rows_go_where_their_keys_would_alone(keys: list[bytes | None], partitions: int) -> None:
    rows = [Record(i, 0, key, None) for i, key in enumerate(keys)]
    columns = PURE.RecordColumns()
    columns.add(encode_records(rows, 0, 0), len(rows), 0, 0, None, 0, 1000)
    taken = columns.take()
    expected = [
        -1 if key is None else (PURE.murmur2(key) & 0x7FFFFFFF) % partitions for key in keys
    ]
    for param in ENGINES:
        got = param.values[0].partition_rows(
            taken.key_offsets, taken.key_data, taken.key_validity, taken.count, partitions
        )
        assert struct.unpack(f"<{len(keys)}i", got) == tuple(expected)


def test_partitions_of_nothing_sensible_are_refused(records: Any) -> None:
    offsets = struct.pack("<2i", 0, 5)
    with pytest.raises(ValueError, match="at least 1 partition"):
        records.partition_rows(offsets, b"hello", None, 1, 0)
    for bad in [
        (offsets, b"hell", None, 1),
        (offsets, b"hello", None, 2),
        (offsets, b"hello", b"", 1),
    ]:
        with pytest.raises(ValueError, match=r"row|buffer"):
            records.partition_rows(*bad, 4)


# --- the search in an offset index ----------------------------------------------------------


@given(
    st.lists(st.integers(0, (1 << 31) - 1), max_size=40, unique=True).map(sorted),
    st.integers(-5, 1 << 31),
)
@pytest.mark.parametrize("loops", ENGINES)
def test_the_last_entry_not_above_an_offset_is_found(
    loops: Any, offsets: list[int], target: int
) -> None:
    entries = b"".join(struct.pack(">ii", offset, -1) for offset in offsets)
    unused = memoryview(entries + bytes(64))  # an index file is larger than what it holds
    expected = sum(offset <= target for offset in offsets) - 1
    assert loops.floor_slot(unused, len(offsets), target) == expected


@pytest.mark.parametrize("loops", ENGINES)
def test_entries_that_do_not_exist_are_not_searched(loops: Any) -> None:
    with pytest.raises(ValueError, match="3 entries in 16 bytes"):
        loops.floor_slot(bytes(16), 3, 1)
