"""Calls the application's rebalance listener, while the application waits for records."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Awaitable, Callable, Iterable
from typing import TYPE_CHECKING

from ottla.client.values import TopicPartition

if TYPE_CHECKING:
    from ottla.client.consumer.groups.metrics import MembershipMetrics

log = logging.getLogger("ottla.client.group")

Told = Awaitable[None] | None


class RebalanceListener:
    """Override what you need; a method may be plain or `async`. Its exceptions are raised by the
    call that waits for records."""

    def on_partitions_revoked(self, partitions: frozenset[TopicPartition]) -> Told:
        """Called while the partitions are still yours: the last moment to commit their offsets."""
        return None

    def on_partitions_assigned(self, partitions: frozenset[TopicPartition]) -> Told:
        """Called when the partitions are yours, before they are read: the moment to seek.
        Partitions that you had and keep are not included."""
        return None

    def on_partitions_lost(self, partitions: frozenset[TopicPartition]) -> Told:
        """Called when partitions were lost without notice: others may own them already, and a
        commit would fail. Calls `on_partitions_revoked` by default."""
        return self.on_partitions_revoked(partitions)


class Announcer:
    """Calls the listener, and keeps its exception until the rebalance is finished."""

    def __init__(
        self, listener: Callable[[], RebalanceListener | None], metrics: MembershipMetrics
    ) -> None:
        self._listener = listener
        self._metrics = metrics
        self._failure: BaseException | None = None

    async def revoked(self, partitions: Iterable[TopicPartition]) -> None:
        await self._call_listener("revoked", "on_partitions_revoked", partitions)

    async def assigned(self, partitions: Iterable[TopicPartition]) -> None:
        await self._call_listener("assigned", "on_partitions_assigned", partitions)

    async def lost(self, partitions: Iterable[TopicPartition]) -> None:
        await self._call_listener("lost", "on_partitions_lost", partitions)

    def raise_failure(self) -> None:
        """Raise the listener's first exception since the last call."""
        failure, self._failure = self._failure, None
        if failure is not None:
            raise failure

    async def _call_listener(
        self, what: str, method: str, partitions: Iterable[TopicPartition]
    ) -> None:
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
