"""Requests that wait for an event: never polled, and bounded by a timer."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from ottla.broker.replication.record_deletion import low_watermark
from ottla.broker.server.pending import Pending
from ottla.protocol.errors import ErrorCode

if TYPE_CHECKING:
    from ottla.broker.replication.partition import Partition
    from ottla.runtime.runtime import Runtime

Reached = Callable[["Partition", int], ErrorCode | None]
"""(partition, offset) -> NONE if it has reached the offset, an error if too few replicas have, or
None if it has not yet."""


class DelayedFetch(Pending):
    """A fetch that waits until enough bytes are visible or its time is up, then reads again.

    A fetch of committed data waits for bytes below the last stable offset: records of open
    transactions do not wake it, the end of a transaction does.
    """

    __slots__ = ("_answer", "_needed_bytes", "_partitions", "_runtime", "_stable_bytes", "_timer")

    def __init__(
        self,
        runtime: Runtime,
        partitions: Iterable[Partition],
        needed_bytes: int,
        wait_ms: int,
        answer: Callable[[], Any],
        *,
        committed: bool = False,
    ) -> None:
        super().__init__()
        self._runtime = runtime
        self._needed_bytes = needed_bytes
        self._answer = answer
        self._partitions = list(partitions)
        self._stable_bytes: dict[Partition, int] | None = None
        if committed:
            self._stable_bytes = {each: each.stable_bytes for each in self._partitions}
        for partition in self._partitions:
            partition.waiters[self] = None
        self._timer = runtime.call_later(wait_ms / 1000, self._finish)

    def advanced(self, partition: Partition, gained_bytes: int) -> None:
        if self._needed_bytes <= 0:
            return
        if self._stable_bytes is not None:
            stable_bytes = partition.stable_bytes
            gained_bytes = stable_bytes - self._stable_bytes[partition]
            if gained_bytes <= 0:
                return
            self._stable_bytes[partition] = stable_bytes
        self._needed_bytes -= gained_bytes
        if self._needed_bytes <= 0:
            # Finish after the produce that brought the data: its own answer leaves first, and
            # whatever else is appended in this turn of the loop is included.
            self._runtime.call_soon(self._finish)

    def disturbed(self, partition: Partition) -> None:
        self._runtime.call_soon(self._finish)

    def abandon(self) -> None:
        super().abandon()
        self._stop_waiting()

    def _stop_waiting(self) -> None:
        self._timer.cancel()
        for partition in self._partitions:
            partition.waiters.pop(self, None)

    def _finish(self) -> None:
        if self.resolved:
            return
        self._stop_waiting()
        try:
            response = self._answer()
        except Exception as error:  # the connection reports it to the client, as for any handler
            response = error
        self.resolve(response)


class DelayedWrite(Pending):
    """A produce or a deletion of records: it waits until each of its partitions has reached an
    offset, in the same leader epoch."""

    __slots__ = ("_answer", "_failed", "_needed", "_reached", "_timer", "holds_connection")

    def __init__(
        self,
        runtime: Runtime,
        needed: dict[Partition, int],
        reached: Reached,
        timeout_ms: int,
        answer: Callable[[dict[Partition, ErrorCode]], Any],
        *,
        holds_connection: bool,
    ) -> None:
        """`answer` builds the response, given the partitions that did not get there, and why."""
        super().__init__()
        self.holds_connection = holds_connection
        self._needed = needed
        self._reached = reached
        self._failed: dict[Partition, ErrorCode] = {}
        self._answer = answer
        for partition in needed:
            partition.waiters[self] = None
        self._timer = runtime.call_later(timeout_ms / 1000, self._finish)

    def advanced(self, partition: Partition, gained_bytes: int) -> None:
        # Answering one waiter may cause the next append, and thereby a nested call of this method.
        needed = self._needed.get(partition)
        if needed is not None:
            outcome = self._reached(partition, needed)
            if outcome is not None:
                self._done(partition, outcome)

    def disturbed(self, partition: Partition) -> None:
        """Fail the partition: the next leader decides about its records."""
        if partition in self._needed:
            self._done(partition, partition.error or ErrorCode.NOT_LEADER_OR_FOLLOWER)

    def abandon(self) -> None:
        super().abandon()
        self._stop_waiting()

    def _stop_waiting(self) -> None:
        self._timer.cancel()
        for partition in self._needed:
            partition.waiters.pop(self, None)

    def _done(self, partition: Partition, outcome: ErrorCode) -> None:
        if outcome is not ErrorCode.NONE:
            self._failed[partition] = outcome
        del self._needed[partition]
        partition.waiters.pop(self, None)
        if not self._needed:
            self._finish()

    def _finish(self) -> None:
        if self.resolved:
            return
        self._stop_waiting()
        for partition in self._needed:
            self._failed[partition] = partition.error or ErrorCode.REQUEST_TIMED_OUT
        try:
            response = self._answer(self._failed)
        except Exception as error:  # the connection reports it to the client, as for any handler
            response = error
        self.resolve(response)


def committed(partition: Partition, offset: int) -> ErrorCode | None:
    """A produce with `acks=all` waits for the high watermark."""
    if partition.high_watermark < offset:
        return None
    if partition.has_too_few_replicas:
        return ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND
    return ErrorCode.NONE


def settled(partition: Partition, offset: int) -> ErrorCode | None:
    """A produce with `acks=1` waits for this broker's flush settings."""
    return ErrorCode.NONE if partition.settled_offset >= offset else None


def deleted(partition: Partition, offset: int) -> ErrorCode | None:
    """A deletion of records waits until every live replica has carried it out."""
    return ErrorCode.NONE if low_watermark(partition) >= offset else None
