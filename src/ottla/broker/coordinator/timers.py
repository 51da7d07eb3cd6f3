"""The timers of one shard, by key. Moving one to a later time, as heartbeats do, is cheap."""

from __future__ import annotations

import heapq
from collections.abc import Hashable, Mapping
from itertools import count
from typing import Final

_STALE_MAX: Final = 64


class TimerQueue:
    """A heap that may hold outdated entries: `_due` has the true times.

    Moving a timer to a later time leaves its entry in place; when that entry comes up, it is pushed
    again with the true time. So each heartbeat costs only one dict write.
    """

    __slots__ = ("_due", "_heap", "_order")

    def __init__(self) -> None:
        self._due: dict[Hashable, int] = {}
        self._heap: list[tuple[int, int, Hashable]] = []
        self._order = count()

    def __len__(self) -> int:
        return len(self._due)

    def update(self, changes: Mapping[Hashable, int | None]) -> None:
        """Set the timers that have a time, cancel those without."""
        for key, due_ms in changes.items():
            if due_ms is None:
                self._due.pop(key, None)
                continue
            before = self._due.get(key)
            self._due[key] = due_ms
            if before is None or due_ms < before:
                heapq.heappush(self._heap, (due_ms, next(self._order), key))
        if len(self._heap) > 2 * len(self._due) + _STALE_MAX:
            self._rebuild()

    def next_due_ms(self) -> int | None:
        """Return when to check again: never too late, sometimes too early."""
        return self._heap[0][0] if self._heap else None

    def pop_due(self, now_ms: int) -> Hashable | None:
        """Remove and return the next timer that is due; None if there is none."""
        while self._heap and self._heap[0][0] <= now_ms:
            _, _, key = heapq.heappop(self._heap)
            due_ms = self._due.get(key)
            if due_ms is None:
                continue
            if due_ms <= now_ms:
                del self._due[key]
                return key
            heapq.heappush(self._heap, (due_ms, next(self._order), key))
        return None

    def _rebuild(self) -> None:
        self._heap = [(due_ms, next(self._order), key) for key, due_ms in self._due.items()]
        heapq.heapify(self._heap)
