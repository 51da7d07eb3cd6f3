"""Logs of connections that failed or were refused, at a bounded rate."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, Final

from ottla.logs import get_logger, shortened

if TYPE_CHECKING:
    from ottla.runtime.runtime import Runtime

log = get_logger("ottla.network")

FAILURES_LOGGED_PER_S_MAX: Final = 10


class FailureLog:
    """Logs failures, at most so many per second: a flood must not fill the disk."""

    def __init__(self, runtime: Runtime, event: str, level: int = logging.INFO) -> None:
        self._runtime = runtime
        self._event = event
        self._write = log.warning if level == logging.WARNING else log.info
        self._second = 0
        self._logged = 0
        self._omitted = 0

    def add(self, reason: str, **fields: Any) -> None:
        second = int(self._runtime.clock.now())
        if second != self._second:
            self._second, self._logged = second, 0
        if self._logged >= FAILURES_LOGGED_PER_S_MAX:
            self._omitted += 1
            return
        self._logged += 1
        omitted, self._omitted = self._omitted, 0
        more = {"not_logged_before": omitted} if omitted else {}
        self._write(self._event, **fields, reason=shortened(reason), **more)
