"""Records as text or JSON on their way to stdout; bytes go through untouched.

Templates know these marks, beside `\\n`, `\\t`, `\\r`, `\\0`, `\\\\` and `\\xHH`:

    %t topic      %p partition   %o offset       %T timestamp in ms   %d timestamp as ISO time
    %k key        %K its size    %v or %s value  %S its size (-1: null)
    %h headers as name=value,...                 %% a percent sign
"""

from __future__ import annotations

import json
import re
from base64 import b64encode
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import typer

from ottla.client.values import AnyRecord

Render = Callable[[int, AnyRecord], bytes]
"""From partition and record to the bytes to print."""

_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "0": "\0", "\\": "\\"}
_ESCAPE = re.compile(r"\\(x[0-9a-fA-F]{2}|.)", re.DOTALL)
_MARK = re.compile(r"%(.)", re.DOTALL)


def unescape(text: str) -> bytes:
    """`\\t` and the like as the bytes they stand for."""

    def replaced(match: re.Match[str]) -> str:
        code = match[1]
        if code[0] == "x" and len(code) == 3:
            return chr(int(code[1:], 16))
        return _ESCAPES.get(code, match[0])

    if "\\x" in text:
        return _ESCAPE.sub(replaced, text).encode("latin-1", "replace")
    return _ESCAPE.sub(replaced, text).encode()


def renderer(form: str, topic: str, *, separator: bytes, delimiter: bytes, null: bytes) -> Render:
    """`form` is value, key-value, json, or a template with % marks."""
    if form == "value":
        return lambda _, record: (null if record.value is None else record.value) + delimiter
    if form == "key-value":
        return lambda _, record: b"".join(
            (
                null if record.key is None else record.key,
                separator,
                null if record.value is None else record.value,
                delimiter,
            )
        )
    if form == "json":
        return lambda partition, record: (
            json.dumps(
                as_json(topic, partition, record), ensure_ascii=False, separators=(",", ":")
            ).encode()
            + b"\n"
        )
    if "%" not in form:
        raise typer.BadParameter(
            f"{form!r} is none of value, key-value, json, or a template such as '%o %k %v\\n'",
            param_hint="--format",
        )
    return template(form, topic, null=null)


def as_json(topic: str, partition: int, record: AnyRecord) -> dict[str, Any]:
    """All fields; what is not UTF-8 comes as base64 under a name that says so."""
    value: dict[str, Any] = {
        "topic": topic,
        "partition": partition,
        "offset": record.offset,
        "timestamp": record.timestamp,
    }
    put_bytes(value, "key", record.key)
    put_bytes(value, "value", record.value)
    value["headers"] = [_header(name, content) for name, content in record.headers]
    return value


def _header(name: str, content: bytes | None) -> dict[str, Any]:
    header: dict[str, Any] = {"name": name}
    put_bytes(header, "value", content)
    return header


def put_bytes(target: dict[str, Any], name: str, content: bytes | None) -> None:
    if content is None:
        target[name] = None
        return
    try:
        target[name] = content.decode()
    except UnicodeDecodeError:
        target[f"{name}_base64"] = b64encode(content).decode()


def template(text: str, topic: str, *, null: bytes) -> Render:
    """Compile once: literal pieces and functions of the record, joined for each."""
    marks = _marks(topic.encode(), null)
    pieces: list[bytes | Render] = []
    position = 0
    for mark in _MARK.finditer(text):
        if mark[1] not in marks:
            known = " ".join(f"%{name}" for name in marks)
            raise typer.BadParameter(f"unknown mark %{mark[1]}; known: {known}")
        pieces.append(unescape(text[position : mark.start()]))
        pieces.append(marks[mark[1]])
        position = mark.end()
    pieces.append(unescape(text[position:]))
    return lambda partition, record: b"".join(
        piece if isinstance(piece, bytes) else piece(partition, record) for piece in pieces
    )


def _marks(topic: bytes, null: bytes) -> dict[str, Render]:
    def size(content: bytes | None) -> bytes:
        return b"-1" if content is None else b"%d" % len(content)

    def value(_: int, record: AnyRecord) -> bytes:
        return null if record.value is None else record.value

    return {
        "t": lambda _p, _r: topic,
        "p": lambda partition, _: b"%d" % partition,
        "o": lambda _, record: b"%d" % record.offset,
        "T": lambda _, record: b"%d" % record.timestamp,
        "d": lambda _, record: iso_time(record.timestamp).encode(),
        "k": lambda _, record: null if record.key is None else record.key,
        "K": lambda _, record: size(record.key),
        "v": value,
        "s": value,
        "S": lambda _, record: size(record.value),
        "h": lambda _, record: b",".join(
            name.encode() + b"=" + (null if content is None else content)
            for name, content in record.headers
        ),
        "%": lambda _p, _r: b"%",
    }


def iso_time(timestamp_ms: int) -> str:
    if timestamp_ms < 0:
        return "-"
    try:
        moment = datetime.fromtimestamp(timestamp_ms / 1000, UTC)
    except (ValueError, OverflowError, OSError):
        return str(timestamp_ms)  # a year the calendar does not have
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
