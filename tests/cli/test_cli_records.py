"""Records to text and back."""

from __future__ import annotations

import json

import pytest
import typer
from hypothesis import given
from hypothesis import strategies as st

from ottla.cli.records.reading import (
    BadInput,
    LineRules,
    NewRecord,
    Splitter,
    parse_json,
    parse_line,
)
from ottla.cli.records.writing import as_json, iso_time, json_line, renderer, unescape
from ottla.records.record import Record

RECORD = Record(7, 1_700_000_000_123, b"k", b"v", (("h", b"1"), ("n", None)))

nullable_bytes = st.none() | st.binary(max_size=40)


def render(form: str, record: Record = RECORD) -> bytes:
    write = renderer(form, "topic", separator=b"\t", delimiter=b"\n", null=b"NULL")
    return write(3, record)


@given(
    nullable_bytes,
    nullable_bytes,
    st.lists(st.tuples(st.text(max_size=10), nullable_bytes), max_size=4),
)
def test_any_record_survives_json(
    key: bytes | None, value: bytes | None, headers: list[tuple[str, bytes | None]]
) -> None:
    record = Record(5, 1234, key, value, tuple(headers))
    line = json.dumps(as_json("t", 2, record)).encode()
    assert parse_json(line, 1, LineRules()) == NewRecord(key, value, tuple(headers), 2, 1234)


@pytest.mark.parametrize(
    ("form", "expected"),
    [
        ("value", b"v\n"),
        ("key-value", b"k\tv\n"),
        ("%t/%p@%o %T %k=%v\\n", b"topic/3@7 1700000000123 k=v\n"),
        ("%d %K %S %h%%", b"2023-11-14T22:13:20.123Z 1 1 h=1,n=NULL%"),
        ("%s\\t\\x00\\\\", b"v\t\x00\\"),
    ],
)
def test_forms_print_what_they_promise(form: str, expected: bytes) -> None:
    assert render(form) == expected


def test_null_is_told_from_empty_where_the_form_can() -> None:
    nothing = Record(0, -1, None, None)
    assert render("key-value", nothing) == b"NULL\tNULL\n"
    assert render("%K %S %d", nothing) == b"-1 -1 -"


@pytest.mark.parametrize("form", ["yaml", "%q"])
def test_unknown_forms_and_marks_are_refused(form: str) -> None:
    with pytest.raises(typer.BadParameter):
        render(form)


def test_binary_values_are_printed_untouched() -> None:
    assert render("value", Record(0, 0, None, b"\x00\xff\n")) == b"\x00\xff\n\n"


@given(
    st.lists(
        st.binary(min_size=1, max_size=20).filter(lambda b: b"\r\n" not in b and b[-1:] != b"\r")
    ),
    st.integers(1, 9),
)
def test_input_is_cut_at_the_delimiter_wherever_chunks_end(
    pieces: list[bytes], chunk_bytes: int
) -> None:
    stream = b"\r\n".join(pieces)
    splitter = Splitter(b"\r\n")
    found = []
    for start in range(0, len(stream), chunk_bytes):
        found += splitter.pieces(stream[start : start + chunk_bytes])
    found += splitter.last()
    assert found == pieces


def test_a_line_is_cut_at_the_first_key_separator() -> None:
    rules = LineRules(key_separator=b":", null=b"NULL")
    assert parse_line(b"k:v:w", 1, rules) == NewRecord(b"k", b"v:w")
    assert parse_line(b"NULL:v", 1, rules) == NewRecord(None, b"v")
    assert parse_line(b"k:NULL", 1, rules) == NewRecord(b"k", None)
    assert parse_line(b":", 1, rules) == NewRecord(b"", b"")


def test_a_line_without_its_key_separator_is_named() -> None:
    with pytest.raises(BadInput, match="line 3 has no key separator ':': 'oops'"):
        parse_line(b"oops", 3, LineRules(key_separator=b":"))


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        (b"{", "line 4 is not a JSON object"),
        (b"[1]", "not a JSON object"),
        (b'{"value": "a"} x', "there is more behind it, at column 15"),
        (b'{"value": "a" "key": "b"}', "',' is missing at column 15"),
        (b'{"value": NaN}', "NaN is not JSON"),
        (b'{"value": ' + b"[" * 100_000, "not a JSON object"),
        (b'{"value": "a", "value": "b"}', "it has 'value' twice"),
        (b'{"amount": 200}', "unknown field 'amount'"),
        (b'{"vlaue": "x", "kye": "y"}', "unknown fields 'vlaue', 'kye'"),
        (b'{"value": "x", "Key": "y"}', "unknown field 'Key'"),
        (b"{}", "no key and no value"),
        (b'{"partition": 1, "headers": {}}', "no key and no value"),
        (b'{"value": "x", "partition": "x"}', 'partition must be a whole number from 0, not "x"'),
        (b'{"value": "x", "partition": -1}', "partition must be a whole number from 0"),
        (b'{"value": "x", "partition": 2147483648}', "partition must be a whole number"),
        (b'{"value": "x", "timestamp": true}', "timestamp must be a whole number"),
        (b'{"value": "x", "timestamp": 1.5}', "timestamp must be a whole number"),
        (b'{"value_base64": "?"}', "value_base64 is not base64"),
        (b'{"value_base64": 5}', "value_base64 is not base64"),
        (b'{"value": "a", "value_base64": "YQ=="}', "exclude each other"),
        (b'{"value": "\\ud800"}', "half of a surrogate pair"),
        (b'{"value": "\xff"}', "not UTF-8"),
        (b'{"value": "x", "headers": [1]}', "headers must be"),
        (b'{"value": "x", "headers": "h"}', "headers must be"),
        (b'{"value": "x", "headers": [{"name": "h", "vlaue": "x"}]}', "unknown field 'vlaue'"),
        (b'{"value": "x", "headers": [{"value": "x"}]}', "a header has no name"),
        (b'{"value": "x", "headers": {"h": "1", "h": "2"}}', "headers: it has 'h' twice"),
    ],
)
def test_a_bad_json_line_is_named(line: bytes, complaint: str) -> None:
    with pytest.raises(BadInput, match=complaint):
        parse_json(line, 4, LineRules())


def test_a_json_value_that_is_no_text_is_sent_as_json() -> None:
    found = parse_json(
        b'{"key": 5, "value": {"a": [1, "\xc3\xbc"]}, "headers": {"h": 1}}', 1, LineRules()
    )
    assert found == NewRecord(b"5", '{"a": [1, "ü"]}'.encode(), (("h", b"1"),))


def test_numbers_keep_their_digits() -> None:
    line = b'{"value": {"amount": 1.10, "id": 12345678901234567890.5}}'
    found = parse_json(line, 1, LineRules())
    assert found is not None
    assert found.value == b'{"amount": 1.10, "id": 12345678901234567890.5}'


def test_an_empty_line_is_no_record() -> None:
    assert parse_json(b" \t", 1, LineRules()) is None


def test_what_consume_prints_is_taken_whatever_is_in_it() -> None:
    """A copy by `consume --json | produce --format json`, of all that a record can hold."""
    for record in (
        Record(5, 9, b"k", b"v", (("h", b"1"), ("h", None))),
        Record(5, -1, None, None, ()),
        Record(5, 0, b"\xff", b"\xfe\x00", (("\u202e", b"\xff"),)),
        Record(5, 9, b"5", b'[1, {"a": "\xc2\x9b"}]', ()),
        Record(5, 9, b"5", b'{"a":\n 1e999}', ()),
    ):
        found = parse_json(json_line("t", 3, record, False), 1, LineRules())
        stamp = None if record.timestamp < 0 else record.timestamp
        assert found == NewRecord(record.key, record.value, record.headers, 3, stamp)


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (b'{"a": 1.10}', '{"a": 1.10}'),
        (b" [1,\n 2] ", "[1,  2]"),
        (b"5", '"5"'),
        (b'"x"', '"\\"x\\""'),
        (b"null", '"null"'),
        (b"{no}", '"{no}"'),
        (b"[NaN]", '"[NaN]"'),
        (b'{"a": "\xc2\x9b"}', '{"a": "\\u009b"}'),
        (None, "null"),
    ],
)
def test_json_objects_and_lists_are_shown_as_such_and_nothing_else(
    value: bytes | None, shown: str
) -> None:
    record = Record(1, 2, b'{"k":1}', value, ())
    line = json_line("t", 0, record, True).decode()
    assert f'"value":{shown},' in line
    assert json.loads(line)["key"] == '{"k":1}'
    as_text = json.loads(json_line("t", 0, record, False))
    assert as_text["value"] == (None if value is None else value.decode())


def test_options_fill_in_what_a_json_line_leaves_out() -> None:
    rules = LineRules(key=b"k", headers=(("h", b"1"),), partition=4, timestamp_ms=9)
    assert parse_json(b'{"value": "v"}', 1, rules) == NewRecord(b"k", b"v", (("h", b"1"),), 4, 9)


def test_escapes_mean_bytes() -> None:
    assert unescape("\\n\\t\\0\\\\a") == b"\n\t\0\\a"
    assert unescape("\\xff") == b"\xff"
    assert unescape("ü") == "ü".encode()


def test_a_year_the_calendar_lacks_is_shown_as_a_number() -> None:
    assert iso_time(2**62) == str(2**62)
