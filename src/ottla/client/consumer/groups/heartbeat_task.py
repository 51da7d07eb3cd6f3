"""The background task of a group member, for both group protocols."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod


class HeartbeatTask(ABC):
    def __init__(self, group_id: str) -> None:
        self._group_id = group_id
        self._task: asyncio.Task[None] | None = None
        self.failure: Exception | None = None
        """An error to raise to the application."""

    @abstractmethod
    async def _run(self) -> None: ...

    def start(self) -> None:
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._run(), name=f"heartbeats {self._group_id}")

    def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            self._task = None
