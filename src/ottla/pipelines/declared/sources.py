"""Reads `source:` and `sources:`."""

from __future__ import annotations

import json
from typing import cast

from ottla.pipelines.declared import fields
from ottla.pipelines.declared.declaration import (
    BAD_VALUES,
    FILE_FORMATS,
    ONLY_VIEW,
    VALUE_FORMATS,
    BadValues,
    FileFormat,
    FileSource,
    TopicSource,
    ValueFormat,
)
from ottla.pipelines.declared.marked_yaml import Node
from ottla.spark.source.options import stream_options

TOPIC_FIELDS = (
    *("topic", "topics", "pattern", "assign", "format", "schema", "starting"),
    *("bad_values", "dead_letters", "parse", "options"),
)
FILE_FIELDS = ("path", "format", "schema", "options")
_CHOICES = {
    "topic": "subscribe",
    "topics": "subscribe",
    "pattern": "subscribePattern",
    "assign": "assign",
}


def read_sources(root: dict[str, Node], whole: Node) -> tuple[TopicSource | FileSource, ...]:
    if ("source" in root) == ("sources" in root):
        whole.fail("wants either `source:`, or `sources:` with a name for each")
    if "source" in root:
        return (_source(root["source"], ONLY_VIEW),)
    named = root["sources"].mapping()
    found = tuple(_source(node, fields.view(node, name)) for name, node in named.items())
    if not any(isinstance(one, TopicSource) for one in found):
        root["sources"].fail("wants a source with a topic: files alone are no stream")
    return found


def _source(node: Node, view: str) -> TopicSource | FileSource:
    if isinstance(node.value, str):
        return _checked(node, TopicSource(view, ("subscribe", fields.topic(node)), line=node.line))
    if "path" in node.mapping():
        if view == ONLY_VIEW:
            node.fail("files alone are no stream: wants a topic, or `sources:` with one among them")
        return _files(node, view)
    return _topics(node, view)


def _files(node: Node, view: str) -> FileSource:
    given = node.mapping(FILE_FIELDS)
    format_ = given["format"].choice(FILE_FORMATS) if "format" in given else "parquet"
    return FileSource(
        view=view,
        path=fields.path(given["path"]),
        format=cast("FileFormat", format_),
        schema=fields.schema(given["schema"]) if "schema" in given else None,
        options=fields.options(given.get("options")),
        line=node.line,
    )


def _topics(node: Node, view: str) -> TopicSource:
    given = node.mapping((*TOPIC_FIELDS, "path"))
    format_ = given["format"].choice(VALUE_FORMATS) if "format" in given else "bytes"
    is_parsed = format_ in ("json", "csv")
    _only_when(given, "schema", is_parsed, "format is json or csv")
    _only_when(given, "bad_values", is_parsed, "format is json or csv")
    _only_when(given, "parse", is_parsed, "format is json or csv")
    if is_parsed and "schema" not in given:
        node.fail(f"format {format_} wants a schema: like `account string, amount double`")
    bad, letters = _bad_values(node, given)
    return _checked(
        node,
        TopicSource(
            view=view,
            choice=_choice(node, given),
            format=cast("ValueFormat", format_),
            schema=fields.schema(given["schema"]) if "schema" in given else None,
            starting=_starting(given["starting"]) if "starting" in given else "earliest",
            bad_values=bad,
            dead_letters=letters,
            parse_options=fields.options(given.get("parse")),
            options=fields.options(given.get("options")),
            line=node.line,
        ),
    )


def _only_when(given: dict[str, Node], name: str, allowed: bool, when: str) -> None:
    if name in given and not allowed:
        given[name].fail(f"has a meaning only if {when}")


def _choice(node: Node, given: dict[str, Node]) -> tuple[str, str]:
    named = [name for name in _CHOICES if name in given]
    if len(named) != 1:
        node.fail(f"wants one of {', '.join(_CHOICES)}" + (", not several" if named else ""))
    chosen = given[named[0]]
    match named[0]:
        case "topic":
            return "subscribe", fields.topic(chosen)
        case "topics":
            if not chosen.items():
                chosen.fail("is empty")
            return "subscribe", ",".join(fields.topic(each) for each in chosen.items())
        case "assign":
            return "assign", json.dumps(_partitions(chosen))
    return "subscribePattern", chosen.text("a regular expression")


def _partitions(node: Node) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for name, numbers in node.mapping().items():
        found[name] = [each.value for each in numbers.items()]
        if not all(isinstance(each, int) and each >= 0 for each in found[name]):
            numbers.fail("wants partitions as whole numbers, like [0, 1]")
    return found


def _starting(node: Node) -> str:
    """Return earliest, latest, or offsets by topic and partition."""
    if not isinstance(node.value, dict):
        return node.choice(("earliest", "latest"))
    offsets = {
        name: {index: each.value for index, each in one.mapping().items()}
        for name, one in node.mapping().items()
    }
    return json.dumps(offsets)


def _bad_values(node: Node, given: dict[str, Node]) -> tuple[BadValues, str | None]:
    chosen = given["bad_values"].choice(BAD_VALUES) if "bad_values" in given else "fail"
    if (chosen == "dead-letters") != ("dead_letters" in given):
        node.fail("`bad_values: dead-letters` and `dead_letters: TOPIC` go together")
    letters = fields.topic(given["dead_letters"]) if "dead_letters" in given else None
    return cast("BadValues", chosen), letters


def _checked(node: Node, source: TopicSource) -> TopicSource:
    """Check with the rules of the source, with an address if none is given here."""
    fields.check(node, lambda: stream_options(reader_options(source, {})))
    return source


def reader_options(source: TopicSource, connection: dict[str, str]) -> dict[str, str]:
    """Return all options of the reader; the source's own override the others."""
    return {
        "kafka.bootstrap.servers": "localhost:9092",
        "includeHeaders": "true",
        "kafka.isolation.level": "read_committed",
        **connection,
        "startingOffsets": source.starting,
        source.choice[0]: source.choice[1],
        **source.options,
    }
