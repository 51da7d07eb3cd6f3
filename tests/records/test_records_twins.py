"""The compiled code and its twin in Python say the same of every payload, sound or damaged.

Bytes come from the network: a length that is believed unchecked would read, or write, memory that
belongs to others. So these tests are also a fuzzer: what goes wrong in compiled code ends the run.
"""

from __future__ import annotations

import gc
import os
import random
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from test_records_engine import PURE, RECORDS, Row, rows_of

from ottla.records import engine, native
from ottla.records.errors import InvalidBatch
from ottla.records.payload import decode_records, encode_records
from ottla.records.record import Record

needs_native = pytest.mark.skipif(not engine.NATIVE, reason="there is no compiled code here")
INT64_MAX = (1 << 63) - 1
CHANGES = st.lists(
    st.tuples(st.integers(0, 5000), st.sampled_from([0, 1, 2, 3, 0x7F, 0x80, 0x81, 0xFE, 0xFF])),
    max_size=4,
)
BASES = st.sampled_from([0, 5, INT64_MAX - (1 << 31), INT64_MAX - 5, -7])
TIMES = st.sampled_from([0, 1_700_000_000_000, INT64_MAX, -INT64_MAX - 1])


def test_the_compiled_code_is_there_where_it_must_be() -> None:
    """A broken build falls back in silence, which is meant for machines without a compiler."""
    built = list(Path(native.__file__).parent.glob("*.so"))
    if os.environ.get("CI") or built:
        assert engine.NATIVE, f"{len(built)} modules were built and cannot be used: make setup"


def test_everything_works_without_the_compiled_code() -> None:
    program = (
        "import sys; sys.modules['ottla.records.native'] = None\n"
        "from ottla.records import engine, builder\n"
        "writer = engine.PayloadWriter(); writer.append(1, b'k', b'v')\n"
        "assert not engine.NATIVE; print(len(builder.seal_payload(writer)))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout.strip() == "70", done.stderr


def outcome(work: Any) -> Any:
    """What came of it: a value, or what was said."""
    try:
        return work()
    except InvalidBatch as error:
        return error.code, str(error), error.record_errors


def read(side: Any, payload: Any, count: int, base: int, time: int, append_time: Any) -> Any:
    return outcome(
        lambda: side.consumer_records(
            *(payload, count, base, time, append_time, base + 1, "t", 0, 0, -1, Row)
        )
    )


def in_columns(
    side: Any, payload: Any, count: int, base: int, time: int, append_time: Any, limit: int
) -> Any:
    columns = side.RecordColumns(True)
    columns.add(SOUND, len(SAMPLE), 0, 0, None, 0, 100)
    added = outcome(lambda: columns.add(payload, count, base, time, append_time, base + 1, limit))
    counts = (columns.count, columns.bytes, columns.next_offset, columns.complete)
    return added, counts, rows_of(columns.take())


def surveyed(side: Any, payload: bytes, count: int, time: int) -> Any:
    return outcome(lambda: side.survey_records(payload, count, time))


def searched(side: Any, payload: bytes, count: int, base: int, time: int, append_time: Any) -> Any:
    """What the functions that look for records, or number them anew, make of a payload."""
    return [
        outcome(
            lambda wanted=wanted: side.find_timestamp(
                *(payload, count, base, time, append_time, wanted, base + 1)
            )
        )
        for wanted in (-INT64_MAX, time, INT64_MAX)
    ] + [
        outcome(lambda: side.find_faults(payload, count, time, True, 0, time, 2)),
        outcome(lambda: side.find_faults(payload, count, time, False, time, INT64_MAX, 9)),
        outcome(lambda: side.renumber_records(payload, count)),
    ]


def agree(payload: bytes, count: int, base: int, time: int, append_time: Any, limit: int) -> None:
    arguments = (payload, count, base, time, append_time)
    expected = read(PURE, *arguments)
    assert read(engine, *arguments) == expected
    assert read(engine, memoryview(bytearray(payload)), *arguments[1:]) == expected
    assert in_columns(engine, *arguments, limit) == in_columns(PURE, *arguments, limit)
    assert surveyed(engine, payload, count, time) == surveyed(PURE, payload, count, time)
    assert searched(engine, *arguments) == searched(PURE, *arguments)


SAMPLE = [
    Record(i, i, b"key" if i % 2 else None, None if i % 3 == 0 else b"value", (("h", b"x"),) * i)
    for i in range(5)
]
SOUND = encode_records(SAMPLE, 0, 0)


@needs_native
@given(
    rows=RECORDS,
    changes=CHANGES,
    cut=st.none() | st.integers(0, 300),
    off_by=st.sampled_from([0, 0, 0, 1, -1, 1 << 40, -(1 << 40)]),
    base=BASES,
    time=TIMES,
    append_time=st.none() | st.just(77),
    limit=st.sampled_from([0, 1, 3, 1 << 62]),
)
@settings(max_examples=1500, deadline=None)
def test_the_twins_agree_on_changed_payloads(
    rows: list[Record],
    changes: list[tuple[int, int]],
    cut: int | None,
    off_by: int,
    base: int,
    time: int,
    append_time: int | None,
    limit: int,
) -> None:
    payload = bytearray(encode_records(rows, 0, 0))[:cut]
    for position, byte in changes:
        if payload:
            payload[position % len(payload)] = byte
    agree(bytes(payload), len(rows) + off_by, base, time, append_time, limit)


@needs_native
@given(payload=st.binary(max_size=60), count=st.integers(-1, 8), limit=st.sampled_from([1, 100]))
@example(payload=b"\x80" * 9 + b"\x02" + bytes(20), count=1, limit=1)
@example(payload=b"\xff" * 9 + b"\x01" + bytes(20), count=1, limit=1)
@settings(max_examples=1500, deadline=None)
def test_the_twins_agree_on_noise(payload: bytes, count: int, limit: int) -> None:
    agree(payload, count, 0, 0, None, limit)


def hostile_payloads() -> list[bytes]:
    """Lengths and counts at the edges of what fits, in every field that has one."""

    def varint(value: int) -> bytes:
        out = bytearray()
        raw = value << 1 if value >= 0 else ~(value << 1)
        while raw > 0x7F:
            out.append(raw & 0x7F | 0x80)
            raw >>= 7
        return bytes([*out, raw])

    edges = [-(1 << 63), -(1 << 31), -2, -1, 0, 1, 5, 20, 21, 22, 100, 127, 128, 1 << 31]
    edges += [(1 << 31) - 1, (1 << 32) - 1, 1 << 32, 1 << 62, (1 << 63) - 1]
    found = []
    for edge in map(varint, edges):
        bodies = [
            b"\0" + edge + b"\0\1\1\0",
            b"\0\0" + edge + b"\1\1\0",
            b"\0\0\0" + edge + b"a" * 20 + b"\1\0",
            b"\0\0\0\1" + edge + b"a" * 20 + b"\0",
            b"\0\0\0\1\1" + edge + b"\2a\1" * 8,
            b"\0\0\0\1\1\2" + edge + b"a" * 20 + b"\1",
            b"\0\0\0\1\1\2\2a" + edge + b"b" * 20,
            b"\0\0\0\1\1\2\2a" + edge,
        ]
        for body in bodies:
            sized = varint(len(body)) + body
            found += [sized, sized + SOUND, edge + body, edge + body + bytes(30)]
    return found


@needs_native
@pytest.mark.parametrize("count", [1, 2, 6])
def test_the_twins_agree_on_hostile_lengths(count: int) -> None:
    for payload in hostile_payloads():
        agree(payload, count, 0, 5, None, 100)


@needs_native
def test_many_mutated_payloads_are_refused_or_read_and_nothing_else() -> None:
    chance = random.Random(1)
    rows = [
        Record(i, i, b"k" * i, b"v" * 5 * i, (("name", b"x" * i), ("é", None))) for i in range(20)
    ]
    sound = encode_records(rows, 0, 0)
    columns = engine.RecordColumns(True)
    for _ in range(20_000):
        payload = bytearray(sound)
        for _ in range(chance.randrange(1, 4)):
            payload[chance.randrange(len(payload))] = chance.choice((0, 1, 0x7F, 0x80, 0xFF, 64))
        end = chance.choice((len(payload), chance.randrange(len(payload))))
        data = bytes(payload[:end])
        outcome(lambda data=data: columns.add(data, 20, 0, 0, None, 0, 1000))
        outcome(
            lambda data=data: engine.consumer_records(
                *(data, 20, 0, 0, None, 0, "t", 0, 0, -1, Row)
            )
        )
    taken = columns.take()
    assert len(rows_of(taken)) == taken.count


@needs_native
@pytest.mark.parametrize("count", [1 << 20, (1 << 31) - 1, 1 << 62, -1, -(1 << 62)])
def test_a_count_that_cannot_be_is_refused_before_anything_is_allocated(count: int) -> None:
    agree(SOUND, count, 0, 0, None, 100)


@given(rows=RECORDS)
def test_records_for_consumers_are_those_that_decoding_finds(rows: list[Record]) -> None:
    payload = encode_records(rows, 0, 3)
    got = engine.consumer_records(payload, len(rows), 0, 3, None, 0, "t", 1, 0, 2, Row)
    assert [Record(r.offset, r.timestamp, r.key, r.value, r.headers) for r in got] == list(
        decode_records(payload, len(rows), 0, 3)
    )


@needs_native
def test_records_without_deserializers_are_no_work_for_the_garbage_collector() -> None:
    (record,) = engine.consumer_records(
        encode_records([SAMPLE[1]], 0, 0), 1, 0, 0, None, 0, "t", 0, 0, -1, Row
    )
    assert not gc.is_tracked(record)
    cyclic: list[Any] = []
    (record,) = engine.consumer_records(
        encode_records([SAMPLE[1]], 0, 0), 1, 0, 0, None, 0, "t", 0, 0, -1, Row, lambda _: cyclic
    )
    assert gc.is_tracked(record)
    assert record.key is cyclic


@needs_native
def test_a_deserializer_that_raises_loses_nothing_but_the_call() -> None:
    def refuse(data: bytes) -> None:
        raise LookupError(data)

    arguments = (SOUND, len(SAMPLE), 0, 0, None, 0, "t", 0, 0, -1, Row)
    for _ in range(1000):
        with pytest.raises(LookupError):
            engine.consumer_records(*arguments, None, refuse)
    assert len(engine.consumer_records(*arguments)) == len(SAMPLE)


@needs_native
def test_a_deserializer_that_overwrites_the_payload_does_no_harm() -> None:
    payload = bytearray(encode_records([Record(0, 0, b"k", b"v", (("h", b"x"),))] * 3, 0, 0))

    def vandal(data: bytes) -> bytes:
        payload[:] = b"\xff" * len(payload)
        return data

    with pytest.raises(InvalidBatch):
        engine.consumer_records(payload, 3, 0, 0, None, 0, "t", 0, 0, -1, Row, vandal)


@needs_native
def test_columns_outlive_what_made_them() -> None:
    columns = engine.RecordColumns(True)
    columns.add(SOUND, len(SAMPLE), 0, 0, None, 0, 100)
    view = memoryview(columns.take().value_data)
    del columns
    gc.collect()
    assert bytes(view) == b"".join(record.value or b"" for record in SAMPLE)


@needs_native
def test_two_threads_do_not_add_to_the_same_columns_at_once() -> None:
    """Large payloads are read without the interpreter's lock."""
    rows = [Record(i, i, b"key", bytes(100)) for i in range(100_000)]
    payload = encode_records(rows, 0, 0)
    columns = engine.RecordColumns()
    added, refused = [], []

    def add() -> None:
        for _ in range(5):
            try:
                added.append(columns.add(payload, len(rows), 0, 0, None, 0, 1 << 30))
            except RuntimeError:
                refused.append(1)

    threads = [threading.Thread(target=add) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(added) + len(refused) == 15
    taken = columns.take()
    assert taken.count == sum(added) == len(added) * len(rows)
    assert len(memoryview(taken.value_data)) == 100 * taken.count


@needs_native
def test_a_class_that_is_no_tuple_is_refused() -> None:
    with pytest.raises(TypeError, match="no kind of tuple"):
        engine.consumer_records(SOUND, 5, 0, 0, None, 0, "t", 0, 0, -1, dict)  # type: ignore[type-var]


class Nested:
    """Calls back while its bytes are asked for."""

    def __init__(self, writer: Any) -> None:
        self._writer = writer

    def __iter__(self) -> Any:
        self._writer.append(1, b"nested", bytes(5000))
        yield "h", b"x"


@needs_native
def test_a_writer_that_is_called_while_it_works_stays_sound() -> None:
    writer = engine.PayloadWriter()
    for _ in range(50):
        writer.append(1, b"outer", b"v", Nested(writer))
    records = list(decode_records(writer.payload(), writer.count, 0, 1))
    assert [record.key for record in records] == [b"nested", b"outer"] * 50
