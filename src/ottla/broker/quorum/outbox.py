"""Outgoing messages of the quorum, in order: nothing overtakes the state that it depends on.

A state that the core wants to persist is on disk before any request or answer of the same effects
or of later ones is sent, and before a commit is reported. So all of these go through one queue,
which stops while the file is written.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import NamedTuple

from ottla.broker.quorum import state_file
from ottla.broker.raft.effects import Answer, Effects, Request
from ottla.runtime.runtime import Runtime


class Committed(NamedTuple):
    high_watermark: int


class Outbox:
    def __init__(
        self,
        runtime: Runtime,
        directory: str,
        release: Callable[[Request | Answer | Committed], None],
        failed: Callable[[OSError], None],
        persisted: Callable[[], None],
    ) -> None:
        """`release` sends a message, or reports a commit, when its turn has come; `persisted` is
        called after each write of the file."""
        self.is_persisting = False
        self._runtime = runtime
        self._directory = directory
        self._release = release
        self._failed = failed
        self._persisted = persisted
        self._queue: deque[bytes | Request | Answer | Committed] = deque()
        self._draining = False
        self._closed = False

    def put(self, effects: Effects) -> None:
        if effects.persist is not None:
            self._queue.append(effects.persist)
        self._queue.extend(effects.requests)
        self._queue.extend(effects.answers)
        if effects.high_watermark is not None:
            self._queue.append(Committed(effects.high_watermark))

    def close(self) -> None:
        """Drop what is waiting, and send nothing any more."""
        self._closed = True
        self._queue.clear()

    def drain(self) -> None:
        """Send everything that need not wait for the disk. What it causes is sent after it."""
        if self._draining:
            return
        self._draining = True
        try:
            while self._queue and not self.is_persisting and not self._closed:
                first = self._queue.popleft()
                if isinstance(first, bytes):
                    self.is_persisting = True
                    self._runtime.spawn(self._persist(first), name="quorum-state")
                else:
                    self._release(first)
        finally:
            self._draining = False

    async def _persist(self, content: bytes) -> None:
        disk = self._runtime.disk
        try:
            await self._runtime.in_thread(state_file.write, disk, self._directory, content)
        except OSError as error:
            self._failed(error)
        finally:
            self.is_persisting = False
            self._persisted()
        self.drain()
