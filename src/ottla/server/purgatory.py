"""Where requests wait for the event that satisfies them: never polled, bounded by a timer."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from ottla.protocol.errors import ErrorCode
from ottla.server.pending import Pending

if TYPE_CHECKING:
    from ottla.replication.partition import Partition
    from ottla.runtime.runtime import Runtime


class _Delayed(Pending):
    """Waits at some partitions, and no longer than its timer."""

    __slots__ = ("_partitions", "_timer")

    def __init__(self, runtime: Runtime, partitions: Iterable[Partition], wait_ms: int) -> None:
        super().__init__()
        self._partitions = list(partitions)
        for partition in self._partitions:
            partition.waiters[self] = None
        self._timer = runtime.call_later(wait_ms / 1000, self._finish)

    def _response(self) -> Any:
        raise NotImplementedError

    def advanced(self, partition: Partition, gained_bytes: int) -> None:
        raise NotImplementedError

    def disturbed(self, partition: Partition) -> None:
        raise NotImplementedError

    def _finish(self) -> None:
        if self.resolved:
            return
        self._let_go()
        try:
            response = self._response()
        except Exception as error:  # told to the client by its connection, like any handler's
            response = error
        self.resolve(response)

    def _let_go(self) -> None:
        self._timer.cancel()
        for partition in self._partitions:
            partition.waiters.pop(self, None)

    def abandon(self) -> None:
        super().abandon()
        self._let_go()


class DelayedFetch(_Delayed):
    """A fetch that waits until enough bytes are visible or its time is up, then reads again."""

    __slots__ = ("_answer", "_needed_bytes", "_runtime")

    def __init__(
        self,
        runtime: Runtime,
        partitions: Iterable[Partition],
        needed_bytes: int,
        wait_ms: int,
        answer: Callable[[], Any],
    ) -> None:
        super().__init__(runtime, partitions, wait_ms)
        self._runtime = runtime
        self._needed_bytes = needed_bytes
        self._answer = answer

    def advanced(self, partition: Partition, gained_bytes: int) -> None:
        if self._needed_bytes > 0:
            self._needed_bytes -= gained_bytes
            if self._needed_bytes <= 0:
                # After the produce that brought the data: its own answer leaves first, and what
                # else arrives in this turn of the loop comes along.
                self._runtime.call_soon(self._finish)

    def disturbed(self, partition: Partition) -> None:
        self._runtime.call_soon(self._finish)

    def _response(self) -> Any:
        return self._answer()


class DelayedCommittedFetch(DelayedFetch):
    """One that reads committed data only: what counts is what became stable, so that the records
    of open transactions do not wake it and the end of one does."""

    __slots__ = ("_stable_bytes",)

    def __init__(
        self,
        runtime: Runtime,
        partitions: Iterable[Partition],
        needed_bytes: int,
        wait_ms: int,
        answer: Callable[[], Any],
    ) -> None:
        super().__init__(runtime, partitions, needed_bytes, wait_ms, answer)
        self._stable_bytes = {partition: partition.stable_bytes for partition in self._partitions}

    def advanced(self, partition: Partition, gained_bytes: int) -> None:
        stable_bytes = partition.stable_bytes
        gained_bytes = stable_bytes - self._stable_bytes[partition]
        if gained_bytes > 0:
            self._stable_bytes[partition] = stable_bytes
            super().advanced(partition, gained_bytes)


class _DelayedByLeader(_Delayed):
    """Waits until each of its partitions has reached an offset, in this term of their leader."""

    __slots__ = ("_answer", "_failed", "_needed")

    def __init__(
        self,
        runtime: Runtime,
        needed: dict[Partition, int],
        timeout_ms: int,
        answer: Callable[[dict[Partition, ErrorCode]], Any],
    ) -> None:
        """`answer` makes the response, given those that did not get there, and why."""
        super().__init__(runtime, needed, timeout_ms)
        self._needed = needed
        self._failed: dict[Partition, ErrorCode] = {}
        self._answer = answer

    def disturbed(self, partition: Partition) -> None:
        """What becomes of it is now a matter of the next leader."""
        if partition in self._needed:
            self._failed[partition] = partition.error or ErrorCode.NOT_LEADER_OR_FOLLOWER
            self._done(partition)

    def _done(self, partition: Partition) -> None:
        del self._needed[partition]
        partition.waiters.pop(self, None)
        if not self._needed:
            self._finish()

    def _response(self) -> Any:
        missed = {
            partition: partition.error or ErrorCode.REQUEST_TIMED_OUT for partition in self._needed
        }
        return self._answer(self._failed | missed)


class DelayedProduce(_DelayedByLeader):
    """A produce whose records are appended but not yet as safe as its `acks` asks for."""

    __slots__ = ("_committed",)

    holds_connection = False

    def __init__(
        self,
        runtime: Runtime,
        needed: dict[Partition, int],
        timeout_ms: int,
        answer: Callable[[dict[Partition, ErrorCode]], Any],
        *,
        committed: bool = True,
    ) -> None:
        """`needed`: the high watermark that each partition must reach, or if not `committed`, what
        it must have settled itself."""
        super().__init__(runtime, needed, timeout_ms, answer)
        self._committed = committed

    def advanced(self, partition: Partition, gained_bytes: int) -> None:
        # One waiter that is answered may bring the next append, and with it this call twice.
        needed = self._needed.get(partition)
        if needed is None:
            return
        if not self._committed:
            if partition.settled_offset >= needed:
                self._done(partition)
        elif partition.high_watermark >= needed:
            if partition.has_too_few_replicas:
                self._failed[partition] = ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND
            self._done(partition)


class DelayedDeletion(_DelayedByLeader):
    """A deletion of records that waits until every live replica has carried it out."""

    __slots__ = ()

    def advanced(self, partition: Partition, gained_bytes: int) -> None:
        needed = self._needed.get(partition)
        if needed is not None and partition.low_watermark >= needed:
            self._done(partition)
