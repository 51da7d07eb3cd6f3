"""Requests that wait: woken by their event, ended by their timer, gone with their client."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ottla.broker.server.purgatory import DelayedFetch, DelayedWrite, committed
from ottla.protocol.errors import ErrorCode


class Timer:
    def __init__(self, callback: Callable[[], None]) -> None:
        self.callback: Callable[[], None] | None = callback

    def cancel(self) -> None:
        self.callback = None

    def fire(self) -> None:
        if self.callback is not None:
            self.callback()


class FakeRuntime:
    def __init__(self) -> None:
        self.timers: list[Timer] = []
        self.soon: list[Callable[[], None]] = []

    def call_later(self, delay_s: float, callback: Callable[[], None]) -> Timer:
        self.timers.append(Timer(callback))
        return self.timers[-1]

    def call_soon(self, callback: Callable[[], None]) -> None:
        self.soon.append(callback)

    def turn(self) -> None:
        while self.soon:
            self.soon.pop(0)()


class FakePartition:
    def __init__(self) -> None:
        self.waiters: dict[Any, None] = {}
        self.high_watermark = self.settled_offset = 0
        self.has_too_few_replicas = False
        self.error: ErrorCode | None = None

    def advance(self, high_watermark: int, gained_bytes: int = 0) -> None:
        self.high_watermark = high_watermark
        for waiter in list(self.waiters):
            waiter.advanced(self, gained_bytes)


def fetch(
    runtime: FakeRuntime, partitions: list[FakePartition], needed: int
) -> tuple[DelayedFetch, list[Any]]:
    answered: list[Any] = []
    delayed = DelayedFetch(
        runtime,  # type: ignore[arg-type]
        partitions,  # type: ignore[arg-type]
        needed,
        500,
        lambda: "the answer",
    )
    delayed.when_resolved(answered.append)
    return delayed, answered


def produce(runtime: FakeRuntime, needed: dict[FakePartition, int]) -> DelayedWrite:
    return DelayedWrite(
        runtime,  # type: ignore[arg-type]
        needed,  # type: ignore[arg-type]
        committed,
        30_000,
        lambda missed: dict(missed),
        holds_connection=False,
    )


def test_a_fetch_is_answered_when_enough_bytes_have_come_on_all_its_partitions_together() -> None:
    runtime, one, two = FakeRuntime(), FakePartition(), FakePartition()
    _, answered = fetch(runtime, [one, two], needed=100)
    one.advance(1, 60)
    runtime.turn()
    assert not answered
    two.advance(1, 40)
    runtime.turn()
    assert answered == ["the answer"]
    assert not one.waiters
    assert not two.waiters


def test_a_fetch_is_answered_with_what_there_is_when_its_time_is_up() -> None:
    runtime, partition = FakeRuntime(), FakePartition()
    _, answered = fetch(runtime, [partition], needed=100)
    runtime.timers[0].fire()
    assert answered == ["the answer"]
    assert not partition.waiters


def test_a_fetch_looks_again_when_its_partition_goes_away() -> None:
    runtime, partition = FakeRuntime(), FakePartition()
    delayed, answered = fetch(runtime, [partition], needed=100)
    delayed.disturbed(partition)  # type: ignore[arg-type]
    runtime.turn()
    assert answered == ["the answer"]


def test_an_abandoned_fetch_leaves_nothing_behind_and_answers_nobody() -> None:
    runtime, partition = FakeRuntime(), FakePartition()
    delayed, answered = fetch(runtime, [partition], needed=1)
    partition.advance(1, 10)
    delayed.abandon()
    runtime.turn()
    assert not partition.waiters
    assert runtime.timers[0].callback is None
    assert not answered


def test_a_produce_waits_for_every_partition_and_tells_which_missed_the_time() -> None:
    runtime, one, two = FakeRuntime(), FakePartition(), FakePartition()
    answered: list[Any] = []
    delayed = produce(runtime, {one: 5, two: 3})
    delayed.when_resolved(answered.append)
    one.advance(4)
    one.advance(5)
    one.advance(6)
    assert not answered
    runtime.timers[0].fire()
    assert answered == [{two: ErrorCode.REQUEST_TIMED_OUT}]


def test_a_produce_whose_leader_lost_the_lead_is_told_and_waits_for_the_others() -> None:
    runtime, one, two = FakeRuntime(), FakePartition(), FakePartition()
    answered: list[Any] = []
    delayed = produce(runtime, {one: 5, two: 3})
    delayed.when_resolved(answered.append)
    delayed.disturbed(one)  # type: ignore[arg-type]
    assert not answered
    one.advance(9)
    two.advance(3)
    assert answered == [{one: ErrorCode.NOT_LEADER_OR_FOLLOWER}]


def test_a_produce_committed_by_too_few_replicas_is_told() -> None:
    runtime, one = FakeRuntime(), FakePartition()
    answered: list[Any] = []
    delayed = produce(runtime, {one: 5})
    delayed.when_resolved(answered.append)
    one.has_too_few_replicas = True
    one.advance(5)
    assert answered == [{one: ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND}]


def test_a_produce_is_answered_the_moment_the_last_partition_is_there() -> None:
    runtime, one = FakeRuntime(), FakePartition()
    answered: list[Any] = []
    delayed = produce(runtime, {one: 5})
    delayed.when_resolved(answered.append)
    one.advance(7)
    assert answered == [{}]
    assert not one.waiters
