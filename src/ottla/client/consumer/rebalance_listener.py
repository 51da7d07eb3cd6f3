"""Telling the application which partitions it gets and gives up, while it waits for records."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Awaitable, Callable, Iterable
from typing import TYPE_CHECKING

from ottla.client.values import TopicPartition

if TYPE_CHECKING:
    from ottla.client.consumer.membership_metrics import MembershipMetrics

log = logging.getLogger("ottla.client.group")

Told = Awaitable[None] | None


class RebalanceListener:
    """Override what you need; a method may be plain or `async`. What it raises comes out of the
    call that waited for records."""

    def on_partitions_revoked(self, partitions: frozenset[TopicPartition]) -> Told:
        """They are still yours: the last moment to commit what was read of them."""
        return None

    def on_partitions_assigned(self, partitions: frozenset[TopicPartition]) -> Told:
        """They are yours now: a moment to seek, before anything is read of them. Those that you
        had and keep are not named."""
        return None

    def on_partitions_lost(self, partitions: frozenset[TopicPartition]) -> Told:
        """They were taken without notice, and may be somebody else's already: a commit would
        fail."""
        return self.on_partitions_revoked(partitions)


class Announcer:
    """Calls the listener, and keeps what it raises until the rebalance is brought to its end."""

    def __init__(
        self, listener: Callable[[], RebalanceListener | None], metrics: MembershipMetrics
    ) -> None:
        self._listener = listener
        self._metrics = metrics
        self._failure: BaseException | None = None

    async def revoked(self, partitions: Iterable[TopicPartition]) -> None:
        await self._tell("revoked", "on_partitions_revoked", partitions)

    async def assigned(self, partitions: Iterable[TopicPartition]) -> None:
        await self._tell("assigned", "on_partitions_assigned", partitions)

    async def lost(self, partitions: Iterable[TopicPartition]) -> None:
        await self._tell("lost", "on_partitions_lost", partitions)

    def raise_failure(self) -> None:
        """The first exception of the listener since the last time."""
        failure, self._failure = self._failure, None
        if failure is not None:
            raise failure

    async def _tell(self, what: str, method: str, partitions: Iterable[TopicPartition]) -> None:
        named = frozenset(partitions)
        log.info("partitions %s: %s", what, ", ".join(map(str, sorted(named))) or "none")
        listener = self._listener()
        if listener is None:
            return
        with self._metrics.timed(f"partition-{what}-latency"):
            try:
                told = getattr(listener, method)(named)
                if inspect.isawaitable(told):
                    await told
            except Exception as error:
                log.error("%s raised an exception", method, exc_info=error)
                self._failure = self._failure or error
