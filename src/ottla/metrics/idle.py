"""How much of its time the event loop has nothing to do."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

WINDOW_S: Final = 10.0


class IdleShare:
    """Compares the loop's processor time with the clock, since ten to twenty seconds ago if it is
    asked often enough, and else since it was last asked."""

    def __init__(self, now: Callable[[], float], cpu_s: Callable[[], float]) -> None:
        self._now = now
        self._cpu_s = cpu_s
        self._before = self._since = (now(), cpu_s())

    def read(self) -> float:
        """Return the share, from 0 to 1."""
        now_s, cpu_s = self._now(), self._cpu_s()
        since_s, since_cpu_s = self._before
        if now_s - self._since[0] >= WINDOW_S:
            self._before, self._since = self._since, (now_s, cpu_s)
        passed_s = now_s - since_s
        if passed_s <= 0:
            return 1.0
        return min(1.0, max(0.0, 1 - (cpu_s - since_cpu_s) / passed_s))
