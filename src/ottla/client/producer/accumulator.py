"""Records become batches here: by size, by time, within the memory there is.

The accumulator knows every batch that has no outcome yet, in the order they were begun, and when
the next one has lingered long enough. It sends nothing: what is ready is handed to the sender.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

from ottla.client.producer.batch import ProducerBatch
from ottla.client.producer.memory import BufferMemory
from ottla.client.producer.partition_queue import PartitionQueue
from ottla.client.producer.partitioners import StickyChoice
from ottla.client.producer.topic_route import TopicRoute
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
        """Every batch without an outcome, oldest first; one that was split stands for its parts."""
        self._lingering: deque[tuple[PartitionQueue, ProducerBatch]] = deque()
        self._linger_timer: Timer | None = None

    # Gathering

    def batch_with_room(
        self, route: TopicRoute, queue: PartitionQueue, size: int, sticky: StickyChoice | None
    ) -> tuple[PartitionQueue, ProducerBatch]:
        """Where a record of `size` bytes goes that the gathering batch of `queue` has no room for.

        Closes that batch. With `sticky` the record may go to another partition as well.
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
        """As many of rows[start:stop] as one batch takes: the batch, the place of the first, how
        many. A full batch is closed. The caller has looked whether there is memory."""
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
        """The record that a batch was opened for was refused."""
        batch = queue.gathering
        if batch is not None and batch.writer is not None and not batch.writer.count:
            queue.gathering = None
            self.forget(batch)

    def close(self, route: TopicRoute, queue: PartitionQueue) -> None:
        """The gathering batch is full."""
        queue.close()
        route.batch_closed(queue.partition.partition)
        self._ready(queue)

    def add(self, queue: PartitionQueue, batch: ProducerBatch) -> None:
        """A batch that was built elsewhere; its memory is taken already."""
        queue.add(batch)
        self.incomplete[batch] = queue
        self._ready(queue)

    def _open(self, queue: PartitionQueue) -> ProducerBatch:
        now = self._runtime.clock.now()
        # While somebody waits for memory, nothing lingers.
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
        """All batches linger equally long, so those that are due stand in front."""
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
        """Nothing lingers: somebody waits for it, or for its memory."""
        for batch, queue in list(self.incomplete.items()):
            if queue.gathering is batch:
                batch.due_at = AT_ONCE
                self._ready(queue)

    def waiting_records(self) -> int:
        """How many have no outcome yet. Another thread may ask, and be told nearly the truth."""
        count = 0
        for batch in list(self.incomplete):
            for leaf in batch.leaves():
                writer = leaf.writer
                if not leaf.done:
                    count += leaf.count if writer is None else writer.count
        return count

    # The end of a batch

    def shrink(self, batch: ProducerBatch, memory: int) -> None:
        """The batch takes less now that it is compressed."""
        if memory < batch.memory:
            self.memory.release(batch.memory - memory)
            batch.memory = memory

    def forget(self, batch: ProducerBatch) -> None:
        """The batch has its outcome."""
        self.memory.release(batch.memory)
        batch.memory = 0
        while batch.parent is not None and batch.parent.done:
            batch = batch.parent
        self.incomplete.pop(batch, None)

    def stop(self) -> None:
        if self._linger_timer is not None:
            self._linger_timer.cancel()
