"""Exactly once in every order of events: the sink's steps against a model of brokers and Spark.

Without Spark and without a broker: here two drivers, their tasks and their crashes are interleaved
in more ways than real ones ever could be.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sink_model import Brokers, Scheduler, World

BATCHES, TASKS = 2, 2
STEPS_MAX = 2_000


async def run_to_the_end(world: World) -> None:
    """Whoever waits goes on, in turn."""
    await world.scheduler.settle()
    for _ in range(STEPS_MAX):
        if not world.scheduler.waiting:
            return
        await world.scheduler.go()
    raise AssertionError("it does not end")


async def finish(world: World) -> None:
    """All live on to their end, and new runs do what is left."""
    await run_to_the_end(world)
    for _ in range(6):
        if len(world.done) == world.batches:
            break
        world.start()
        await run_to_the_end(world)
    check(world)


def check(world: World) -> None:
    expected = {(batch, task) for batch in range(world.batches) for task in range(world.tasks)}
    assert world.done == set(range(world.batches)), world.errors
    assert world.brokers.harm == []
    assert dict(world.brokers.rows) == dict.fromkeys(expected, 1), world.errors


async def nothing_is_open(world: World) -> None:
    """Who was killed may have left something that the next two batches put away."""
    world.batches += 2
    world.start()
    await run_to_the_end(world)
    check(world)
    assert world.brokers.open_ones() == []


# One driver, and its successor


async def crash_at(step: int, protocol: int, *, with_workers: bool, wakes: bool) -> bool:
    """False if there is no such step."""
    world = World(BATCHES, TASKS, Brokers(protocol))
    world.start(speculative=True)
    await world.scheduler.settle()
    for _ in range(step):
        if not world.scheduler.waiting:
            await world.stop()
            return False
        await world.scheduler.go()
    if not wakes:
        world.kill(0, with_workers=with_workers)
    asleep = world.scheduler.sleep()
    world.start()
    await run_to_the_end(world)
    world.scheduler.waiting = [one for one in asleep if not one[2].done()]
    await finish(world)
    if not with_workers:  # who lives on puts away what is his
        assert world.brokers.open_ones() == []
    await nothing_is_open(world)
    return True


@pytest.mark.parametrize("protocol", [1, 2])
@pytest.mark.parametrize("kind", ["killed", "killed, tasks live on", "asleep, then awake"])
def test_a_driver_may_crash_at_any_point(protocol: int, kind: str) -> None:
    async def all_points() -> int:
        step = 0
        with_workers, wakes = kind == "killed", kind == "asleep, then awake"
        while await crash_at(step, protocol, with_workers=with_workers, wakes=wakes):
            step += 1
        return step

    assert asyncio.run(all_points()) > 60


# Two drivers on one checkpoint


async def change_places(
    turns: Sequence[int], protocol: int, batches: int = 1, *, fails: bool = False
) -> int:
    """Two drivers go on in turns, for so many steps each; then each to its end. How many of the
    turns there were. The first one may be about to fail, and aborts."""
    world = World(batches, 1, Brokers(protocol), scheduler=Scheduler(answers=False))
    world.start(fails=fails)
    world.start()
    for number, steps in enumerate(turns):
        await world.scheduler.settle()
        for _ in range(steps):
            own = [one[0].startswith(f"{number % 2:08x}") for one in world.scheduler.waiting]
            if not any(own):
                await world.stop()
                return number
            await world.scheduler.go(own.index(True))
    await finish(world)
    assert world.brokers.open_ones() == []
    return len(turns)


@pytest.mark.parametrize(("protocol", "fails"), [(1, False), (2, False), (2, True)])
def test_two_drivers_may_change_places_at_any_three_points(protocol: int, fails: bool) -> None:
    async def all_triples() -> int:
        cases, turns = 0, [0, 0, 0]
        while True:
            done = await change_places(turns, protocol, fails=fails)
            cases += done == len(turns)
            if done == 0:
                return cases
            # The next triple: one more of the last turn, or, where that has no more, of the one
            # before, and all after it from the beginning.
            last = min(done, len(turns) - 1) if done == len(turns) else done - 1
            turns = [*turns[:last], turns[last] + 1, *[0] * (len(turns) - last - 1)]

    assert asyncio.run(all_triples()) > 500


def test_a_driver_may_sleep_through_two_batches_of_another() -> None:
    """And wake when transactions of the third are open, or decided: they look like its own."""

    async def main() -> None:
        for turns in product(range(8, 12), range(24, 40), (1, 2, 3, 5)):
            await change_places(turns, 2, batches=3)

    asyncio.run(main())


@settings(max_examples=100, deadline=None)
@given(turns=st.lists(st.integers(1, 30), min_size=3, max_size=8), protocol=st.sampled_from([1, 2]))
def test_two_drivers_may_change_places_often(turns: list[int], protocol: int) -> None:
    asyncio.run(change_places(turns, protocol, batches=3))


# Any order at all

EVENT = st.tuples(
    st.sampled_from(["go on", "go on", "go on", "no answer", "killed", "another driver"]),
    st.integers(0, 9),
    st.integers(1, 40),
)
"""What happens, to whom, and how many steps he goes."""
RUNS_MAX = 4
Story = list[tuple[str, int, int]]


async def tell(story: Story, protocol: int, *, speculative: bool) -> None:
    """Who goes on does so for a while, and others sleep: this finds more than changing at once."""
    world = World(3, TASKS, Brokers(protocol))
    world.start(speculative=speculative)
    await world.scheduler.settle()
    for event, who, steps in story:
        if event == "another driver" and len(world.drivers) < RUNS_MAX:
            world.start(speculative=speculative)
        elif event == "killed":
            world.kill(who % len(world.drivers), with_workers=who % 2 == 0)
        await world.scheduler.settle()
        await go_on(world, who, steps)
        if event == "no answer" and world.scheduler.waiting:
            await world.scheduler.go(who % len(world.scheduler.waiting), answered=False)
    await finish(world)
    await nothing_is_open(world)


async def go_on(world: World, who: int, steps: int) -> None:
    """One driver, or one of its tasks."""
    for _ in range(steps):
        actors = sorted({actor for actor, _, _ in world.scheduler.waiting})
        if not actors:
            return
        actor = actors[who % len(actors)]
        await world.scheduler.go([one[0] for one in world.scheduler.waiting].index(actor))


@settings(max_examples=100, deadline=None)
@given(
    story=st.lists(EVENT, max_size=20), protocol=st.sampled_from([1, 2]), speculative=st.booleans()
)
def test_any_order_of_events_commits_each_batch_once(
    story: Story, protocol: int, speculative: bool
) -> None:
    asyncio.run(tell(story, protocol, speculative=speculative))


# Transactions that time out


async def time_out_at(step: int, victims: int) -> bool:
    """After a crash brokers abort what was open; the batch is written anew."""
    world = World(1, 2, Brokers(2), policy="rewrite")
    world.start()
    await world.scheduler.settle()
    for _ in range(step):
        if not world.scheduler.waiting:
            await world.stop()
            return False
        await world.scheduler.go()
    world.kill(0, with_workers=True)
    for one in world.brokers.open_ones()[:victims]:
        world.brokers.time_out(one.transactional_id)
    world.scheduler.waiting = []
    await finish(world)
    await nothing_is_open(world)
    return True


@pytest.mark.parametrize("victims", [1, 2])
def test_what_timed_out_after_a_crash_is_written_again(victims: int) -> None:
    async def all_points() -> int:
        step = 0
        while await time_out_at(step, victims):
            step += 1
        return step

    assert asyncio.run(all_points()) > 20


def test_a_decision_that_was_lost_in_part_is_told_and_not_guessed() -> None:
    async def main() -> None:
        world = World(1, 2, Brokers(2))
        world.start()
        await world.scheduler.settle()
        while world.scheduler.waiting[0][1] != "after commit":
            await world.scheduler.go()
        world.kill(0, with_workers=True)
        for one in world.brokers.open_ones():
            world.brokers.time_out(one.transactional_id)
        world.scheduler.waiting = []
        world.start()
        await run_to_the_end(world)
        assert "1 aborted, 1 committed" in str(world.errors[0])
        assert "lostTransactions" in str(world.errors[0])
        assert world.brokers.rows == {(0, 0): 1}
        assert world.brokers.open_ones() == []

    asyncio.run(main())
