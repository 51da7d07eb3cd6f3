"""Checks that the application still polls (max_poll_interval_ms).

A member whose application hangs keeps its partitions from all others. An application that waits for
records does not hang, even if it waits for hours: it is woken, and given a moment to poll.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from ottla.client.settings.consumer import ConsumerSettings
from ottla.runtime.clock import Clock

GRACE_S = 0.1


class PollWatch:
    def __init__(
        self, settings: ConsumerSettings, clock: Clock, attention: Callable[[], None]
    ) -> None:
        self._settings = settings
        self._clock = clock
        self._attention = attention
        self._polled_at = clock.now()

    def polled(self) -> None:
        self._polled_at = self._clock.now()

    def remaining_s(self) -> float:
        """Return the seconds until the application is overdue."""
        limit_s = self._settings.max_poll_interval_ms / 1000
        return max(self._polled_at + limit_s - self._clock.now(), 0.0)

    async def has_expired(self) -> bool:
        if self.remaining_s() > 0:
            return False
        self._attention()
        await asyncio.sleep(GRACE_S)
        return self.remaining_s() <= 0

    @property
    def advice(self) -> str:
        return (
            f"leaving, because the application did not poll for more than max_poll_interval_ms="
            f"{self._settings.max_poll_interval_ms}. It takes that long with its records: raise "
            "max_poll_interval_ms, or lower max_poll_records. The next poll joins again"
        )
