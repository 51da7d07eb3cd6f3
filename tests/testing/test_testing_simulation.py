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

import ottla
import ottla.blocking
import ottla.testing
from ottla.testing import Deadlock, NotSimulated, SimulatedCluster, Stalled, Violation, simulate
from ottla.testing.looking import NotReady
from ottla.testing.nodes import NodeDown

sys.path.insert(0, str(Path(__file__).parent))
import shop

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


async def read(cluster: SimulatedCluster, count: int, topic: str = "t") -> list[bytes]:
    found: list[bytes] = []
    async with ottla.Consumer(
        topic,
        bootstrap_servers=cluster.bootstrap_servers,
        group_id=f"readers-{cluster.random.random()}",
        auto_offset_reset="earliest",
    ) as consumer:
        async with asyncio.timeout(300):
            async for record in consumer:
                found.append(record.value)
                if len(found) == count:
                    return sorted(found)
    return found


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
import shop
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
    async def app(_: SimulatedCluster) -> None:
        await asyncio.Event().wait()

    with pytest.raises(Deadlock, match=r"waits for what cannot happen any more; .*app at .*app:"):
        simulate(app, nodes=1, seed=3)
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


# Verbs that a real cluster in a test has too


@pytest.mark.parametrize("verb", ["kill", "stop"])
def test_a_lost_leader_is_replaced_and_comes_back_in_sync(verb: str) -> None:
    async def app(cluster: SimulatedCluster) -> list[bytes]:
        await send(cluster, b"a")
        leader = cluster.leader_of("t")
        assert leader is not None
        await getattr(cluster, verb)(leader)
        assert cluster.nodes[leader].state == "stopped"
        await send(cluster, b"b")
        assert cluster.leader_of("t") not in (leader, None)
        await cluster.start(leader)
        await cluster.wait_in_sync()
        return await read(cluster, 2)

    assert simulate(app) == [b"a", b"b"]


def test_a_paused_controller_is_replaced_and_goes_on() -> None:
    async def app(cluster: SimulatedCluster) -> None:
        paused = cluster.controller
        assert paused is not None
        cluster.pause(paused)
        assert cluster.nodes[paused].state == "paused"
        await asyncio.sleep(15)
        assert cluster.controller not in (paused, None)
        cluster.resume(paused)
        await cluster.restart(paused)
        await cluster.wait_ready()
        assert {node.state for node in cluster.nodes.values()} == {"running"}

    simulate(app)


def test_a_broker_can_be_added_and_settings_reach_the_nodes() -> None:
    async def app(cluster: SimulatedCluster) -> tuple[int, int]:
        added = await cluster.add_node({"broker.rack": "east"})
        await cluster.wait_ready()
        async with ottla.Admin(bootstrap_servers=cluster.bootstrap_servers) as admin:
            await admin.create_topic("t")
            brokers = (await admin.describe_cluster()).brokers
            assert brokers[1].rack == "west"
            assert brokers[4].rack == "east"
            return added, len((await admin.describe_topic("t")).partitions)

    settings = {"num.partitions": 7}
    made = simulate(app, settings=settings, node_settings={1: {"broker.rack": "west"}})
    assert made == (4, 7)


# Verbs that only a simulation has


def test_records_that_were_synced_survive_the_loss_of_all_power() -> None:
    async def app(cluster: SimulatedCluster) -> list[bytes]:
        await send(cluster, b"a", b"b")
        await cluster.lose_power(1, 2, 3)
        await cluster.start(1, 2, 3)
        await cluster.wait_in_sync()
        return await read(cluster, 2)

    assert simulate(app, settings={"log.flush.interval.messages": 1}) == [b"a", b"b"]


def test_power_loss_takes_what_was_not_synced() -> None:
    async def app(cluster: SimulatedCluster) -> bool:
        await send(cluster, *[b"x"] * 50)
        await cluster.lose_power(1)
        await cluster.start(1)
        async with ottla.Admin(bootstrap_servers=cluster.bootstrap_servers) as admin:
            partition = ottla.TopicPartition("t", 0)
            ends = await admin.list_offsets({partition: ottla.OffsetSpec.LATEST})
            return ends[partition].offset < 50  # type: ignore[union-attr]

    assert any(simulate(app, nodes=1, seed=seed) for seed in range(5))


def test_a_cut_off_machine_hears_nothing_until_the_network_is_healed() -> None:
    async def app(cluster: SimulatedCluster) -> None:
        await send(cluster, b"a")
        for node in cluster.nodes:
            cluster.cut("app", node)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(20):
                await send(cluster, b"b")
        cluster.heal("app")
        await send(cluster, b"c")
        cluster.isolate(2)
        await asyncio.sleep(20)
        with pytest.raises(NotReady, match=r"node 2|knows"):
            await cluster.wait_in_sync(timeout_s=5)
        cluster.heal()
        await cluster.wait_in_sync()

    simulate(app)


def test_a_clogged_and_a_slow_network_cost_time_and_reset_connections_come_back() -> None:
    async def app(cluster: SimulatedCluster) -> list[float]:
        taken = []

        async def timed() -> None:
            began = time.monotonic()
            await send(cluster, b"x")
            taken.append(time.monotonic() - began)

        await timed()
        cluster.set_network(latency_s=0.3)
        await timed()
        cluster.set_network()
        cluster.clog("app", 3.0)
        await timed()
        for node in cluster.nodes:
            cluster.reset_connections(node)
        await timed()
        return taken

    plain, slow, clogged, after = simulate(app, seed=7)
    assert slow > 1.0 > plain
    assert clogged > 2.5
    assert after < 10


def test_a_broken_disk_ends_its_node_which_comes_back_when_mended() -> None:
    async def app(cluster: SimulatedCluster) -> list[bytes]:
        await send(cluster, b"a")
        cluster.break_disk(1, "write", "sync")
        await send(cluster, b"b")
        await asyncio.sleep(30)
        assert cluster.nodes[1].state == "stopped"
        cluster.mend_disk(1)
        await cluster.start(1)
        await cluster.wait_in_sync()
        return await read(cluster, 2)

    assert simulate(app) == [b"a", b"b"]


def test_a_clock_jumps_on_one_machine_alone() -> None:
    async def wall() -> float:
        return time.time()

    async def app(cluster: SimulatedCluster) -> float:
        cluster.jump_clock("app", 3600)
        return time.time() - await cluster.run(wall, host="other")

    assert simulate(app, nodes=1) == pytest.approx(3600, abs=1)


def test_storms_make_trouble_until_the_calm() -> None:
    async def app(cluster: SimulatedCluster) -> set[str]:
        states: set[str] = set()
        cluster.storm(["kill", "freeze"])
        for _ in range(300):
            await asyncio.sleep(0.2)
            states |= {node.state for node in cluster.nodes.values()}
        await cluster.calm()
        for _ in range(300):
            await asyncio.sleep(0.2)
            assert {node.state for node in cluster.nodes.values()} == {"running"}
        return states

    assert simulate(app, seed=5) == {"running", "stopped", "paused"}


# Parts of an application on machines of their own


def test_a_killed_part_runs_no_further_line_and_starts_from_its_beginning() -> None:
    told: list[str] = []

    async def part(name: str) -> str:
        told.append(f"{name} begins")
        try:
            await asyncio.sleep(10)
        finally:
            told.append(f"{name} cleans up")
        return "done"

    async def app(cluster: SimulatedCluster) -> None:
        outcome = cluster.run(part, "part", host="worker")
        await asyncio.sleep(5)
        await cluster.kill("worker")
        assert cluster.machines == {"app": "running", "worker": "stopped"}
        await asyncio.sleep(30)
        await cluster.start("worker")
        assert await outcome == "done"
        assert told == ["part begins", "part begins", "part cleans up"]

    simulate(app, nodes=1)


def test_a_stopped_part_cleans_up_and_a_paused_one_waits() -> None:
    told: list[float] = []

    async def part() -> None:
        try:
            while True:
                told.append(time.monotonic())
                await asyncio.sleep(1)
        finally:
            await asyncio.sleep(1)
            told.append(-1)

    async def app(cluster: SimulatedCluster) -> None:
        cluster.run(part, host="worker")
        await asyncio.sleep(3)
        cluster.pause("worker")
        before = len(told)
        await asyncio.sleep(10)
        assert len(told) == before
        cluster.resume("worker")
        await asyncio.sleep(3)
        assert len(told) > before
        await cluster.stop("worker")
        assert told[-1] == -1
        assert cluster.machines["worker"] == "stopped"

    simulate(app, nodes=1)


def test_a_supervised_part_outlives_troubles_of_the_cluster_but_no_bug() -> None:
    lives: list[int] = []

    async def troubled() -> int:
        lives.append(len(lives))
        if len(lives) < 3:
            raise TimeoutError
        return len(lives)

    async def app(cluster: SimulatedCluster) -> int:
        return await cluster.run(troubled, host="worker")

    assert simulate(app, nodes=1) == 3

    async def buggy() -> None:
        raise KeyError("a bug")

    async def waiting(cluster: SimulatedCluster) -> None:
        cluster.run(buggy, host="worker")
        await asyncio.sleep(1000)

    with pytest.raises(KeyError, match="a bug"):
        simulate(waiting, nodes=1)

    async def unsupervised(cluster: SimulatedCluster) -> None:
        lives.clear()
        cluster.run(troubled, host="worker", supervised=False)
        await asyncio.sleep(1000)

    with pytest.raises(TimeoutError):
        simulate(unsupervised, nodes=1)


def test_an_error_that_nobody_handles_fails_the_run() -> None:
    async def fail() -> None:
        raise ValueError("lost")

    async def app(_: SimulatedCluster) -> None:
        asyncio.create_task(fail())  # noqa: RUF006
        await asyncio.sleep(1)

    with pytest.raises(Violation, match=r"nobody handled.*lost"):
        simulate(app, nodes=1)


# Misuse


def test_mistakes_are_told() -> None:
    async def app(cluster: SimulatedCluster) -> None:
        with pytest.raises(ValueError, match="there is no node 2"):
            await cluster.kill(2)
        with pytest.raises(NodeDown, match="node 1 is running"):
            await cluster.start(1)
        with pytest.raises(ValueError, match="the application itself goes on"):
            await cluster.kill("app")
        with pytest.raises(ValueError, match="there is no machine 'worker'"):
            cluster.pause("worker")
        with pytest.raises(ValueError, match="no trouble is called 'rain'; there are kill"):
            cluster.storm(["rain"])
        with pytest.raises(ValueError, match="a disk has no 'wash'"):
            cluster.break_disk(1, "wash")
        with pytest.raises(ValueError, match="a network has no 'wifi'"):
            cluster.set_network(wifi=1.0)
        with pytest.raises(TypeError, match="is an async function"):
            cluster.run(print, host="printer")  # type: ignore[arg-type]
        with pytest.raises(ValueError, match="a machine is called 'node-1' already"):
            cluster.run(app, host="node-1")
        with pytest.raises(RuntimeError, match="no event loop is running"):
            simulate(app)
        await cluster.kill(1)
        with pytest.raises(NodeDown, match="node 1 is not running"):
            await cluster.stop(1)

    simulate(app, nodes=1)
    with pytest.raises(ValueError, match="1 to 100 nodes, not 0"):
        simulate(app, nodes=0)
    with pytest.raises(TypeError, match="an async function of a cluster"):
        simulate(print)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="number of runs"):
        ottla.testing.simulated(app)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="must be `async def` and ask for `cluster`"):
        ottla.testing.simulated()(in_thread)


def test_a_seed_that_is_no_number_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(ottla.testing.SEED_VARIABLE, "forty-two")
    with pytest.raises(ValueError, match="OTTLA_SIM_SEED is the number of a seed"):
        simulate(right)


# pytest


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
    again = pytester.runpytest_subprocess(*plugin, "--ottla-seed", "41", timeout=120)
    again.assert_outcomes(passed=3)
    again.stdout.fnmatch_lines(["*seeds: 1*"])
