"""The batches of a producer that wait to be sent or answered, as its transactions see them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator

from ottla.client.producer.batching.accumulator import Accumulator
from ottla.client.producer.batching.partition_queue import PartitionQueue
from ottla.client.producer.routing.topic_route import TopicRoute
from ottla.client.producer.sending.lane import Lane
from ottla.client.values import TopicPartition


class ProducerOutbox:
    """The `Outbox` of a keeper of transactions."""

    def __init__(
        self,
        routes: dict[str, TopicRoute],
        lanes: dict[int, Lane],
        accumulator: Accumulator,
        wake: Callable[[], None],
    ) -> None:
        self._routes = routes
        self._lanes = lanes
        self._accumulator = accumulator
        self._waiters: list[asyncio.Future[None]] = []
        self.wake = wake

    async def flush(self) -> None:
        """Send everything, and wait until each record given so far has its outcome."""
        self._accumulator.send_all_now()
        for batch in list(self._accumulator.incomplete):
            await batch.finished()

    def drop_unsent(self, error: Exception) -> bool:
        """Fail records that are in no pending request; True if that leaves a gap in the numbers."""
        dropped = [batch for queue in self._queues() for batch in queue.drop_unsent()]
        for batch in dropped:
            batch.fail(error)
            self._accumulator.forget(batch)
        self.answered()
        return any(batch.is_stamped for batch in dropped)

    async def drained(self) -> None:
        """Wait until no request is pending and no batch waits for a retry."""
        while self._is_busy():
            waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiters.append(waiter)
            await waiter

    def answered(self) -> None:
        """Let those who wait look again: a request was answered, or batches have failed."""
        waiters, self._waiters = self._waiters, []
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)

    def forget_sequences(self, partition: TopicPartition | None = None) -> None:
        for queue in self._queues():
            if partition is None or queue.partition == partition:
                queue.forget_sequences()

    def _is_busy(self) -> bool:
        if any(lane.in_flight for lane in self._lanes.values()):
            return True
        return any(queue.waiting and queue.waiting[0].attempts for queue in self._queues())

    def _queues(self) -> Iterator[PartitionQueue]:
        return (queue for route in self._routes.values() for queue in route.queues)
