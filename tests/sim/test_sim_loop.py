"""The simulated event loop: virtual time, order, threads, hangs."""

import asyncio
import time

import pytest

from ottla.sim import Deadlock, Stalled, World


def test_an_hour_of_virtual_time_passes_at_once() -> None:
    world = World(1, time_limit_s=10_000)

    async def main() -> float:
        await asyncio.sleep(3600)
        return world.loop.time()

    before = time.monotonic()
    assert 3600 <= world.run(main()) < 3600.1
    assert time.monotonic() - before < 5


@pytest.mark.parametrize("seed", range(5))
def test_callbacks_scheduled_soon_keep_their_order(seed: int) -> None:
    world = World(seed)
    ran: list[int] = []

    async def main() -> None:
        for number in range(50):
            world.loop.call_soon(ran.append, number)
        await asyncio.sleep(1)

    world.run(main())
    assert ran == list(range(50))


def test_timers_due_at_one_instant_run_in_an_order_the_seed_decides() -> None:
    def order(seed: int) -> tuple[int, ...]:
        world = World(seed)
        ran: list[int] = []

        async def main() -> None:
            for number in range(6):
                world.loop.call_at(1.0, ran.append, number)
            await asyncio.sleep(2)

        world.run(main())
        return tuple(ran)

    assert len({order(seed) for seed in range(10)}) > 1
    assert order(3) == order(3)


def test_thread_work_acts_within_its_time_and_not_before() -> None:
    world = World(7)

    async def main() -> None:
        runtime = world.boot("a")
        acted: list[float] = []
        pending = runtime.in_thread(lambda: acted.append(world.loop.time()))
        assert not acted
        await pending
        assert 0 < acted[0] < world.loop.time()
        with pytest.raises(ZeroDivisionError):
            await runtime.in_thread(lambda: 1 // 0)

    world.run(main())


def test_waiting_for_what_nobody_will_do_is_reported_with_the_place() -> None:
    world = World(1)

    async def waits_for_ever() -> None:
        await asyncio.Event().wait()

    with pytest.raises(Deadlock, match=r"nothing can happen any more.*waits_for_ever"):
        world.run(waits_for_ever())


def test_a_story_without_end_is_reported() -> None:
    world = World(1, time_limit_s=60)

    async def ticks() -> None:
        for _ in range(1_000_000):
            await asyncio.sleep(1)

    with pytest.raises(Stalled, match="no end in sight"):
        world.run(ticks())


def test_sets_of_tasks_and_futures_iterate_alike_in_every_run() -> None:
    def order() -> list[str]:
        world = World(1)

        async def main() -> list[str]:
            tasks = {asyncio.create_task(asyncio.sleep(1), name=f"t{n}") for n in range(40)}
            done, _ = await asyncio.wait(tasks)
            return [task.get_name() for task in done]

        return world.run(main())

    first = order()
    keep_memory_busy = [object() for _ in range(1000)]
    assert first == order()
    assert keep_memory_busy


def test_the_wall_clock_can_be_wrong_and_jump_while_time_goes_on() -> None:
    world = World(1)

    async def main() -> None:
        one, other = world.boot("one"), world.boot("other")
        world.machine("other").clock.jump(-90_000)
        assert one.clock.wall_ms() - other.clock.wall_ms() == 90_000
        before = one.clock.wall_ms(), one.clock.now()
        await asyncio.sleep(2.5)
        assert 2500 <= one.clock.wall_ms() - before[0] <= 2501
        assert one.clock.now() - before[1] >= 2.5

    world.run(main())
