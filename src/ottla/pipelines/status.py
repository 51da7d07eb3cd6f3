"""The full status of a pipeline as one JSON object, for `status`, `list` and `--watch`."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from ottla.pipelines.context import BOOTSTRAP
from ottla.pipelines.folders import PipelineFolder, VersionFolder
from ottla.pipelines.lag import find_lag, total
from ottla.pipelines.progress import merged_offsets, summed


def version_status(version: VersionFolder, *, ask_brokers: bool = True) -> dict[str, Any]:
    spec, record, progress = version.spec(), version.record(), version.progress()
    queries = progress.get("queries", [])
    figures = summed(queries)
    if record.state.is_over or time.time() - progress.get("at", 0) > 3 * IDLE_S:
        figures["in_per_s"] = 0.0
    connection = version.outputs().get("connection", {})
    return {
        "name": spec.name,
        "version": spec.version,
        "state": str(record.state),
        "since": record.since,
        "error": record.error,
        "pid": None if record.state.is_over else record.pid,
        "file": spec.file,
        "master": spec.master,
        "outputs": {kind: version.outputs()[kind] for kind in ("topics", "paths")},
        **figures,
        "lag": _lag(connection, queries, ask_brokers),
        "queries": queries,
    }


IDLE_S = 10.0
"""Spark reports nothing about a query without rows for this long."""


def _lag(
    connection: Mapping[str, str], queries: list[dict[str, Any]], ask_brokers: bool
) -> dict[str, Any]:
    offsets = merged_offsets(queries)
    told = [one["lag"] for one in queries if one["lag"] is not None]
    found: dict[str, Any] = {
        "records": sum(told) if told else None,
        "seconds": None,
        "partitions": [],
        "error": None,
    }
    if not (ask_brokers and offsets and BOOTSTRAP in connection):
        return found
    try:
        partitions = find_lag(connection, offsets)
    except Exception as error:  # the rest is worth showing anyway
        return {**found, "error": str(error)}
    return {**total(partitions), "partitions": partitions, "error": None}


def pipeline_status(folder: PipelineFolder, *, ask_brokers: bool = True) -> dict[str, Any]:
    state = folder.state()
    found = version_status(folder.current(), ask_brokers=ask_brokers)
    candidate = folder.candidate()
    found["reprocess"] = None
    if candidate is not None:
        found["reprocess"] = {
            "version": state.candidate,
            "state": str(candidate.record().state),
        }
    return found
