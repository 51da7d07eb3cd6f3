"""Values in several parts of a YAML pipeline: durations, options, paths, topics."""

from __future__ import annotations

import re
from collections.abc import Callable

from ottla.durations import spark_interval
from ottla.pipelines.declared.marked_yaml import Node
from ottla.pipelines.declared.schemas import InvalidSchema, parse_schema

_TOPIC = re.compile(r"[A-Za-z0-9._-]{1,249}")
_VIEW = re.compile(r"[A-Za-z_]\w*")
PIPELINE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")


def interval(node: Node) -> str:
    found = spark_interval(node.text("a length of time"))
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
        parse_schema(text)
    except InvalidSchema as error:
        node.fail(str(error))
    except RecursionError:
        node.fail("is nested too deeply")
    return text


def options(node: Node | None) -> dict[str, str]:
    return {} if node is None else {name: each.flat() for name, each in node.mapping().items()}


def path(node: Node) -> str:
    """Return a path of data: a URI unchanged, else a path below the folder of the YAML file."""
    text = node.text("a folder or a URI")
    if re.match(r"[A-Za-z][A-Za-z0-9+.-]+:", text):
        return text
    return str((node.base / text).resolve())


def check(node: Node, problem_of: Callable[[], object]) -> None:
    """Report a ValueError of `problem_of` with its place in the file."""
    try:
        problem_of()
    except ValueError as error:
        node.fail(str(error))
