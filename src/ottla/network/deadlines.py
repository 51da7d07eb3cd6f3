"""One timer for all requests of a connection: nearly all get a response long before it fires."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from math import inf

from ottla.network.exchange import Waiting
from ottla.runtime.runtime import Runtime, Timer

LATE_S = 0.25
"""If a timer fires this late, this process was stopped, not the broker: responses may be here."""
GRACE_S = 1.0
STEP_S = 0.001
"""The loop's clock resolution: a timer may fire this much too early."""


class Deadlines:
    def __init__(
        self,
        runtime: Runtime,
        waiting: deque[Waiting],
        expired: Callable[[list[Waiting]], None],
    ) -> None:
        self._runtime = runtime
        self._waiting = waiting
        self._expired = expired
        self._timer: Timer | None = None
        self.next_at = inf
        """When the timer fires. A response does not change it."""

    def wake_at(self, moment: float) -> None:
        self.stop()
        self.next_at = moment
        pause_s = max(moment - self._runtime.clock.now(), STEP_S)
        self._timer = self._runtime.call_later(pause_s, self._expire_due)

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _expire_due(self) -> None:
        now = self._runtime.clock.now()
        slept = now - self.next_at > LATE_S
        self._timer, self.next_at = None, inf
        due = [waiting for waiting in self._waiting if waiting.deadline <= now]
        if due and not slept:
            self._expired(due)
            return
        for waiting in due:
            waiting.deadline = now + GRACE_S
        if self._waiting:
            self.wake_at(min(waiting.deadline for waiting in self._waiting))
