"""Finds positions: from committed offsets, log ends and timestamps, and validates with new leaders.

One task runs as long as some partition has no position to fetch from. The application does not wait
for the task, only until its deadline. The requests are batched, one per leader.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import TypeVar

from ottla.client.admin.offsets import offset_question
from ottla.client.consumer.fetching.buffer import FetchBuffer
from ottla.client.consumer.partition_state import LATEST, UNKNOWN, PartitionState, Phase
from ottla.client.consumer.positions.history import EpochEnd, epoch_ends
from ottla.client.consumer.positions.reset_policy import ResetPolicy
from ottla.client.consumer.subscriptions import Subscriptions
from ottla.client.errors import (
    LogTruncation,
    NoOffsetForPartition,
    OffsetOutOfRange,
    PositionTimedOut,
    UnsupportedVersion,
)
from ottla.client.network.backoff import may_pass
from ottla.client.network.cluster import Cluster
from ottla.client.network.leaders import Answers, ask_known_leaders
from ottla.client.settings.consumer import ConsumerSettings
from ottla.client.values import OffsetAndMetadata, OffsetAndTimestamp, TopicPartition
from ottla.protocol.errors import ErrorCode, KafkaError

log = logging.getLogger("ottla.client.consumer")

T = TypeVar("T")
Committed = Callable[
    [list[TopicPartition]], Awaitable[Mapping[TopicPartition, OffsetAndMetadata | None]]
]
"""Returns the group's committed offsets."""
Versions = dict[TopicPartition, tuple[PartitionState, int]]

STALE_LEADERS = {ErrorCode.FENCED_LEADER_EPOCH, ErrorCode.UNKNOWN_LEADER_EPOCH}


class Positions:
    def __init__(
        self,
        cluster: Cluster,
        settings: ConsumerSettings,
        subscriptions: Subscriptions,
        buffer: FetchBuffer,
        *,
        resolved: Callable[[], None],
        raise_later: Callable[[Exception], None],
    ) -> None:
        self._cluster = cluster
        self._subscriptions = subscriptions
        self._buffer = buffer
        self._isolation = settings.isolation_level
        self._policy = ResetPolicy.of(settings.auto_offset_reset)
        self._resolved = resolved
        self._raise_later = raise_later
        self.committed: Committed | None = None
        """None if there is no group, so that nothing is committed."""
        self._task: asyncio.Task[None] | None = None
        self._again = asyncio.Event()
        self._round_over = asyncio.Event()
        self._refusal: Exception | None = None
        """The permanent error of the last round of requests."""

    # Events

    def work(self) -> None:
        """Start the task, or make it look again: partitions may need a position."""
        self._again.set()
        if (self._task is None or self._task.done()) and self._pending():
            self._refusal = None
            self._task = asyncio.create_task(self._work(), name="positions of a consumer")

    def out_of_range(self, state: PartitionState) -> None:
        """Handle a position that the log does not hold, as `auto_offset_reset` says."""
        if self._policy.exists:
            log.info("%s: offset %d is out of range, reset", state.partition, state.position)
            self._subscriptions.reset(state.partition)
            self.work()
        else:
            self._buffer.fail(state, OffsetOutOfRange(state.partition, state.position))

    def must_validate(self, state: PartitionState) -> None:
        state.validate()
        self.work()

    async def known(self, state: PartitionState, timeout_s: float) -> int:
        """Return the position once it is known. Raises `PositionTimedOut`, or the error that
        prevents finding it."""
        if state.has_position:
            return state.position
        self._refusal = None
        self.work()
        try:
            async with asyncio.timeout(timeout_s):
                while not state.has_position:
                    if error := state.failure or self._refusal:
                        raise error
                    self._round_over.clear()
                    await self._round_over.wait()
        except TimeoutError:
            raise PositionTimedOut(state.partition, timeout_s * 1000) from None
        return state.position

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    # The task

    def _pending(self) -> bool:
        return any(map(_needs_work, self._subscriptions.states.values()))

    async def _work(self) -> None:
        pauses = self._cluster.pauses()
        while self._pending():
            self._again.clear()
            self._refusal = None
            before = self._in_phases()
            for error in await asyncio.gather(
                self._look_up_committed(), self._reset(), self._validate(), return_exceptions=True
            ):
                self._failed(error)
            self._resolved()
            self._round_over.set()
            if self._in_phases() != before:
                pauses.reset()
            else:
                await self._pause(pauses.next_s(self._cluster.runtime.random))

    def _failed(self, error: BaseException | None) -> None:
        if error is None:
            return
        log.debug("positions could not be found: %s", error)
        if isinstance(error, Exception) and not may_pass(error):
            self._refuse(error)

    def _refuse(self, error: Exception) -> None:
        self._refusal = error
        self._raise_later(error)

    def _in_phases(self) -> list[tuple[PartitionState, Phase]]:
        states = self._subscriptions.states.values()
        return [(state, state.phase) for state in states if _needs_work(state)]

    async def _pause(self, pause_s: float) -> None:
        """Pause, but not longer than until new partitions need a position."""
        try:
            async with asyncio.timeout(pause_s):
                await self._again.wait()
        except TimeoutError:
            pass

    def _in(self, phase: Phase) -> Versions:
        return {
            one: (state, state.version)
            for one, state in self._subscriptions.states.items()
            if state.phase is phase and state.failure is None
        }

    # NEW

    async def _look_up_committed(self) -> None:
        states = self._in(Phase.NEW)
        if not states:
            return
        found: Mapping[TopicPartition, OffsetAndMetadata | None] = {}
        if self.committed is not None:
            found = await self.committed(list(states))
        for one, (state, version) in states.items():
            if state.version != version:
                continue
            at = found.get(one)
            if at is None:
                state.reset()
            else:
                state.seek(at.offset, at.leader_epoch)

    # RESET

    async def _reset(self) -> None:
        states = self._in(Phase.RESET)
        now_ms = self._cluster.runtime.clock.wall_ms()
        wanted: dict[TopicPartition, int] = {}
        for one, (state, _) in states.items():
            target = state.reset_to if state.reset_to is not None else self._policy.target(now_ms)
            if target is None:
                self._buffer.fail(state, NoOffsetForPartition(one))
            else:
                wanted[one] = target
        found = await self._offsets(wanted)
        # For a timestamp after the last record use the end, where later records will be.
        late = {one: LATEST for one, at in found.items() if at.offset == UNKNOWN}
        found |= await self._offsets(late)
        for one, at in found.items():
            state, version = states[one]
            if state.version == version and at.offset != UNKNOWN:
                state.seek(at.offset)

    async def _offsets(
        self, wanted: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, OffsetAndTimestamp]:
        if not wanted:
            return {}
        ask = offset_question(self._cluster, wanted, self._isolation)
        return self._answered(await ask_known_leaders(self._cluster, wanted, ask))

    def _answered(self, answers: Answers[T]) -> dict[TopicPartition, T]:
        """Return the successful answers. The others are retried; permanent errors are raised."""
        good: dict[TopicPartition, T] = {}
        for one, answer in answers.items():
            if not isinstance(answer, KafkaError):
                good[one] = answer
            elif answer.code.retriable or answer.code in STALE_LEADERS:
                self._cluster.metadata.request_refresh()
            else:
                self._refuse(answer)
        return good

    # VALIDATE

    async def _validate(self) -> None:
        states = self._in(Phase.VALIDATE)
        if not states:
            return
        epochs = {one: state.offset_epoch for one, (state, _) in states.items()}
        try:
            answers = await epoch_ends(self._cluster, epochs)
        except UnsupportedVersion:
            answers = {}
            for state, version in states.values():
                self._finish_validation(state, version, None)
        for one, end in self._answered(answers).items():
            self._finish_validation(*states[one], end)

    def _finish_validation(self, state: PartitionState, version: int, end: EpochEnd | None) -> None:
        if state.version != version:
            return
        if end is None or end.covers(state.position):
            state.validated(UNKNOWN if end is None else end.current_leader_epoch)
        elif not self._policy.exists:
            diverges_at = None if end.is_unknown else end.offset
            failure = LogTruncation(state.partition, state.position, diverges_at)
            self._buffer.fail(state, failure)
        elif end.is_unknown:
            log.warning("%s: the leader does not know offset %d", state.partition, state.position)
            self._subscriptions.reset(state.partition)
        else:
            log.warning(
                "%s was truncated: going on at offset %d instead of %d",
                *(state.partition, end.offset, state.position),
            )
            self._subscriptions.seek(state.partition, end.offset)
            state.offset_epoch = end.epoch


def _needs_work(state: PartitionState) -> bool:
    return state.phase is not Phase.READY and state.failure is None
