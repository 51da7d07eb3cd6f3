"""Reads `sink:`: a topic, or files that Spark's own sink writes exactly once."""

from __future__ import annotations

from typing import Literal, cast

from ottla.pipelines.declared import fields
from ottla.pipelines.declared.declaration import FILE_FORMATS, FileFormat, FileSink, TopicSink
from ottla.pipelines.declared.marked_yaml import Node
from ottla.spark.sink.options import SinkOptions

TOPIC_FIELDS = ("topic", "key", "format", "mode", "options")
FILE_FIELDS = ("path", "format", "partition_by", "options")


def read_sink(root: dict[str, Node], whole: Node) -> TopicSink | FileSink:
    node = root.get("sink")
    if node is None:
        whole.fail("wants `sink:` with a topic, or with a path for files")
    given = node.mapping()
    if ("topic" in given) == ("path" in given):
        node.fail("wants either `topic: NAME` or `path: FOLDER`")
    return _topic(node) if "topic" in given else _files(node)


def _topic(node: Node) -> TopicSink:
    given = node.mapping(TOPIC_FIELDS)
    format_ = given["format"].choice(("json", "raw")) if "format" in given else None
    mode = given["mode"].choice(("append", "update")) if "mode" in given else "append"
    topic = fields.topic(given["topic"])
    options = fields.options(given.get("options"))
    asked = {"kafka.bootstrap.servers": "localhost:9092", "topic": topic, **options}
    fields.check(node, lambda: SinkOptions.read(asked, streaming=True))
    return TopicSink(
        topic=topic,
        key=given["key"].text("a column or an expression") if "key" in given else None,
        format=cast("Literal['json', 'raw'] | None", format_),
        mode=cast("Literal['append', 'update']", mode),
        options=options,
        line=node.line,
    )


def _files(node: Node) -> FileSink:
    given = node.mapping(FILE_FIELDS)
    format_ = given["format"].choice(FILE_FORMATS) if "format" in given else "parquet"
    columns = given["partition_by"].texts() if "partition_by" in given else []
    return FileSink(
        path=fields.path(given["path"]),
        format=cast("FileFormat", format_),
        partition_by=tuple(columns),
        options=fields.options(given.get("options")),
        line=node.line,
    )
