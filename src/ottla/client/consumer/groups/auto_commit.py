"""Commits consumed offsets at intervals, and before partitions are given up.

Only records that the application has finished with are committed: a record that it still holds when
the process dies is delivered again.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from ottla.client.consumer.groups.commits import Commits
from ottla.client.consumer.groups.membership import Offsets
from ottla.client.consumer.subscriptions import Subscriptions
from ottla.client.network.backoff import may_pass
from ottla.client.settings.consumer import ConsumerSettings
from ottla.runtime.runtime import Runtime, Timer

log = logging.getLogger("ottla.client.group")


class AutoCommit:
    def __init__(
        self,
        settings: ConsumerSettings,
        subscriptions: Subscriptions,
        commits: Commits,
        runtime: Runtime,
        attention: Callable[[], None],
    ) -> None:
        self.enabled = settings.enable_auto_commit
        self._interval_s = settings.auto_commit_interval_ms / 1000
        self._retry_s = settings.retry_backoff_ms / 1000
        self._subscriptions = subscriptions
        self._commits = commits
        self._runtime = runtime
        self._attention = attention
        self._due = False
        self._timer: Timer | None = None

    def start(self) -> None:
        """Start a new interval."""
        self._begin_interval(self._interval_s)

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._due = False

    def commit_if_due(self) -> None:
        if not self._due:
            if self.enabled and self._timer is None:
                self.start()
            return
        self.start()
        if offsets := self._subscriptions.consumed():
            self._commits.commit_soon(offsets, self._committed)

    def before_giving_up(self) -> asyncio.Future[None] | None:
        """Begin to commit all consumed offsets, and return a future; None if there are none."""
        offsets = self._subscriptions.consumed() if self.enabled else None
        return self._commits.begin_last(offsets) if offsets else None

    def _begin_interval(self, length_s: float) -> None:
        self.stop()
        if self.enabled:
            self._timer = self._runtime.call_later(length_s, self._interval_over)

    def _interval_over(self) -> None:
        self._due = True
        self._attention()

    def _committed(self, offsets: Offsets, error: Exception | None) -> None:
        if error is None:
            return
        if may_pass(error):
            log.debug("auto-commit failed, and is tried again soon: %s", error)
            self._begin_interval(self._retry_s)
        else:
            log.warning("auto-commit of %s failed: %s", dict(offsets), error)
