"""Java's properties format."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.config.properties import PropertiesError, parse_properties


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a=1", {"a": "1"}),
        ("a = 1 ", {"a": "1 "}),
        ("a:1\nb 2\nc\t=\t3", {"a": "1", "b": "2", "c": "3"}),
        ("# note\n! note\n\n  a=1\r\nb=2\rc=3", {"a": "1", "b": "2", "c": "3"}),
        ("a=1,\\\n   2,\\\n   3", {"a": "1,2,3"}),
        ("a=1\\\\\nb=2", {"a": "1\\", "b": "2"}),
        ("a=\\u00e9\\t\\q", {"a": "é\tq"}),
        ("a\\ b\\=c=d", {"a b=c": "d"}),
        ("a=b=c", {"a": "b=c"}),
        ("listeners=PLAINTEXT://:9092", {"listeners": "PLAINTEXT://:9092"}),
        ("only", {"only": ""}),
        ("a=1\na=2", {"a": "2"}),
        ("a=1\\", {"a": "1"}),
        ("a=1 # no comment", {"a": "1 # no comment"}),
        ("", {}),
    ],
)
def test_files_are_read_as_java_reads_them(text: str, expected: dict[str, str]) -> None:
    assert parse_properties(text) == expected


def test_the_place_of_each_key_is_remembered() -> None:
    properties = parse_properties("# head\na=1,\\\n2\nb=3\na=4", "conf/server.properties")
    assert properties.where == {"a": "conf/server.properties:5", "b": "conf/server.properties:4"}


def test_a_broken_escape_names_file_and_line() -> None:
    with pytest.raises(PropertiesError, match=r"^x\.properties:2: .*four hexadecimal digits"):
        parse_properties("a=1\nb=\\u12", "x.properties")


@given(st.dictionaries(st.text(min_size=1), st.text()))
def test_any_text_survives_when_escaped(settings: dict[str, str]) -> None:
    def escaped(text: str) -> str:
        units = text.encode("utf-16-be", "surrogatepass")
        return "".join(f"\\u{units[i]:02x}{units[i + 1]:02x}" for i in range(0, len(units), 2))

    lines = [f"{escaped(key)}={escaped(value)}" for key, value in settings.items()]
    read = parse_properties("\n".join(lines))

    def joined(text: str) -> str:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass")

    assert {joined(key): joined(value) for key, value in read.items()} == settings


@given(st.text(alphabet="ab=: \\\n\r\t#!u0"))
def test_no_text_breaks_the_reader(text: str) -> None:
    try:
        properties = parse_properties(text)
    except PropertiesError:
        return
    assert properties.keys() == properties.where.keys()
