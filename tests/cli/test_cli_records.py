"""Records to text and back."""

from __future__ import annotations

import json

import pytest
import typer
from hypothesis import given
from hypothesis import strategies as st

from ottla.cli.record_input import BadInput, LineRules, NewRecord, Splitter, parse_json, parse_line
from ottla.cli.record_output import as_json, iso_time, renderer, unescape
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
        (b"{", "line 4 is not JSON"),
        (b"[1]", "not a JSON object"),
        (b'{"partition": "x"}', "partition must be a number"),
        (b'{"timestamp": true}', "timestamp must be a number"),
        (b'{"value_base64": "?"}', "value_base64 is not base64"),
        (b'{"headers": [1]}', "headers must be"),
    ],
)
def test_a_bad_json_line_is_named(line: bytes, complaint: str) -> None:
    with pytest.raises(BadInput, match=complaint):
        parse_json(line, 4, LineRules())


def test_a_json_value_that_is_no_text_is_sent_as_json() -> None:
    found = parse_json(
        b'{"key": 5, "value": {"a": [1, "\xc3\xbc"]}, "headers": {"h": 1}}', 1, LineRules()
    )
    assert found == NewRecord(b"5", '{"a":[1,"ü"]}'.encode(), (("h", b"1"),))


def test_options_fill_in_what_a_json_line_leaves_out() -> None:
    rules = LineRules(key=b"k", headers=(("h", b"1"),), partition=4, timestamp_ms=9)
    assert parse_json(b'{"value": "v"}', 1, rules) == NewRecord(b"k", b"v", (("h", b"1"),), 4, 9)


def test_escapes_mean_bytes() -> None:
    assert unescape("\\n\\t\\0\\\\a") == b"\n\t\0\\a"
    assert unescape("\\xff") == b"\xff"
    assert unescape("ü") == "ü".encode()


def test_a_year_the_calendar_lacks_is_shown_as_a_number() -> None:
    assert iso_time(2**62) == str(2**62)
