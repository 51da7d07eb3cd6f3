"""Sends columns: rows go into the same batches, in the same order, as single records.

Compiled code does the work per row: it hashes keys, sorts rows by partition and writes them. Python
works per piece, and per batch within it.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any

from ottla.client.errors import IllegalState, RecordTooLarge
from ottla.client.producer.columns.arrow_input import ColumnNames, as_table, is_stream, pieces_of
from ottla.client.producer.columns.arrow_rows import (
    ANY_PARTITION,
    Group,
    column_buffers,
    grouped,
    largest_record,
    partitions_of,
    settled,
)
from ottla.client.producer.columns.sent_rows import SentRows
from ottla.client.producer.routing.topic_route import TopicRoute
from ottla.records.column_buffers import ColumnBuffers
from ottla.records.header import HEADER_SIZE

if TYPE_CHECKING:
    import pyarrow as pa

    from ottla.client.producer.engine import Engine

YIELD_BYTES = 64 << 10
"""How much is written before yielding to the event loop, which sends it."""


class RowIntake:
    """One call of `send_arrow`."""

    def __init__(
        self, engine: Engine, topic: str, names: ColumnNames, partition: int | None
    ) -> None:
        self._engine = engine
        self._settings = engine.settings
        self._runtime = engine.cluster.runtime
        self._accumulator = engine.accumulator
        self._memory = engine.accumulator.memory
        self._topic = topic
        self._names = names
        self._partition = partition
        self._unsent = 0
        self.sent = SentRows()

    async def send(self, data: Any) -> SentRows:
        try:
            async for batch in self._batches(data):
                for piece in pieces_of(batch, self._names):
                    await self._send_piece(piece)
        except Exception as error:
            if self.sent.rows:
                error.add_note(f"{self.sent.rows} rows before it were taken, and are being sent")
            raise
        return self.sent

    async def _batches(self, data: Any) -> AsyncIterator[pa.RecordBatch]:
        if not is_stream(data):
            table = as_table(data)
            self._names = self._names.found_in(table.schema)
            for batch in table.to_batches():
                yield batch
            return
        self._names = self._names.found_in(data.schema)
        # Read in a thread, because the data may come from a disk.
        while (batch := await self._runtime.in_thread(_next_batch, data)) is not None:
            yield batch

    async def _send_piece(self, piece: pa.RecordBatch) -> None:
        route = await self._route()
        now_ms = self._runtime.clock.wall_ms()
        columns = column_buffers(piece, self._names, now_ms)
        largest, row = largest_record(columns)
        self._check_size(largest, row)
        room = max(largest, route.payload_limit) + HEADER_SIZE
        for group in self._groups(piece, columns, route):
            await self._write(route, columns, group, now_ms, min(room, self._memory.limit))

    async def _route(self) -> TopicRoute:
        intake, clock = self._engine.intake, self._runtime.clock
        intake.check_open()
        deadline = clock.now() + self._settings.max_block_ms / 1000
        route = await self._engine.routes.find(self._topic, self._partition, deadline)
        intake.check_open()
        return route

    def _check_size(self, largest: int, row: int) -> None:
        for setting in ("max_request_size", "buffer_memory"):
            limit = getattr(self._settings, setting)
            if largest > limit:
                error = RecordTooLarge(largest, setting, limit)
                error.add_note(f"it is row {self.sent.rows + row} of the data")
                raise error

    def _groups(
        self, piece: pa.RecordBatch, columns: ColumnBuffers, route: TopicRoute
    ) -> list[Group]:
        count = columns.count
        if self._partition is not None:
            return [Group(self._partition, None, 0, count)]
        if not route.by_key:
            columns = columns._replace(key_offsets=None)
        partitions = partitions_of(piece, self._names, columns, route.count)
        if route.sticky is not None:
            partitions = settled(partitions, columns, route.sticky, route.payload_limit)
        groups = grouped(partitions, count)
        if route.sticky is None and (self._names.partition is None or groups[0].partition < 0):
            raise IllegalState(
                "send_arrow cannot ask a partitioner of your own for every row: "
                "name a column of partitions, or leave the partitioner to the defaults"
            )
        return groups

    async def _write(
        self, route: TopicRoute, columns: ColumnBuffers, group: Group, now_ms: int, room: int
    ) -> None:
        start = group.start
        while start < group.stop:
            if room > self._memory.free or self._memory.waiting:
                await self._wait_for_room(room)
            start += self._extend(route, columns, group, start, now_ms)
            if self._unsent >= YIELD_BYTES:
                self._unsent = 0
                await asyncio.sleep(0)
                self._engine.intake.check_open()

    def _extend(
        self, route: TopicRoute, columns: ColumnBuffers, group: Group, start: int, now_ms: int
    ) -> int:
        """Write as many rows as fit into one batch, and return their number."""
        sticky = None
        partition = group.partition
        if partition == ANY_PARTITION:
            partition, sticky = route.chosen(None, None), route.sticky
        free = self._memory.free
        queue = route.queues[partition]
        batch, first, count = self._accumulator.extend(
            route, queue, columns, group.rows, start, group.stop, now_ms
        )
        written = free - self._memory.free
        self._unsent += written
        if count:
            self.sent.add(batch, first, first + count)
        if sticky is not None:
            sticky.produced += written
            if sticky.produced >= route.payload_limit or queue.gathering is not batch:
                sticky.enough(route.payload_limit, batch_is_full=queue.gathering is not batch)
        return count

    async def _wait_for_room(self, room: int) -> None:
        self._accumulator.send_all_now()
        await self._memory.reserve(room, self._settings.max_block_ms)
        # Released and taken within one step of the loop, so that no other caller gets it.
        self._memory.free += room
        self._engine.intake.check_open()


def _next_batch(reader: Any) -> Any:
    try:
        return reader.read_next_batch()
    except StopIteration:
        return None
