"""What a test can do to a simulated cluster and to the parts of its application."""

from __future__ import annotations

import asyncio
import time

import pytest

import ottla
import ottla.testing
from ottla.testing import SimulatedCluster, Violation, simulate
from ottla.testing.cluster_state import NotReady
from ottla.testing.nodes import NodeDown

pytestmark = pytest.mark.ottla_only


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


def test_a_test_moves_between_a_real_and_a_simulated_cluster() -> None:
    async def app(cluster: ottla.testing.AsyncCluster | SimulatedCluster) -> int | None:
        async with ottla.Producer(bootstrap_servers=cluster.bootstrap_servers) as producer:
            await producer.send("t", b"a")
            await cluster.stop(1)
            await cluster.start(1)
            await cluster.restart(1)
            await cluster.kill(1)
            assert cluster.nodes[1].state == "stopped"
            assert cluster.controller is None
            await cluster.start(1)
            cluster.pause(1)
            cluster.resume(1)
            await cluster.wait_ready()
            await cluster.wait_in_sync()
            await producer.send("t", b"b")
        return cluster.leader_of("t")

    async def real() -> int | None:
        async with ottla.testing.async_cluster(nodes=1) as cluster:
            return await app(cluster)

    assert asyncio.run(real()) == 1
    assert simulate(app, nodes=1) == 1


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


def test_a_second_storm_is_another_and_two_at_once_are_a_mistake() -> None:
    async def app(cluster: SimulatedCluster) -> tuple[set[float], set[float]]:
        async def stormy() -> set[float]:
            began, moments = time.monotonic(), set()
            cluster.storm(["kill"])
            with pytest.raises(RuntimeError, match="a storm is on"):
                cluster.storm()
            for _ in range(600):
                await asyncio.sleep(0.1)
                if "stopped" in {node.state for node in cluster.nodes.values()}:
                    moments.add(round(time.monotonic() - began, 1))
            await cluster.calm()
            return moments

        return await stormy(), await stormy()

    first, second = simulate(app, seed=5)
    assert first
    assert second
    assert first != second


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
    with pytest.raises(TypeError, match=r"an async function, and .*print.* gave None"):
        simulate(print, nodes=1)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"an async function, and .*print.* gave None"):
        simulate(running_print, nodes=1)
    with pytest.raises(TypeError, match="number of runs"):
        ottla.testing.simulated(app)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="must be `async def` and ask for `cluster`"):
        ottla.testing.simulated()(asyncio.sleep)


async def running_print(cluster: SimulatedCluster) -> None:
    await cluster.run(print, host="printer")  # type: ignore[arg-type]
