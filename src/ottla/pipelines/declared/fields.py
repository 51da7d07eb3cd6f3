"""Values that several parts of a YAML pipeline have: lengths of time, options, paths, topics."""

from __future__ import annotations

import re
from collections.abc import Callable

from ottla.pipelines.declared.marked_yaml import Node
from ottla.pipelines.declared.schemas import InvalidSchema, check_schema

_INTERVAL = re.compile(
    r"\d+(\.\d+)? *(millisecond|second|minute|hour|day|week|ms|s|m|h|d)s?", re.IGNORECASE
)
_WORDS = {"ms": "milliseconds", "s": "seconds", "m": "minutes", "h": "hours", "d": "days"}
_TOPIC = re.compile(r"[A-Za-z0-9._-]{1,249}")
_VIEW = re.compile(r"[A-Za-z_]\w*")
PIPELINE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")


def parse_interval(text: str) -> str | None:
    """As Spark writes it: `500 ms` and `5s` become `500 milliseconds` and `5 seconds`."""
    if not _INTERVAL.fullmatch(text.strip()):
        return None
    number, unit = re.fullmatch(r"([\d.]+) *(\w+)", text.strip().lower()).groups()  # type: ignore[union-attr]
    return f"{number} {_WORDS.get(unit, unit)}"


def interval(node: Node) -> str:
    found = parse_interval(node.text("a length of time"))
    if found is None:
        node.fail(f"{node.value!r} is no length of time; write 10 seconds, 500 ms, 1 hour")
    return found


def topic(node: Node) -> str:
    name = node.text("the name of a topic")
    if not _TOPIC.fullmatch(name) or name in (".", ".."):
        node.fail(f"{name!r} is no name of a topic: letters, digits, . _ - and 249 of them at most")
    return name


def view(node: Node, name: str) -> str:
    if not _VIEW.fullmatch(name):
        node.fail(f"{name!r} is no name of a view: letters, digits and _, no digit first")
    return name


def schema(node: Node) -> str:
    text = node.text("a schema like `account string, amount double`")
    try:
        check_schema(text)
    except InvalidSchema as error:
        node.fail(str(error))
    return text


def options(node: Node | None) -> dict[str, str]:
    return {} if node is None else {name: each.flat() for name, each in node.mapping().items()}


def path(node: Node) -> str:
    """Where data is: a URI as it is, else below the folder that the YAML is in."""
    text = node.text("a folder or a URI")
    if re.match(r"[A-Za-z][A-Za-z0-9+.-]+:", text):
        return text
    return str((node.base / text).resolve())


def check(node: Node, problem_of: Callable[[], object]) -> None:
    """What another part of Ottla refuses is told with its place in the file."""
    try:
        problem_of()
    except ValueError as error:
        node.fail(str(error))
