"""Parses records from text: one per line, the whole input as one, or one JSON object per line."""

from __future__ import annotations

import json
from base64 import b64decode
from binascii import Error as Base64Error
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from ottla.client.errors import ClientError
from ottla.records.record import Headers

LINE_BYTES_MAX = 64 << 20
"""A longer input without the delimiter is refused instead of filling the memory."""


class BadInput(ClientError):
    """A line that is no valid record."""


class NewRecord(NamedTuple):
    key: bytes | None
    value: bytes | None
    headers: Headers = ()
    partition: int | None = None
    timestamp_ms: int | None = None


@dataclass(frozen=True, slots=True)
class LineRules:
    """The rules by which a line becomes a record."""

    key_separator: bytes | None = None
    key: bytes | None = None
    null: bytes | None = None
    headers: Headers = ()
    partition: int | None = None
    timestamp_ms: int | None = None


Parse = Callable[[bytes, int], NewRecord | None]
"""From a piece of input and its number (counted from 1) to a record, or None."""


def parser(form: str, rules: LineRules) -> Parse:
    if form == "json":
        return lambda line, number: parse_json(line, number, rules)
    return lambda line, number: parse_line(line, number, rules)


def parse_line(line: bytes, number: int, rules: LineRules) -> NewRecord:
    key, value = rules.key, line
    if rules.key_separator is not None:
        key, separator, value = line.partition(rules.key_separator)
        if not separator:
            missing = rules.key_separator.decode(errors="replace")
            raise BadInput(
                f"line {number} has no key separator {missing!r}: "
                f"{line[:80].decode(errors='replace')!r}"
            )
    return NewRecord(
        None if key == rules.null else key,
        None if value == rules.null else value,
        rules.headers,
        rules.partition,
        rules.timestamp_ms,
    )


def parse_json(line: bytes, number: int, rules: LineRules) -> NewRecord | None:
    """Parse the format that `ottla consume --format json` prints; options fill in missing fields.

    Return None for an empty line. A field that a record cannot store is an error, so that nothing
    is lost.
    """
    try:
        fields = _fields(line.decode())
    except UnicodeDecodeError:
        raise BadInput(f"line {number} is not UTF-8 text") from None
    except (ValueError, RecursionError) as error:
        raise BadInput(f"line {number} is not a JSON object: {error}") from None
    if fields is None:
        return None
    try:
        return _record(fields, rules)
    except _Wrong as error:
        raise BadInput(f"line {number}: {error}") from None


class _Wrong(Exception):
    """A field of a line that no record can store."""


class _Json(NamedTuple):
    value: Any
    text: str
    """The text in the line: numbers keep their digits."""


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


_DECODER = json.JSONDecoder(parse_constant=_refuse_constant)
_BLANKS = " \t\r\n"


def _fields(text: str) -> dict[str, _Json] | None:
    """Return the members of an object with their text; None for an empty line."""
    text = text.strip(_BLANKS)
    if not text:
        return None
    if not text.startswith("{"):
        raise ValueError(f"it begins with {text[:20]!r}")
    fields: dict[str, _Json] = {}
    at = _skip(text, 1)
    while text[at : at + 1] != "}":
        if fields:
            at = _skip(text, _expect(text, at, ","))
        name, end = _DECODER.raw_decode(text, at)
        if not isinstance(name, str):
            raise ValueError(f"a name in double quotes is missing at column {at + 1}")
        if name in fields:
            raise ValueError(f"it has {name!r} twice")
        at = _skip(text, _expect(text, _skip(text, end), ":"))
        value, end = _DECODER.raw_decode(text, at)
        fields[name] = _Json(value, text[at:end])
        at = _skip(text, end)
    if at + 1 != len(text):
        raise ValueError(f"there is more behind it, at column {at + 2}")
    return fields


def _skip(text: str, at: int) -> int:
    while text[at : at + 1] in _BLANKS and at < len(text):
        at += 1
    return at


def _expect(text: str, at: int, sign: str) -> int:
    if text[at : at + 1] != sign:
        raise ValueError(f"{sign!r} is missing at column {at + 1}")
    return at + 1


CONTENTS = ("key", "value", "key_base64", "value_base64")
FIELDS = (*CONTENTS, "headers", "partition", "timestamp")
PRINTED_FIELDS = ("topic", "offset")
"""Fields that `consume` prints as well: where a record was says nothing about where it goes."""


def _record(fields: dict[str, _Json], rules: LineRules) -> NewRecord:
    _check_names(fields, (*FIELDS, *PRINTED_FIELDS), f"a record has {', '.join(FIELDS)}")
    if not any(name in fields for name in CONTENTS):
        raise _Wrong(f"no key and no value; a record has {', '.join(FIELDS)}")
    key = _bytes(fields, "key")
    return NewRecord(
        rules.key if key is None else key,
        _bytes(fields, "value"),
        (*_headers(fields.get("headers")), *rules.headers),
        rules.partition if rules.partition is not None else _whole(fields, "partition", 2**31),
        rules.timestamp_ms if rules.timestamp_ms is not None else _time(fields),
    )


def _check_names(fields: Iterable[str], known: tuple[str, ...], hint: str) -> None:
    if unknown := [name for name in fields if name not in known]:
        fields_ = "field" if len(unknown) == 1 else "fields"
        raise _Wrong(
            f"unknown {fields_} {', '.join(map(repr, unknown))}; {hint}. For lines that are values "
            "as they stand, leave out --format json"
        )


def _whole(fields: dict[str, _Json], name: str, limit: int) -> int | None:
    found = fields[name].value if name in fields else None
    if found is None:
        return None
    if not isinstance(found, int) or isinstance(found, bool) or not 0 <= found < limit:
        raise _Wrong(f"{name} must be a whole number from 0, not {fields[name].text}")
    return found


def _time(fields: dict[str, _Json]) -> int | None:
    """Return the timestamp; None for -1, which `consume` prints for a record without one."""
    if "timestamp" in fields and fields["timestamp"].value == -1:
        return None
    return _whole(fields, "timestamp", 2**63)


def _bytes(fields: Mapping[str, _Json], name: str) -> bytes | None:
    encoded = fields.get(f"{name}_base64", _NULL)
    content = fields.get(name, _NULL)
    if encoded.value is not None and content.value is not None:
        raise _Wrong(f"{name} and {name}_base64 exclude each other")
    if encoded.value is not None:
        try:
            return b64decode(encoded.value, validate=True)
        except (Base64Error, TypeError, ValueError):
            raise _Wrong(f"{name}_base64 is not base64: {encoded.text}") from None
    return _text(content)


_NULL = _Json(None, "null")


def _text(content: _Json) -> bytes | None:
    """Return a string as UTF-8; other JSON as its text in the line."""
    if content.value is None:
        return None
    try:
        return (content.value if isinstance(content.value, str) else content.text).encode()
    except UnicodeEncodeError:
        raise _Wrong(f"half of a surrogate pair is no text: {content.text}") from None


def _headers(found: _Json | None) -> Headers:
    if found is None or found.value is None:
        return ()
    try:
        if isinstance(found.value, dict):
            members = _fields(found.text) or {}
            return tuple((_name(name), _text(value)) for name, value in members.items())
        if isinstance(found.value, list) and all(isinstance(one, dict) for one in found.value):
            return tuple(_header(text) for text in _items(found.text))
    except ValueError as error:
        raise _Wrong(f"headers: {error}") from None
    raise _Wrong('headers must be an object, or a list of {"name": ..., "value": ...}')


def _items(text: str) -> Iterator[str]:
    at = _skip(text, 1)
    is_first = True
    while text[at : at + 1] != "]":
        if not is_first:
            at = _skip(text, _expect(text, at, ","))
        _, end = _DECODER.raw_decode(text, at)
        yield text[at:end]
        at, is_first = _skip(text, end), False


def _header(text: str) -> tuple[str, bytes | None]:
    fields = _fields(text) or {}
    _check_names(fields, ("name", "value", "value_base64"), "a header has name and value")
    if "name" not in fields or not isinstance(fields["name"].value, str):
        raise _Wrong(f"a header has no name: {text}")
    return _name(fields["name"].value), _bytes(fields, "value")


def _name(name: str) -> str:
    try:
        name.encode()
    except UnicodeEncodeError:
        raise _Wrong(f"half of a surrogate pair is no text: {json.dumps(name)}") from None
    return name


class Splitter:
    """Splits chunks of input at a delimiter; the last piece needs none."""

    def __init__(self, delimiter: bytes) -> None:
        self._delimiter = delimiter
        self._rest = bytearray()

    def pieces(self, chunk: bytes) -> Iterator[bytes]:
        self._rest += chunk
        if self._delimiter not in chunk and self._delimiter not in self._rest:
            if len(self._rest) > LINE_BYTES_MAX:
                raise BadInput(f"no delimiter within {LINE_BYTES_MAX} bytes of input")
            return
        *whole, rest = bytes(self._rest).split(self._delimiter)
        self._rest = bytearray(rest)
        yield from whole

    def last(self) -> Iterator[bytes]:
        if self._rest:
            yield bytes(self._rest)
