"""A queue with lanes: each lane runs one piece after the other, different lanes run together."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

T = TypeVar("T")


class Lanes(Generic[T]):
    """Pieces wait for their turn in their lane. `next` returns the ready ones, in the order in
    which they became ready."""

    def __init__(self) -> None:
        self._ready: deque[tuple[Hashable, T]] = deque()
        self._behind: dict[Hashable, deque[T]] = {}
        # Every lane that has a piece ready or running, with the pieces that wait behind it.
        self.waiting = 0
        """Number of pieces that were added and not yet returned by `next`."""

    def add(self, lane: Hashable, piece: T) -> None:
        self.waiting += 1
        behind = self._behind.get(lane)
        if behind is None:
            self._behind[lane] = deque()
            self._ready.append((lane, piece))
        else:
            behind.append(piece)

    @property
    def has_ready(self) -> bool:
        return bool(self._ready)

    def next(self) -> tuple[Hashable, T]:
        """Return a piece to start; call `done` when it has finished."""
        self.waiting -= 1
        return self._ready.popleft()

    def done(self, lane: Hashable) -> None:
        behind = self._behind[lane]
        if behind:
            self._ready.append((lane, behind.popleft()))
        else:
            del self._behind[lane]

    def drop(self, unwanted: Callable[[T], bool]) -> list[T]:
        """Remove pieces that have not started. Running pieces continue and keep their lane."""
        dropped: list[T] = []
        for lane, behind in self._behind.items():
            dropped += filter(unwanted, behind)
            self._behind[lane] = deque(piece for piece in behind if not unwanted(piece))
        ready, self._ready = self._ready, deque()
        freed = []
        for lane, piece in ready:
            if unwanted(piece):
                dropped.append(piece)
                freed.append(lane)
            else:
                self._ready.append((lane, piece))
        for lane in freed:
            self.done(lane)
        self.waiting -= len(dropped)
        return dropped
