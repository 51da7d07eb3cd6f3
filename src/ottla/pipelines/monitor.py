"""Watches the queries of a session, and writes their figures to a file."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any

from ottla.pipelines.folders import VersionFolder
from ottla.pipelines.progress import QueryFigures

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

WRITE_EVERY_S = 1.0


class Monitor:
    """Reads every query that was ever seen active, because one may end between two looks."""

    def __init__(self, spark: SparkSession, folder: VersionFolder) -> None:
        self._spark = spark
        self._folder = folder
        self._seen: dict[str, tuple[StreamingQuery, QueryFigures]] = {}
        self._written: Any = None
        self._written_at = -WRITE_EVERY_S

    def look(self, *, last: bool = False) -> None:
        for query in self._spark.streams.active:
            if query.id not in self._seen:
                self._seen[query.id] = (query, QueryFigures(query.name or query.id))
        if not last and time.monotonic() - self._written_at < WRITE_EVERY_S:
            return
        for query, figures in self._seen.values():
            figures.add([json.loads(one.json) for one in query.recentProgress])
        self._write([figures.as_json() for _, figures in self._seen.values()])

    def _write(self, queries: list[dict[str, Any]]) -> None:
        self._written_at = time.monotonic()
        if queries != self._written:
            self._folder.write_progress({"at": time.time(), "queries": queries})
            self._written = queries
