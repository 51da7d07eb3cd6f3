"""Renders records as text or JSON for stdout; bytes are not changed.

Templates know these marks, besides `\\n`, `\\t`, `\\r`, `\\0`, `\\\\` and `\\xHH`:

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

from ottla.cli.output import safe_json
from ottla.client.values import AnyRecord
from ottla.logs import visible

Render = Callable[[int, AnyRecord], bytes]
"""From partition and record to the bytes to print."""

_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "0": "\0", "\\": "\\"}
_ESCAPE = re.compile(r"\\(x[0-9a-fA-F]{2}|.)", re.DOTALL)
_MARK = re.compile(r"%(.)", re.DOTALL)


def unescape(text: str) -> bytes:
    """Return the bytes that `\\t` and the like stand for."""

    def replaced(match: re.Match[str]) -> str:
        code = match[1]
        if code[0] == "x" and len(code) == 3:
            return chr(int(code[1:], 16))
        return _ESCAPES.get(code, match[0])

    if "\\x" in text:
        return _ESCAPE.sub(replaced, text).encode("latin-1", "replace")
    return _ESCAPE.sub(replaced, text).encode()


def renderer(
    form: str,
    topic: str,
    *,
    separator: bytes,
    delimiter: bytes,
    null: bytes,
    embeds_json: bool = True,
    for_terminal: bool = False,
) -> Render:
    """Return a renderer. `form` is value, key-value, json, or a template with % marks.

    `embeds_json`: in JSON, values that are JSON objects or lists are shown as such. `for_terminal`:
    control characters in records are shown as escapes, so that they do not affect it.
    """
    show = _shower(null, for_terminal)
    if form == "value":
        return lambda _, record: show(record.value) + delimiter
    if form == "key-value":
        return lambda _, record: b"".join(
            (show(record.key), separator, show(record.value), delimiter)
        )
    if form == "json":
        return lambda partition, record: json_line(topic, partition, record, embeds_json)
    if "%" not in form:
        raise typer.BadParameter(
            f"{form!r} is none of value, key-value, json, or a template such as '%o %k %v\\n'",
            param_hint="--format",
        )
    return template(form, topic, show)


Show = Callable[[bytes | None], bytes]


def _shower(null: bytes, for_terminal: bool) -> Show:
    if for_terminal:
        return lambda content: null if content is None else harmless(content)
    return lambda content: null if content is None else content


def harmless(content: bytes) -> bytes:
    """Escape the characters that could move a terminal's cursor or change its colours."""
    text = content.decode(errors="backslashreplace")
    return visible(text, keep="\n\t").encode()


def json_line(topic: str, partition: int, record: AnyRecord, embeds_json: bool) -> bytes:
    fields = as_json(topic, partition, record)
    embedded = json_of(record.value) if embeds_json else None
    if embedded is None:
        text = json.dumps(fields, ensure_ascii=False, separators=(",", ":"))
    else:
        members = (
            f"{json.dumps(name)}:"
            + (embedded if name == "value" else json.dumps(value, ensure_ascii=False))
            for name, value in fields.items()
        )
        text = f"{{{','.join(members)}}}"
    return safe_json(text).encode() + b"\n"


def json_of(content: bytes | None) -> str | None:
    """Return a JSON object or list as its own text in one line; None for anything else.

    Nothing else is taken for JSON: the value `5` is printed as text, so that a reader knows that
    every object was an object and every string was text.
    """
    if content is None or content.lstrip(JSON_BLANKS)[:1] not in (b"{", b"["):
        return None
    try:
        text = content.decode()
        _DECODER.decode(text)
    except (ValueError, RecursionError):
        return None
    # Line breaks can only be between its parts: inside a string the decoder refuses them.
    return text.strip().replace("\n", " ").replace("\r", " ")


JSON_BLANKS = b" \t\r\n"


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


_DECODER = json.JSONDecoder(parse_constant=_refuse_constant)


def as_json(topic: str, partition: int, record: AnyRecord) -> dict[str, Any]:
    """Return all fields; content that is not UTF-8 is base64 under a name that says so."""
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


def template(text: str, topic: str, show: Show) -> Render:
    """Compile a template: literal pieces and functions of the record, joined for each record."""
    marks = _marks(topic.encode(), show)
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


def _marks(topic: bytes, show: Show) -> dict[str, Render]:
    def size(content: bytes | None) -> bytes:
        return b"-1" if content is None else b"%d" % len(content)

    def value(_: int, record: AnyRecord) -> bytes:
        return show(record.value)

    return {
        "t": lambda _p, _r: topic,
        "p": lambda partition, _: b"%d" % partition,
        "o": lambda _, record: b"%d" % record.offset,
        "T": lambda _, record: b"%d" % record.timestamp,
        "d": lambda _, record: iso_time(record.timestamp).encode(),
        "k": lambda _, record: show(record.key),
        "K": lambda _, record: size(record.key),
        "v": value,
        "s": value,
        "S": lambda _, record: size(record.value),
        "h": lambda _, record: b",".join(
            show(name.encode()) + b"=" + show(content) for name, content in record.headers
        ),
        "%": lambda _p, _r: b"%",
    }


def iso_time(timestamp_ms: int) -> str:
    if timestamp_ms < 0:
        return "-"
    try:
        moment = datetime.fromtimestamp(timestamp_ms / 1000, UTC)
    except (ValueError, OverflowError, OSError):
        return str(timestamp_ms)  # a year that the calendar does not have
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
