"""Work in lanes: in each, one piece after the other; different lanes at the same time."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

T = TypeVar("T")


class Lanes(Generic[T]):
    """Pieces wait until it is their turn in their lane; those whose turn it is are `next`, in the
    order in which that came about."""

    def __init__(self) -> None:
        self._ready: deque[tuple[Hashable, T]] = deque()
        self._behind: dict[Hashable, deque[T]] = {}
        # Every lane that has a piece ready or running, and what waits behind it.
        self.waiting = 0
        """Pieces that were added and not given out."""

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
        """A piece to begin with; `done` must be told when it has ended."""
        self.waiting -= 1
        return self._ready.popleft()

    def done(self, lane: Hashable) -> None:
        behind = self._behind[lane]
        if behind:
            self._ready.append((lane, behind.popleft()))
        else:
            del self._behind[lane]

    def drop(self, unwanted: Callable[[T], bool]) -> list[T]:
        """Take out pieces that nobody began with. What runs goes on, and its lane with it."""
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
