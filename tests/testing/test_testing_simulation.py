"""Applications in a simulated cluster, as users of `ottla.testing.simulate` see them."""

from __future__ import annotations

import asyncio
import os
import random
import secrets
import socket
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import simulated_shop as shop

import ottla
import ottla.blocking
import ottla.testing
from ottla.testing import (
    Deadlock,
    NotSimulated,
    SimulatedCluster,
    Stalled,
    simulate,
    simulated,
)

pytestmark = pytest.mark.ottla_only
pytest_plugins = ["pytester"]

SEEDS_TO_FIND = 30
"""Within so many the planted bug must show; about one in five shows it."""


@pytest.fixture(autouse=True)
def no_seed_from_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(ottla.testing.SEED_VARIABLE, raising=False)


async def send(cluster: SimulatedCluster, *values: bytes, topic: str = "t") -> None:
    async with ottla.Producer(bootstrap_servers=cluster.bootstrap_servers) as producer:
        for value in values:
            await producer.send(topic, value)


# A whole application


async def right(cluster: SimulatedCluster) -> None:
    await shop.nothing_is_forgotten(cluster, shop.right_worker)


async def wrong(cluster: SimulatedCluster) -> None:
    await shop.nothing_is_forgotten(cluster, shop.wrong_worker)


@pytest.mark.timeout(240)
def test_a_commit_before_the_work_is_found_and_the_right_order_passes_the_same_seeds() -> None:
    for seed in range(1, SEEDS_TO_FIND + 1):
        simulate(right, seed=seed, storms=True)
        if (error := failure(seed)) is not None:
            assert "orders were never shipped" in str(error)
            assert f"OTTLA_SIM_SEED={seed}" in "".join(error.__notes__)
            return
    pytest.fail(f"{SEEDS_TO_FIND} seeds did not show it")


def failure(seed: int) -> AssertionError | None:
    try:
        simulate(wrong, seed=seed, storms=True)
    except AssertionError as error:
        return error
    return None


# Determinism

STORY = """
import asyncio, sys
import simulated_shop as shop
import ottla.testing

async def app(cluster):
    await shop.nothing_is_forgotten(cluster, shop.right_worker)
    return cluster.digest

print(ottla.testing.simulate(app, seed=11, storms=True))
"""


@pytest.mark.timeout(120)
def test_a_seed_replays_in_other_processes_whatever_their_hashes_are() -> None:
    def digest(salt: int) -> str:
        done = subprocess.run(
            [sys.executable, "-c", STORY],
            env={**os.environ, "PYTHONHASHSEED": str(salt)},
            cwd=Path(__file__).parent,
            capture_output=True,
            text=True,
            check=True,
        )
        return done.stdout

    assert digest(1) == digest(2)


def test_a_seed_replays_in_the_same_process_and_another_seed_differs() -> None:
    async def app(cluster: SimulatedCluster) -> tuple[object, ...]:
        await send(cluster, str(random.random()).encode(), uuid.uuid4().bytes)
        drawn = (random.random(), uuid.uuid4(), secrets.token_hex(4), cluster.random.random())
        return (cluster.digest, time.time(), time.monotonic(), *drawn)

    before = random.getstate()
    first = simulate(app, seed=1, nodes=1)
    assert random.getstate() == before
    assert simulate(app, seed=1, nodes=1) == first
    assert not set(simulate(app, seed=2, nodes=1)) & set(first)


# Time


def test_an_hour_passes_at_once_on_all_clocks() -> None:
    async def app(cluster: SimulatedCluster) -> list[float]:
        loop = asyncio.get_running_loop()
        clocks: list[Callable[[], float]] = [loop.time, time.time, time.monotonic]
        clocks += [time.perf_counter, lambda: time.time_ns() / 1e9]
        before = [clock() for clock in clocks]
        await asyncio.sleep(3000)
        return [clock() - then for clock, then in zip(clocks, before, strict=True)]

    began = time.monotonic()
    assert simulate(app, nodes=1) == pytest.approx([3000] * 5, abs=0.01)
    assert time.monotonic() - began < 60


def test_the_clocks_of_other_threads_go_on_as_they_are() -> None:
    seen: list[float] = []
    ended = threading.Event()

    def look() -> None:
        while not ended.wait(0.001):
            seen.append(time.time())

    async def app(_: SimulatedCluster) -> None:
        await asyncio.sleep(60)

    thread = threading.Thread(target=look)
    began = time.time()
    thread.start()
    simulate(app, nodes=1)
    ended.set()
    thread.join()
    assert seen
    assert all(began <= one <= time.time() for one in seen)


def test_asyncio_works_as_ever() -> None:
    async def app(_: SimulatedCluster) -> list[object]:
        queue: asyncio.Queue[int] = asyncio.Queue()
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(5):
                await queue.get()
        async with asyncio.TaskGroup() as group:
            got = group.create_task(queue.get())
            group.create_task(queue.put(7))
        return [got.result(), *await asyncio.gather(asyncio.sleep(1, "a"), asyncio.sleep(2, "b"))]

    assert simulate(app, nodes=1) == [7, "a", "b"]


# Ends without an end


def test_waiting_for_nothing_is_told_with_its_place_and_seed() -> None:
    async def waits_for_ever() -> None:
        await asyncio.Event().wait()

    async def app(cluster: SimulatedCluster) -> None:
        await waits_for_ever()

    place = r"test_testing_simulation.py:\d+ in \S*waits_for_ever"
    with pytest.raises(Deadlock, match=rf"waits for what cannot happen any more; .*app at {place}"):
        simulate(app, nodes=1, seed=3)
    with pytest.raises(Deadlock, match=place):
        simulated(runs=1)(app)()
    with pytest.raises(Deadlock) as raised:
        simulate(app, nodes=1, seed=3)
    assert raised.value.__notes__ == ["simulated with seed 3; the same again: OTTLA_SIM_SEED=3"]


def test_virtual_and_real_time_have_limits() -> None:
    async def app(_: SimulatedCluster) -> None:
        while True:  # noqa: ASYNC110
            await asyncio.sleep(1)

    async def spin(_: SimulatedCluster) -> None:
        while True:  # noqa: ASYNC110
            await asyncio.sleep(0)

    with pytest.raises(Stalled, match=r"not done after 3. simulated seconds; waiting: app"):
        simulate(app, nodes=1, limit_s=30)
    with pytest.raises(Stalled, match="real seconds"):
        simulate(app, nodes=1, real_limit_s=0.5, limit_s=1e9)
    with pytest.raises(Stalled, match="real seconds"):
        simulate(spin, nodes=1, real_limit_s=0.5, limit_s=1e9)


# What is not simulated


async def in_executor() -> None:
    await asyncio.get_running_loop().run_in_executor(None, print)


async def in_thread() -> None:
    await asyncio.to_thread(print)


async def a_thread() -> None:
    threading.Thread(target=print).start()


async def asyncio_connection() -> None:
    await asyncio.open_connection("127.0.0.1", 9092)


async def real_socket() -> None:
    socket.create_connection(("127.0.0.1", 9092))


async def real_server() -> None:
    await asyncio.start_server(lambda *_: None, "127.0.0.1", 0)


async def real_sleep() -> None:
    time.sleep(1)  # noqa: ASYNC251


async def child() -> None:
    await asyncio.create_subprocess_exec("true")


async def blocking_client() -> None:
    with ottla.blocking.Producer(bootstrap_servers="127.0.0.1:9092"):
        pass


@pytest.mark.parametrize(
    "escape",
    [
        *(in_executor, in_thread, a_thread, asyncio_connection, real_socket, real_server),
        *(real_sleep, child, blocking_client),
    ],
)
def test_a_way_out_of_the_simulation_is_refused(escape: Callable[[], Any]) -> None:
    async def app(_: SimulatedCluster) -> None:
        await escape()

    with pytest.raises(NotSimulated, match="is not simulated"):
        simulate(app, nodes=1)


# pytest


def test_a_seed_that_is_no_number_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(ottla.testing.SEED_VARIABLE, "forty-two")
    with pytest.raises(ValueError, match="OTTLA_SIM_SEED is the number of a seed"):
        simulate(right)


def test_a_simulated_test_runs_with_fresh_seeds_and_says_how_to_replay_one(
    pytester: pytest.Pytester,
) -> None:
    pytester.makepyfile(
        """
        import ottla.testing

        seeds = []

        @ottla.testing.simulated(runs=3, nodes=1)
        async def test_good(cluster, tmp_path):
            assert tmp_path.is_dir()
            seeds.append(cluster.seed)

        def test_seeds():
            print("seeds:", len(set(seeds)))

        class TestBad:
            @ottla.testing.simulated(runs=9, nodes=1, seed=40)
            async def test_bad(self, cluster):
                assert cluster.seed != 42
        """
    )
    plugin = ("-p", "ottla.testing.plugin", "-s")
    told = pytester.runpytest_subprocess(*plugin, timeout=120)
    told.assert_outcomes(passed=2, failed=1)
    told.stdout.fnmatch_lines(
        ["*seeds: 3*", "*simulated with seed 42*", "*run 3 of 9; replay it: *"]
    )
    told.stdout.fnmatch_lines(["*OTTLA_SIM_SEED=42 pytest *::TestBad::test_bad'*"])
    end = ["FAILED *", "replay it with: OTTLA_SIM_SEED=42 *'", "=*1 failed, 2 passed*"]
    told.stdout.fnmatch_lines(end)
    again = pytester.runpytest_subprocess(*plugin, "--ottla-seed", "41", timeout=120)
    again.assert_outcomes(passed=3)
    again.stdout.fnmatch_lines(["*seeds: 1*"])
