"""The events of a run, in order: a running hash to compare two runs, and the last lines to read."""

from __future__ import annotations

import hashlib
from collections.abc import Callable

LINES_KEPT_MAX = 400


class Trace:
    """Collects every effect on the simulated world, with its virtual time."""

    def __init__(self, now: Callable[[], float], *, tell: Callable[[str], object] | None = None):
        self._now = now
        self._tell = tell
        self._hash = hashlib.blake2b(digest_size=16)
        self.count = 0
        self._kept: list[str] = []
        self._fresh: list[str] = []
        """Lines that are not hashed yet: hashing many at once costs little more than one."""

    @property
    def lines(self) -> list[str]:
        """The last lines."""
        return [line[:-1] for line in (self._kept + self._fresh)[-LINES_KEPT_MAX:]]

    def add(self, host: str, what: str) -> None:
        line = f"{self._now():.6f} {host} {what}\n"
        self.count += 1
        self._fresh.append(line)
        if len(self._fresh) >= LINES_KEPT_MAX:
            self._settle()
        if self._tell is not None:
            self._tell(line[:-1])

    def _settle(self) -> None:
        self._hash.update("".join(self._fresh).encode())
        self._kept, self._fresh = self._fresh, []

    def digest(self) -> str:
        """Return a digest: equal for two runs exactly if they had the same events and times."""
        self._settle()
        return self._hash.hexdigest()
