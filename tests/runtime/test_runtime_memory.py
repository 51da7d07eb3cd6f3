"""Memory of many objects goes back to the system when they are gone."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any

import pytest

from ottla.runtime import burst_memory
from ottla.runtime.burst_memory import BURST, Burst, in_bursts
from ottla.runtime.os_memory import give_back, give_back_now_and_then, own_bytes

pytestmark = pytest.mark.skipif(
    not sys.platform.startswith("linux"), reason="needs /proc and the C library of GNU"
)

SETTLED_BYTES = 6_000_000

COME_AND_GO = """
from contextlib import nullcontext
from ottla.runtime.burst_memory import BURST
from ottla.runtime.os_memory import give_back, own_bytes

before, kept, burst = own_bytes(), [], []
for number in range(400):
    with {around}:
        burst.append([(f"object {{number}} {{other}}", other) for other in range(1000)])
    kept.append((f"stays {{number}}", [float(number)]))
high = own_bytes()
burst.clear()
give_back()
print(high - before, own_bytes() - before)
"""
"""400,000 objects, and others made in between that are still there afterwards."""

CHANGE_HANDS = """
from ottla.runtime.burst_memory import BURST

kept = []
for number in range(200):
    with BURST:
        burst = [{"number": number, str(other): [other] * 3} for other in range(200)]
    kept += burst[::7]
    burst = [str(one) for one in kept]
    with BURST:
        kept = kept[::2]
print(len(kept), "kept")
"""

THREADS_COME_TO_REST = """
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from ottla.runtime.os_memory import bound_kept_memory, give_back, own_bytes

bound_kept_memory()
threads, together = ThreadPoolExecutor(8), Barrier(8)

def work(size):
    together.wait()  # so that each thread does one part
    pieces = [bytes([1]) * size for _ in range(3_000_000 // size)]
    together.wait()
    return len(pieces)

list(threads.map(work, [3_000_000] * 8))
before = own_bytes()
list(threads.map(work, [100_000] * 8))
give_back()
print(own_bytes() - before)
"""
"""Eight threads that have had 3 MB each and wait for more work."""


def run_program(program: str, *options: str) -> str:
    done = subprocess.run(
        [sys.executable, *options, "-c", program], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def growth(around: str) -> tuple[int, int]:
    """By how many bytes a process grows, and by how many it is larger afterwards."""
    high, afterwards = map(int, run_program(COME_AND_GO.format(around=around)).split())
    return high, afterwards


def test_memory_of_a_burst_goes_back_though_others_allocated_in_between() -> None:
    high, afterwards = growth("BURST")
    assert high > 4 * SETTLED_BYTES
    assert afterwards < SETTLED_BYTES


def test_without_a_burst_it_would_stay() -> None:
    """Why there are bursts. If this fails, Python has become better and they can go."""
    _, afterwards = growth("nullcontext()")
    assert afterwards > 2 * SETTLED_BYTES


def test_threads_that_rest_keep_no_memory() -> None:
    assert int(run_program(THREADS_COME_TO_REST)) < SETTLED_BYTES


def test_a_burst_inside_a_burst_and_an_error_in_it_end_well() -> None:
    for _ in range(100):
        with suppress(ValueError), BURST:
            with BURST:
                values = [str(number) for number in range(1000)]
            values += [str(number) for number in range(1000)]
            raise ValueError("an error")
        values = [value + "!" for value in values]
    assert values[-1] == "999!"


def test_a_burst_that_begins_while_one_of_another_thread_ends_is_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    burst, ending, begun, ended = Burst(), *(threading.Event() for _ in range(3))
    now: list[Any] = []

    def set_slowly(allocators: Any) -> None:
        if allocators is burst._usual and not ending.is_set():
            ending.set()
            begun.wait(0.2)
        now[:] = [allocators]

    def first() -> None:
        with burst:
            pass
        ended.set()

    def second() -> Any:
        ending.wait(10)
        with burst:
            begun.set()
            ended.wait(10)
            return now[0]

    monkeypatch.setattr(burst_memory, "_set_allocators", set_slowly)
    with ThreadPoolExecutor(2) as threads:
        other = threads.submit(first)
        assert threads.submit(second).result() is burst._bursting
        other.result()
    assert now[0] is burst._usual


def test_a_coroutine_in_bursts_is_so_in_each_of_its_steps_and_not_while_it_waits() -> None:
    steps: list[str] = []

    async def work() -> str:
        for _ in range(3):
            steps.append(f"step {BURST._depth}")
            await asyncio.sleep(0)
        return "done"

    async def others() -> None:
        for _ in range(3):
            steps.append(f"others {BURST._depth}")
            await asyncio.sleep(0)

    async def story() -> str:
        result, _ = await asyncio.gather(in_bursts(work()), others())
        return result

    assert asyncio.run(story()) == "done"
    assert steps == ["step 1", "others 0"] * 3


def test_a_coroutine_in_bursts_fails_and_is_cancelled_as_any_other() -> None:
    seen: list[str] = []

    async def fail() -> None:
        await asyncio.sleep(0)
        raise ValueError("an error")

    async def wait() -> None:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            seen.append(f"cancelled {BURST._depth}")
            await asyncio.sleep(0)
            seen.append("cleared up")
            raise

    async def story() -> None:
        with pytest.raises(ValueError, match="an error"):
            await in_bursts(fail())
        task = asyncio.ensure_future(in_bursts(wait()))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(story())
    assert seen == ["cancelled 1", "cleared up"]
    assert BURST._depth == 0


@pytest.mark.parametrize("options", [["-X", "tracemalloc"], ["-X", "dev"], []])
def test_bursts_do_no_harm_where_python_counts_or_checks_its_memory(options: list[str]) -> None:
    assert run_program(CHANGE_HANDS, *options) == "29 kept\n"


def test_a_burst_leaves_tracemalloc_at_work_that_was_started_later() -> None:
    program = """
import tracemalloc
from ottla.runtime.burst_memory import BURST
tracemalloc.start()
with BURST:
    pass
kept = [str(number) for number in range(100_000)]
print(tracemalloc.get_traced_memory()[0] > 1_000_000)
"""
    assert run_program(program) == "True\n"


def test_a_program_that_has_grown_gives_back_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ottla.runtime.os_memory.LOOK_S", 0.05)

    async def story() -> None:
        give_back()
        before = own_bytes()
        giving_back = asyncio.ensure_future(give_back_now_and_then())
        await asyncio.sleep(0.1)
        with BURST:
            burst = [str(number) * 10 for number in range(400_000)]
        kept = burst[::4000]
        assert own_bytes() - before > 2 * SETTLED_BYTES
        burst.clear()
        try:
            async with asyncio.timeout(20):
                while own_bytes() - before > SETTLED_BYTES:  # noqa: ASYNC110
                    await asyncio.sleep(0.05)
        finally:
            giving_back.cancel()
        assert len(kept) == 100

    asyncio.run(story())
