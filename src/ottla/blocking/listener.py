"""Runs the rebalance listeners of blocking consumers in the thread that waits for records."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from ottla.blocking.call import Call
from ottla.client.consumer.groups.rebalance_listener import RebalanceListener, Told
from ottla.client.values import TopicPartition

Partitions = frozenset[TopicPartition]


class CallerListener(RebalanceListener):
    """Stands in for the application's listener, which can then commit and seek."""

    def __init__(
        self, listener: RebalanceListener, waiting: Callable[[], Call[Any] | None]
    ) -> None:
        self._listener = listener
        self._waiting = waiting

    async def on_partitions_revoked(self, partitions: Partitions) -> None:
        await self._call_listener(self._listener.on_partitions_revoked, partitions)

    async def on_partitions_assigned(self, partitions: Partitions) -> None:
        await self._call_listener(self._listener.on_partitions_assigned, partitions)

    async def on_partitions_lost(self, partitions: Partitions) -> None:
        await self._call_listener(self._listener.on_partitions_lost, partitions)

    async def _call_listener(
        self, method: Callable[[Partitions], Told], partitions: Partitions
    ) -> None:
        call = self._waiting()
        if call is None:
            told = method(partitions)
        else:
            told = await call.in_caller(method, partitions)
        if inspect.isawaitable(told):
            await told
