"""What happened, in order: a running hash to compare two runs by, and the last lines to read."""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import Callable

LINES_KEPT_MAX = 400


class Trace:
    """Every effect on the simulated world is told here, with its virtual time."""

    def __init__(self, now: Callable[[], float], *, tell: Callable[[str], object] | None = None):
        self._now = now
        self._tell = tell
        self._hash = hashlib.blake2b(digest_size=16)
        self.count = 0
        self.lines: deque[str] = deque(maxlen=LINES_KEPT_MAX)

    def add(self, host: str, what: str) -> None:
        line = f"{self._now():.6f} {host} {what}"
        self._hash.update(line.encode())
        self._hash.update(b"\n")
        self.count += 1
        self.lines.append(line)
        if self._tell is not None:
            self._tell(line)

    def digest(self) -> str:
        """Equal for two runs exactly when the same things happened at the same times."""
        return self._hash.hexdigest()
