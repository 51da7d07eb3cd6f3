"""A note beside each checkpoint of what it was made for, so that a program which does not fit it
is refused in words before Spark fails on its state.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from ottla.streams.errors import TopologyChanged
from ottla.streams.plan.plan import Query, working_node

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from ottla.streams.lowering.build import BuiltQuery

_NOTE = "ottla-streams.json"


def folder_of(checkpoints: str, query: Query) -> str:
    return f"{checkpoints.rstrip('/')}/{query.name}"


def check(spark: SparkSession, checkpoints: str, built: BuiltQuery) -> None:
    """Compares with the note of the run before, or leaves one for the next."""
    folder = folder_of(checkpoints, built.query)
    now = note(built)
    before = _read(spark, f"{folder}/{_NOTE}")
    if before is None:
        _write(spark, f"{folder}/{_NOTE}", now)
    elif changes := differences(before, now):
        raise TopologyChanged(built.query.name, folder, changes)


def note(built: BuiltQuery) -> dict[str, Any]:
    query = built.query
    return {
        "query": query.name,
        "inputs": [list(entry.topics) for entry in query.inputs],
        "operation": working_node(query.root).operation.signature() if query.root else None,
        "mode": built.mode,
        "state": [list(field) for field in built.state_schema()],
    }


def differences(before: dict[str, Any], now: dict[str, Any]) -> list[str]:
    """What changed that matters, in words. Other topics are no matter where nothing is kept."""
    changes = []
    if before["operation"] != now["operation"]:
        changes.append(f"it was: {before['operation']}; it is: {now['operation']}")
    if before["mode"] != now["mode"]:
        changes.append(f"results came in mode {before['mode']}, now in mode {now['mode']}")
    if now["operation"] and before["inputs"] != now["inputs"]:
        was, are = _listed(before["inputs"]), _listed(now["inputs"])
        changes.append(f"it read {was}; it reads {are}")
    if before["state"] != now["state"]:
        was, are = _fields(before["state"]), _fields(now["state"])
        changes.append(f"its types were {was}; they are {are}")
    return changes


def _listed(inputs: list[list[str]]) -> str:
    return " and ".join(", ".join(topics) for topics in inputs)


def _fields(fields: list[list[str]]) -> str:
    return ", ".join(f"{name} {kind}" for name, kind in fields) or "none"


def _read(spark: SparkSession, file: str) -> dict[str, Any] | None:
    """Through Spark's own file systems: a checkpoint need not be on this machine."""
    path, system = _at(spark, file)
    if not system.exists(path):
        return None
    stream = system.open(path)
    try:
        text = _java(spark).org.apache.commons.io.IOUtils.toString(stream, "UTF-8")
    finally:
        stream.close()
    found: dict[str, Any] = json.loads(text)
    return found


def _write(spark: SparkSession, file: str, content: dict[str, Any]) -> None:
    path, system = _at(spark, file)
    stream = system.create(path, True)
    try:
        stream.write(bytearray(json.dumps(content, indent=2).encode()))
    finally:
        stream.close()


def _java(spark: SparkSession) -> Any:
    return spark._jvm


def _at(spark: SparkSession, file: str) -> tuple[Any, Any]:
    path = _java(spark).org.apache.hadoop.fs.Path(file)
    return path, path.getFileSystem(spark._jsc.hadoopConfiguration())
