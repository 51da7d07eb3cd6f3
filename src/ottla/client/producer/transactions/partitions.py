"""The partitions of the open transaction.

With protocol 2 a partition takes part as soon as a batch reaches it. With protocol 1 the producer
must tell the coordinator first: the sender asks for a partition and is refused, a background task
adds all requested partitions in one request, and then the sender is woken.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from ottla.client.values import TopicPartition


class TransactionPartitions:
    def __init__(
        self,
        add: Callable[[frozenset[TopicPartition]], Awaitable[None]],
        wake: Callable[[], None],
    ) -> None:
        """`add` tells the coordinator. It raises only `NotAdded`, after it has handled the failure.
        `wake` is called after each response."""
        self._add = add
        self._wake = wake
        self.joined: set[TopicPartition] = set()
        self._wanted: set[TopicPartition] = set()
        self._adding: asyncio.Task[None] | None = None

    def join(self, partition: TopicPartition) -> None:
        """Add a partition without telling the coordinator."""
        self.joined.add(partition)

    def want(self, partition: TopicPartition) -> None:
        """Request that the partition is added soon."""
        self._wanted.add(partition)
        if self._adding is None or self._adding.done():
            self._adding = asyncio.create_task(self._add_wanted(), name="add to transaction")

    async def _add_wanted(self) -> None:
        try:
            while self._wanted:
                asked = frozenset(self._wanted)
                await self._add(asked)
                self.joined |= asked
                self._wanted -= asked
                self._wake()
        except NotAdded:
            self._wanted.clear()
            self._wake()

    async def settled(self) -> None:
        """Request no more partitions, and wait for the pending request: if it came late, it would
        add its partitions to the next transaction."""
        self._wanted.clear()
        if self._adding is not None:
            await asyncio.shield(self._adding)

    def begin_anew(self) -> None:
        self.joined.clear()
        self._wanted.clear()

    def close(self) -> None:
        if self._adding is not None:
            self._adding.cancel()


class NotAdded(Exception):
    """The coordinator refused, or did not answer in time."""
