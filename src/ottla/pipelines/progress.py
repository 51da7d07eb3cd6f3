"""Turns Spark's batch progress into the figures that people ask for. Pure: JSON in, JSON out.

{"queries": [{"name", "id", "batch", "rows_in", "rows_out", "in_per_s", "done_per_s", "batch_ms",
              "phases_ms", "state_rows", "state_bytes", "late_rows", "watermark",
              "offsets": {topic: {partition: offset}}, "lag": records or null}],
 "at": seconds since the epoch}
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

ROWS_IN = "rows_in"
ROWS_OUT = "rows_out"
"""The metrics with which a pipeline counts rows that Spark does not count. Input rows are counted
for each source, as `rows_in.<view>`."""
RECENT_BATCHES = 10
"""Rates and times are means over this many batches with rows: a single one varies too much."""


class QueryFigures:
    """Adds up the batches of one query; each is counted once, however often it is reported."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._counted = -1
        self._rows_in = 0
        self._rows_out: int | None = None
        self._recent: list[Mapping[str, Any]] = []
        self._last: Mapping[str, Any] = {}

    def add(self, batches: Sequence[Mapping[str, Any]]) -> None:
        """Add Spark's progress objects, oldest first; those without rows still have offsets."""
        for batch in batches:
            is_new = batch["batchId"] > self._counted
            rows = rows_in(batch)
            if is_new and (rows or batch.get("sources")):
                self._last = batch
            if is_new and rows:
                self._counted = batch["batchId"]
                self._rows_in += rows
                if (written := rows_out(batch)) is not None:
                    self._rows_out = (self._rows_out or 0) + written
                self._recent = [*self._recent, batch][-RECENT_BATCHES:]

    def as_json(self) -> dict[str, Any]:
        last = self._last
        return {
            "name": self._name,
            "id": last.get("id"),
            "batch": last.get("batchId"),
            "rows_in": self._rows_in,
            "rows_out": self._rows_out,
            "in_per_s": last.get("inputRowsPerSecond") or 0.0,
            "done_per_s": self._done_per_s(),
            "batch_ms": self._mean_ms("triggerExecution"),
            "phases_ms": dict(last.get("durationMs", {})),
            **_state(last),
            "watermark": last.get("eventTime", {}).get("watermark"),
            "offsets": end_offsets(last),
            "lag": reported_lag(last),
        }

    def _done_per_s(self) -> float:
        """Return rows per second of batch time, without the time spent waiting for rows."""
        rows = sum(map(rows_in, self._recent))
        time_ms = sum(_duration(batch, "triggerExecution") for batch in self._recent)
        return 1000 * rows / time_ms if time_ms else 0.0

    def _mean_ms(self, phase: str) -> float | None:
        times = [_duration(batch, phase) for batch in self._recent]
        return sum(times) / len(times) if times else None


def _counted(batch: Mapping[str, Any], name: str) -> int | None:
    metrics = batch.get("observedMetrics") or {}
    rows = [
        one["rows"]
        for key, one in metrics.items()
        if key.partition(".")[0] == name and isinstance(one, Mapping)
    ]
    known = [count for count in rows if isinstance(count, int)]
    return sum(known) if known else None


def rows_in(batch: Mapping[str, Any]) -> int:
    """Return the number of records read, each counted once.

    Spark counts a record as often as its plan reads it: twice if dead letters are separated.
    Offsets count it once, but they also count transaction markers.
    """
    counted = _counted(batch, ROWS_IN)
    if counted is not None:
        return counted
    told: int = batch.get("numInputRows", 0)
    sources = batch.get("sources", [])
    passed = sum(_size(one.get("endOffset")) - _size(one.get("startOffset")) for one in sources)
    return min(told, passed) if passed > 0 else told


def _size(offsets: Any) -> int:
    """Sum the offsets. Before the first batch there are none: records count from 0."""
    return sum(sum(parts.values()) for parts in topic_offsets(offsets).values())


def rows_out(batch: Mapping[str, Any]) -> int | None:
    """Return the rows written; None if neither the sink nor the pipeline counts them."""
    counted = _counted(batch, ROWS_OUT)
    if counted is not None:
        return counted
    told = (batch.get("sink") or {}).get("numOutputRows")
    return told if isinstance(told, int) and told >= 0 else None


def _duration(batch: Mapping[str, Any], phase: str) -> int:
    found: int = batch.get("durationMs", {}).get(phase, 0)
    return found


def _state(batch: Mapping[str, Any]) -> dict[str, int]:
    operators = batch.get("stateOperators", [])
    return {
        "state_rows": sum(one.get("numRowsTotal", 0) for one in operators),
        "state_bytes": sum(one.get("memoryUsedBytes", 0) for one in operators),
        "late_rows": sum(one.get("numRowsDroppedByWatermark", 0) for one in operators),
    }


def end_offsets(batch: Mapping[str, Any]) -> dict[str, dict[str, int]]:
    """Return how far the topics have been processed, for all sources of the query together."""
    found: dict[str, dict[str, int]] = {}
    for source in batch.get("sources", []):
        for topic, partitions in topic_offsets(source.get("endOffset")).items():
            known = found.setdefault(topic, {})
            for index, offset in partitions.items():
                known[index] = min(offset, known.get(index, offset))
    return found


def topic_offsets(value: Any) -> dict[str, dict[str, int]]:
    """Return `{topic: {partition: offset}}`, from JSON or its text; empty if it is something else.
    Names with an `@`, which no topic has, are notes of the source."""
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except ValueError:
            return {}
    if not isinstance(value, Mapping):
        return {}
    return {
        topic: {index: offset for index, offset in partitions.items() if isinstance(offset, int)}
        for topic, partitions in value.items()
        if isinstance(partitions, Mapping) and not topic.startswith("@")
    }


def reported_lag(batch: Mapping[str, Any]) -> int | None:
    """Return the records after the batch that the source knew of; None: not reported."""
    total: int | None = None
    for source in batch.get("sources", []):
        ends = topic_offsets(source.get("endOffset"))
        for topic, partitions in topic_offsets(source.get("latestOffset")).items():
            behind = [
                max(latest - ends.get(topic, {}).get(index, latest), 0)
                for index, latest in partitions.items()
            ]
            total = (total or 0) + sum(behind)
    return total


def summed(queries: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the figures of all queries of a pipeline together."""
    times = [one["batch_ms"] for one in queries if one["batch_ms"] is not None]
    written = [one["rows_out"] for one in queries if one["rows_out"] is not None]
    return {
        "rows_in": sum(one["rows_in"] for one in queries),
        "rows_out": sum(written) if written else None,
        "in_per_s": sum(one["in_per_s"] for one in queries),
        "done_per_s": sum(one["done_per_s"] for one in queries),
        "batch_ms": max(times, default=None),
        "state_rows": sum(one["state_rows"] for one in queries),
        "state_bytes": sum(one["state_bytes"] for one in queries),
        "late_rows": sum(one["late_rows"] for one in queries),
    }


def merged_offsets(queries: Sequence[Mapping[str, Any]]) -> dict[str, dict[str, int]]:
    """Return end offsets by topic and partition; if several queries read it, the lowest."""
    return end_offsets({"sources": [{"endOffset": one["offsets"]} for one in queries]})
