"""Replays a log into a shard."""

from __future__ import annotations

from typing import Final

from ottla.broker.coordinator.loading import Event, Unreadable, Written
from ottla.broker.coordinator.shard import Shard
from ottla.logs import get_logger

log = get_logger("ottla.coordinator")

SKIPS_LOGGED_MAX: Final = 10
"""The most skipped records that one load logs; further ones are only counted."""


class Replay:
    """Replays records into a shard. A record that the shard refuses is logged and skipped, so that
    the shard still loads."""

    def __init__(self, shard: Shard, partition: object) -> None:
        self._shard = shard
        self._partition = partition
        self.events = 0
        self.skipped = 0

    def tell(self, event: Event) -> None:
        self.events += 1
        if isinstance(event, Unreadable):
            self.skip(event.offset, event.reason)
            return
        try:
            if isinstance(event, Written):
                self._shard.replay(event.record, event.producer_id)
            else:
                self._shard.transaction_ended(event.producer_id, committed=event.committed)
        except Exception as error:
            self.skip(event.offset, f"{type(error).__name__}: {error}")

    def skip(self, offset: int, reason: str) -> None:
        self.skipped += 1
        if self.skipped <= SKIPS_LOGGED_MAX:
            log.warning(
                "record cannot be read and is skipped",
                partition=str(self._partition),
                offset=offset,
                reason=reason,
            )

    def finish(self) -> None:
        if self.skipped > SKIPS_LOGGED_MAX:
            log.warning("records skipped", partition=str(self._partition), count=self.skipped)
