"""Gathers records in batches, limited by size, time and memory.

The accumulator holds every batch without an outcome, in the order they were begun, and knows when
the next one has lingered long enough. It sends nothing: ready queues are passed to the sender.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

from ottla.client.producer.batching.batch import ProducerBatch
from ottla.client.producer.batching.memory import BufferMemory
from ottla.client.producer.batching.partition_queue import PartitionQueue
from ottla.client.producer.routing.partitioners import StickyChoice
from ottla.client.producer.routing.topic_route import TopicRoute
from ottla.client.settings.producer import ProducerSettings
from ottla.records.column_buffers import ColumnBuffers
from ottla.records.header import HEADER_SIZE
from ottla.runtime.runtime import Runtime, Timer

AT_ONCE = 0.0


class Accumulator:
    def __init__(
        self,
        settings: ProducerSettings,
        runtime: Runtime,
        ready: Callable[[PartitionQueue], None],
    ) -> None:
        """`ready` is called with each queue that has something to send."""
        self._runtime = runtime
        self._linger_s = settings.linger_ms / 1000
        self._ready = ready
        self.memory = BufferMemory(settings.buffer_memory, runtime.clock)
        self.incomplete: dict[ProducerBatch, PartitionQueue] = {}
        """Every batch without an outcome, oldest first; a split batch stands for its parts."""
        self._lingering: deque[tuple[PartitionQueue, ProducerBatch]] = deque()
        self._linger_timer: Timer | None = None

    # Gathering

    def batch_with_room(
        self, route: TopicRoute, queue: PartitionQueue, size: int, sticky: StickyChoice | None
    ) -> tuple[PartitionQueue, ProducerBatch]:
        """Return the queue and batch for a record of `size` bytes that does not fit into the
        gathering batch of `queue`.

        Closes that batch. With `sticky`, the record may go to another partition.
        """
        if queue.gathering is not None:
            self.close(route, queue)
            if sticky is not None and sticky.moves_rather_than_open(size, route.payload_limit):
                queue = route.queues[sticky.current]
                batch = queue.gathering
                if batch is not None and batch.writer is not None:
                    if batch.writer.size + size <= route.payload_limit:
                        return queue, batch
                    self.close(route, queue)
        return queue, self._open(queue)

    def extend(
        self,
        route: TopicRoute,
        queue: PartitionQueue,
        columns: ColumnBuffers,
        rows: Any,
        start: int,
        stop: int,
        timestamp: int,
    ) -> tuple[ProducerBatch, int, int]:
        """Write as many of rows[start:stop] as fit into one batch, and return the batch, the place
        of the first row and the number of rows. A full batch is closed. The caller has checked that
        there is memory."""
        batch = queue.gathering or self._open(queue)
        assert batch.writer is not None
        writer, limit = batch.writer, route.payload_limit
        first, before = writer.count, writer.size
        try:
            count = writer.extend_rows(columns, rows, start, stop, limit, timestamp)
        except BaseException:
            self.discard_if_empty(queue)
            raise
        batch.memory += writer.size - before
        self.memory.free -= writer.size - before
        if start + count < stop or writer.size >= limit:
            self.close(route, queue)
        return batch, first, count

    def discard_if_empty(self, queue: PartitionQueue) -> None:
        """Drop a new batch whose first record was refused."""
        batch = queue.gathering
        if batch is not None and batch.writer is not None and not batch.writer.count:
            queue.gathering = None
            self.forget(batch)

    def close(self, route: TopicRoute, queue: PartitionQueue) -> None:
        """Close the gathering batch, which is full."""
        queue.close()
        route.batch_closed(queue.partition.partition)
        self._ready(queue)

    def add(self, queue: PartitionQueue, batch: ProducerBatch) -> None:
        """Add a batch that was built elsewhere; its memory is already taken."""
        queue.add(batch)
        self.incomplete[batch] = queue
        self._ready(queue)

    def _open(self, queue: PartitionQueue) -> ProducerBatch:
        now = self._runtime.clock.now()
        # While a caller waits for memory, batches do not linger.
        linger_s = 0.0 if self.memory.waiting else self._linger_s
        batch = queue.open(now, now + linger_s)
        self.incomplete[batch] = queue
        batch.memory = HEADER_SIZE
        self.memory.free -= HEADER_SIZE
        if linger_s <= 0:
            self._ready(queue)
        else:
            self._lingering.append((queue, batch))
            if self._linger_timer is None:
                self._linger_timer = self._runtime.call_later(self._linger_s, self._lingered)
        return batch

    def _lingered(self) -> None:
        """Mark due batches as ready. All batches linger equally long, so due ones are in front."""
        self._linger_timer = None
        now = self._runtime.clock.now()
        while self._lingering:
            queue, batch = self._lingering[0]
            if queue.gathering is batch and batch.due_at > now:
                wait_s = batch.due_at - now
                self._linger_timer = self._runtime.call_later(wait_s, self._lingered)
                return
            self._lingering.popleft()
            if queue.gathering is batch:
                self._ready(queue)

    def send_all_now(self) -> None:
        """End lingering, because a caller waits for the records or for their memory."""
        for batch, queue in list(self.incomplete.items()):
            if queue.gathering is batch:
                batch.due_at = AT_ONCE
                self._ready(queue)

    def waiting_records(self) -> int:
        """Return the number of records without an outcome; approximate in another thread."""
        count = 0
        for batch in list(self.incomplete):
            for leaf in batch.leaves():
                writer = leaf.writer
                if not leaf.done:
                    count += leaf.count if writer is None else writer.count
        return count

    # Outcomes

    def shrink(self, batch: ProducerBatch, memory: int) -> None:
        """Release the memory that a batch saves by compression."""
        if memory < batch.memory:
            self.memory.release(batch.memory - memory)
            batch.memory = memory

    def forget(self, batch: ProducerBatch) -> None:
        """Release the memory of a batch that has its outcome."""
        self.memory.release(batch.memory)
        batch.memory = 0
        while batch.parent is not None and batch.parent.done:
            batch = batch.parent
        self.incomplete.pop(batch, None)

    def stop(self) -> None:
        if self._linger_timer is not None:
            self._linger_timer.cancel()
