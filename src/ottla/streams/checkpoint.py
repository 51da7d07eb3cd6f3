"""Stores a note beside each checkpoint about the program it was made for. A program that does not
fit is refused with a clear message before Spark fails on its state."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from ottla.streams.errors import TopologyChanged
from ottla.streams.files import read_text, write_text
from ottla.streams.plan.plan import Query, working_node

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from ottla.streams.lowering.build import BuiltQuery

_NOTE = "ottla-streams.json"


def folder_of(checkpoints: str, query: Query) -> str:
    return f"{checkpoints.rstrip('/')}/{query.name}"


def check(spark: SparkSession, checkpoints: str, built: BuiltQuery) -> None:
    """Compare with the note of the previous run, or write one for the next."""
    folder = folder_of(checkpoints, built.query)
    now = note(built)
    before = read_text(spark, f"{folder}/{_NOTE}")
    if before is None:
        write_text(spark, f"{folder}/{_NOTE}", json.dumps(now, indent=2))
    elif changes := differences(json.loads(before), now):
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
    """Return incompatible changes in words. Other topics matter only to a query with state."""
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
