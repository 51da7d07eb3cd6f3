"""Records from text: one a line, the whole input as one, or one JSON object a line."""

from __future__ import annotations

import json
from base64 import b64decode
from binascii import Error as Base64Error
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

from ottla.client.errors import ClientError
from ottla.records.record import Headers

LINE_BYTES_MAX = 64 << 20
"""Beyond this an input without the delimiter is refused instead of filling the memory."""


class BadInput(ClientError):
    """A line that does not say what a record needs."""


class NewRecord(NamedTuple):
    key: bytes | None
    value: bytes | None
    headers: Headers = ()
    partition: int | None = None
    timestamp_ms: int | None = None


@dataclass(frozen=True, slots=True)
class LineRules:
    """How a line becomes a record."""

    key_separator: bytes | None = None
    key: bytes | None = None
    null: bytes | None = None
    headers: Headers = ()
    partition: int | None = None
    timestamp_ms: int | None = None


Parse = Callable[[bytes, int], NewRecord]
"""From a piece of input and its number (counted from 1) to a record."""


def parser(form: str, rules: LineRules) -> Parse:
    if form == "json":
        return lambda line, number: parse_json(line, number, rules)
    return lambda line, number: parse_line(line, number, rules)


def parse_line(line: bytes, number: int, rules: LineRules) -> NewRecord:
    key, value = rules.key, line
    if rules.key_separator is not None:
        key, separator, value = line.partition(rules.key_separator)
        if not separator:
            raise BadInput(
                f"line {number} has no key separator {rules.key_separator.decode()!r}: "
                f"{line[:80].decode(errors='replace')!r}"
            )
    return NewRecord(
        None if key == rules.null else key,
        None if value == rules.null else value,
        rules.headers,
        rules.partition,
        rules.timestamp_ms,
    )


def parse_json(line: bytes, number: int, rules: LineRules) -> NewRecord:
    """The shape `ottla consume --format json` prints; options fill in what a line leaves out."""
    try:
        fields = json.loads(line)
    except ValueError as error:
        raise BadInput(f"line {number} is not JSON: {error}") from None
    if not isinstance(fields, dict):
        raise BadInput(f"line {number} is not a JSON object: {line[:80].decode(errors='replace')}")
    partition = rules.partition if rules.partition is not None else fields.get("partition")
    timestamp = rules.timestamp_ms if rules.timestamp_ms is not None else fields.get("timestamp")
    for name, found in (("partition", partition), ("timestamp", timestamp)):
        if found is not None and (not isinstance(found, int) or isinstance(found, bool)):
            raise BadInput(f"line {number}: {name} must be a number, not {found!r}")
    key = _bytes(fields, "key", number)
    return NewRecord(
        rules.key if key is None else key,
        _bytes(fields, "value", number),
        (*_headers(fields.get("headers"), number), *rules.headers),
        partition,
        timestamp,
    )


def _bytes(fields: dict[str, Any], name: str, number: int) -> bytes | None:
    encoded = fields.get(f"{name}_base64")
    if encoded is not None:
        try:
            return b64decode(encoded, validate=True)
        except (Base64Error, TypeError, ValueError):
            raise BadInput(f"line {number}: {name}_base64 is not base64: {encoded!r}") from None
    content = fields.get(name)
    if content is None:
        return None
    if isinstance(content, str):
        return content.encode()
    return json.dumps(content, ensure_ascii=False, separators=(",", ":")).encode()


def _headers(found: Any, number: int) -> Headers:
    if found is None:
        return ()
    if isinstance(found, dict):
        return tuple(
            (name, _bytes({"value": content}, "value", number)) for name, content in found.items()
        )
    if isinstance(found, list) and all(
        isinstance(header, dict) and isinstance(header.get("name"), str) for header in found
    ):
        return tuple((header["name"], _bytes(header, "value", number)) for header in found)
    raise BadInput(
        f'line {number}: headers must be an object, or a list of {{"name": ..., "value": ...}}'
    )


class Splitter:
    """Cuts chunks of input at a delimiter; the last piece needs none."""

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
