"""Reads a YAML file as a declaration; errors name the line and what is allowed there."""

from __future__ import annotations

from pathlib import Path

from ottla.pipelines.declared import fields
from ottla.pipelines.declared.declaration import Declaration, FileSink
from ottla.pipelines.declared.marked_yaml import Node, load
from ottla.pipelines.declared.sinks import read_sink
from ottla.pipelines.declared.sources import read_sources
from ottla.pipelines.declared.steps import read_steps

ROOT_FIELDS = (
    *("name", "source", "sources", "steps", "sink"),
    *("trigger", "spark", "connection", "description"),
)


def read_declaration(file: Path, base: Path | None = None) -> Declaration:
    """Read a file. Relative paths of data start at `base`, by default the file's folder."""
    whole = load(file, base)
    root = whole.mapping(ROOT_FIELDS)
    sink = read_sink(root, whole)
    found = Declaration(
        file=file,
        name=_name(root["name"]) if "name" in root else file.stem,
        sources=read_sources(root, whole),
        steps=read_steps(root.get("steps")),
        sink=sink,
        trigger=fields.interval(root["trigger"]) if "trigger" in root else None,
        spark=_spark(root.get("spark")),
        connection=_connection(root.get("connection")),
    )
    _check_dead_letters(found, root)
    _check_views(found, root)
    return found


def _name(node: Node) -> str:
    name = node.text("a name")
    if not fields.PIPELINE_NAME.fullmatch(name):
        node.fail(f"{name!r} is no name: letters, digits, . _ -, 100 at most, no sign first")
    return name


def _spark(node: Node | None) -> dict[str, str]:
    found = fields.options(node)
    for name in found:
        if node is not None and not name.startswith("spark."):
            node.mapping()[name].fail("is no option of Spark: their names begin with `spark.`")
    return found


def _connection(node: Node | None) -> dict[str, str]:
    """Return `bootstrap.servers` and other settings of Kafka's clients, in Kafka's names."""
    from ottla.spark.client_options import admin_options
    from ottla.spark.secrets import with_stand_ins

    if node is None:
        return {}
    found = {
        f"kafka.{name.removeprefix('kafka.')}": each for name, each in fields.options(node).items()
    }
    checked = {"kafka.bootstrap.servers": "localhost", **with_stand_ins(found)}
    fields.check(node, lambda: admin_options(checked))
    return found


def _check_dead_letters(found: Declaration, root: dict[str, Node]) -> None:
    if found.dead_letters and isinstance(found.sink, FileSink):
        root["sink"].fail("dead letters are written with the results, and so want a topic here")


def _check_views(found: Declaration, root: dict[str, Node]) -> None:
    """Check views: several sources without an sql step would leave all but one unused."""
    if len(found.sources) > 1 and not (found.steps and found.steps[0].kind == "sql"):
        root["sources"].fail(
            "several sources want an `sql:` step first, which brings them together"
        )
    taken = {one.view for one in found.sources}
    for index, step in enumerate(found.steps):
        if step.name in taken:
            root["steps"].items()[index].fail(f"the name {step.name!r} is taken")
        taken |= {step.name} if step.name else set()
