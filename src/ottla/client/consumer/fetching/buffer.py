"""Holds what has been fetched and not yet delivered, by partition.

Partitions take turns: one delivers the batches of a whole response, then it goes behind the others.
A partition that cannot be read keeps its place: its error is raised whenever its turn comes, and
the others go on in between.

How batches are taken out:

    batch = buffer.peek()                    # the next one; None if there is none. Raises errors
    ...                                      # its records from `batch.from_offset` on
    buffer.advance(batch, next_offset)       # all before `next_offset` is delivered

A batch stays in front until `advance` gets an offset after it. `peek` has checked its checksum and
skipped control batches, aborted transactions and batches before the position.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import NamedTuple

from ottla.client.consumer.fetching.part import FetchedPart
from ottla.client.consumer.partition_state import PartitionState
from ottla.client.consumer.subscriptions import Subscriptions
from ottla.client.errors import PartitionUnreadable, UnreadableBatch
from ottla.client.values import TopicPartition
from ottla.records.errors import InvalidBatch
from ottla.records.header import BatchHeader


class FetchedBatch(NamedTuple):
    partition: TopicPartition
    header: BatchHeader
    data: memoryview
    """The whole batch, including its header: see `records.reader.payload_of`."""
    from_offset: int
    """Skip records before this offset."""


class Line:
    """The undelivered parts of one partition, oldest first, or the error that stops it."""

    __slots__ = ("failure", "held_back", "is_waiting", "parts", "size", "state", "version")

    def __init__(self, state: PartitionState) -> None:
        self.state = state
        self.version = state.version
        self.parts: deque[FetchedPart] = deque()
        self.size = 0
        self.failure: PartitionUnreadable | None = None
        self.held_back = False
        """The next fetch would fail: fetch again when these parts are delivered."""
        self.is_waiting = False
        """Whether it is in the queue; a paused partition is not."""

    @property
    def is_stale(self) -> bool:
        return self.version != self.state.version


class FetchBuffer:
    def __init__(
        self,
        subscriptions: Subscriptions,
        *,
        partition_bytes_max: int,
        check_crcs: bool = True,
        room_made: Callable[[], None] = lambda: None,
    ) -> None:
        self._subscriptions = subscriptions
        self._partition_bytes_max = partition_bytes_max
        self._check_crcs = check_crcs
        self._room_made = room_made
        self._lines: dict[PartitionState, Line] = {}
        self._queue: deque[Line] = deque()

    # Filling

    def add(
        self,
        state: PartitionState,
        data: bytes | memoryview,
        aborted: list[tuple[int, int]] | None = None,
    ) -> None:
        """Add fetched records of a partition; its next fetch begins after them."""
        part = FetchedPart(data, aborted, check_crcs=self._check_crcs)
        if part.is_over:
            return
        line = self._line(state)
        line.parts.append(part)
        line.size += part.size
        line.held_back = part.is_damaged
        if part.next_offset is not None:
            state.fetched = max(state.fetched, part.next_offset)
        self._enqueue(line)

    def fail(self, state: PartitionState, failure: PartitionUnreadable) -> None:
        """Stop the partition with an error until the application seeks."""
        state.fail(failure)
        line = self._line(state)
        line.failure = failure
        self._enqueue(line)

    def damaged(self, state: PartitionState, error: InvalidBatch, behind: int | None) -> None:
        """Fail the partition: its next batch is invalid. It ends before `behind`, if known."""
        position = state.position
        seek_to = position + 1 if behind is None or behind <= position else behind
        problem = f"{error.message}; seek to {seek_to} to leave it out"
        self.fail(state, UnreadableBatch(state.partition, position, problem, seek_to))

    def hold_back(self, state: PartitionState) -> bool:
        """Fetch again only after the buffered records are delivered; False if there are none."""
        line = self._lines.get(state)
        if line is None or line.is_stale or not line.parts:
            return False
        line.held_back = True
        return True

    def has_room(self, state: PartitionState) -> bool:
        line = self._lines.get(state)
        if line is None or line.is_stale:
            return True
        return not line.held_back and line.size <= self._partition_bytes_max

    @property
    def size(self) -> int:
        """Bytes that wait to be delivered, without those of paused partitions."""
        return sum(
            line.size
            for line in self._lines.values()
            if not line.is_stale and not line.state.paused
        )

    @property
    def is_ready(self) -> bool:
        """True if a partition is in the queue."""
        return bool(self._queue)

    def _line(self, state: PartitionState) -> Line:
        line = self._lines.get(state)
        if line is None or line.is_stale:
            line = self._lines[state] = Line(state)
        return line

    def _enqueue(self, line: Line) -> None:
        if not line.is_waiting and not line.state.paused:
            line.is_waiting = True
            self._queue.append(line)

    # Emptying

    def peek(self, *, keep_errors: bool = False) -> FetchedBatch | None:
        """Return the next batch. If an error is next, `keep_errors` returns None and leaves it
        in place."""
        while self._queue:
            line = self._queue[0]
            if line.is_stale or line.state.paused:
                self._leave_queue(line)
                continue
            if line.failure is not None:
                if keep_errors:
                    return None
                self._queue.rotate(-1)
                raise line.failure
            batch = self._front(line)
            if batch is not None:
                return batch
        return None

    def advance(self, batch: FetchedBatch, next_offset: int, *, is_done: bool = False) -> None:
        """Deliver the records of `batch` before `next_offset`. With `is_done` they count as
        consumed at once."""
        state = self._subscriptions.states.get(batch.partition)
        line = None if state is None else self._lines.get(state)
        if state is None or line is None or line.is_stale or not line.parts:
            return
        if is_done:
            state.advance(next_offset, batch.header.partition_leader_epoch)
        else:
            self._subscriptions.hand_out(state, next_offset, batch.header.partition_leader_epoch)
        if next_offset >= batch.header.next_offset:
            self._step(line)

    def take_batches(self, bytes_max: int) -> list[FetchedBatch]:
        """Deliver whole batches, from the partitions in turn, at least one if there is one."""
        taken: list[FetchedBatch] = []
        left = bytes_max
        while left > 0 and (batch := self.peek(keep_errors=bool(taken))) is not None:
            taken.append(batch)
            left -= len(batch.data)
            self.advance(batch, batch.header.next_offset)
        return taken

    def resume(self) -> None:
        """Put partitions that are no longer paused back into the queue."""
        for line in self._lines.values():
            if not line.is_stale:
                self._enqueue(line)

    def clear_stale(self) -> None:
        """Free the memory of partitions that are no longer wanted."""
        for state in [state for state, line in self._lines.items() if line.is_stale]:
            del self._lines[state]
        self._queue = deque(line for line in self._queue if not line.is_stale)

    def _front(self, line: Line) -> FetchedBatch | None:
        """Return the next batch of a partition, skipping those the application must not see; None
        when the part is finished and another partition has its turn."""
        state, part = line.state, line.parts[0]
        while line.parts and line.parts[0] is part:
            try:
                found = part.front(state.position)
            except InvalidBatch as error:
                self.damaged(state, error, part.behind_front())
                return None
            if found is not None:
                header, data = found
                return FetchedBatch(state.partition, header, data, state.position)
            self._skip(line, part)
        return None

    def _skip(self, line: Line, part: FetchedPart) -> None:
        behind = part.behind_front()
        if behind is not None and behind > line.state.position:
            # Markers and aborted records count for the epoch, too: with an older epoch it would
            # look as if the leader had lost records that were read.
            line.state.advance(behind, part.front_epoch())
        self._step(line)

    def _step(self, line: Line) -> None:
        """Remove the front batch; at the end of a part, other partitions have their turn."""
        part = line.parts[0]
        before = line.size
        line.size -= part.size
        part.step()
        line.size += part.size
        if part.is_over:
            line.parts.popleft()
            self._leave_queue(line)
            if line.parts:
                self._enqueue(line)
            else:
                del self._lines[line.state]
        if not line.parts or before > self._partition_bytes_max >= line.size:
            self._room_made()

    def _leave_queue(self, line: Line) -> None:
        if line.is_waiting:
            self._queue.remove(line)
            line.is_waiting = False
        if line.is_stale and self._lines.get(line.state) is line:
            del self._lines[line.state]
