"""The keys to look at again, and when: one timer of Spark's for all keys of a bucket that are due
at the same time. Keys are stored in chunks, so that no chunk is ever rewritten."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql.streaming.stateful_processor import MapState, StatefulProcessorHandle

KEY = "due bigint, chunk int"
VALUE = "keys string"


class Agenda:
    def __init__(self, handle: StatefulProcessorHandle) -> None:
        self._handle = handle
        # Chunk 0 holds the number of chunks.
        self._chunks: MapState = handle.getMapState("due", KEY, VALUE)

    def add(self, items: Iterable[tuple[int, str]]) -> None:
        by_due: dict[int, list[str]] = {}
        for due, key in items:
            by_due.setdefault(due, []).append(key)
        for due, keys in by_due.items():
            count = self._count(due)
            if count == 0:
                self._handle.registerTimer(due)
            self._chunks.updateValue((due, count + 1), (json.dumps(keys),))
            self._chunks.updateValue((due, 0), (str(count + 1),))

    def take(self, due: int) -> list[str]:
        """Return the keys that are due then, each once, and remove them."""
        keys: dict[str, None] = {}
        for chunk in range(self._count(due), -1, -1):
            row = self._chunks.getValue((due, chunk)) if chunk else None
            if row is not None:
                keys.update(dict.fromkeys(json.loads(row[0])))
            self._chunks.removeKey((due, chunk))
        return list(keys)

    def _count(self, due: int) -> int:
        row = self._chunks.getValue((due, 0))
        return 0 if row is None else int(row[0])
