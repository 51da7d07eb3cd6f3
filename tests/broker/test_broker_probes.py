"""The active controller tells a dead broker from a slow one, in the simulated world."""

from __future__ import annotations

import asyncio

from ottla import Admin, NewTopic
from ottla.cli.nodes.folder import FAIL_OVER
from ottla.testing import SimulatedCluster, simulate

SESSION_S = 9.0


async def create(cluster: SimulatedCluster) -> None:
    async with Admin(bootstrap_servers=cluster.bootstrap_servers) as admin:
        await admin.create_topics([NewTopic("t", 3, 3)])
    await cluster.wait_in_sync()


async def until_moved(cluster: SimulatedCluster, node: int, within_s: float) -> None:
    for _ in range(int(within_s * 100)):
        if not {node, None} & set(leaders(cluster)):
            return
        await asyncio.sleep(0.01)
    raise AssertionError(f"not within {within_s:g} s: led by {leaders(cluster)}")


def leaders(cluster: SimulatedCluster) -> list[int | None]:
    return [cluster.leader_of("t", partition) for partition in range(3)]


def a_broker(cluster: SimulatedCluster) -> int:
    """One that is not the active controller."""
    return min(set(cluster.nodes) - {cluster.controller})


def test_what_a_killed_broker_led_is_led_by_others_long_before_its_session_ends() -> None:
    async def app(cluster: SimulatedCluster) -> None:
        await create(cluster)
        killed = a_broker(cluster)
        await cluster.kill(killed)
        await until_moved(cluster, killed, within_s=1.0)

    for seed in range(5):
        simulate(app, settings=FAIL_OVER, seed=seed)


def test_what_a_killed_controller_led_is_led_by_others_long_before_its_session_ends() -> None:
    async def app(cluster: SimulatedCluster) -> None:
        await create(cluster)
        killed = cluster.controller
        assert killed is not None
        await cluster.kill(killed)
        await until_moved(cluster, killed, within_s=2.5)

    for seed in range(5):
        simulate(app, settings=FAIL_OVER, seed=seed)


def test_a_broker_that_is_only_slow_goes_on_leading() -> None:
    async def app(cluster: SimulatedCluster) -> None:
        await create(cluster)
        before = leaders(cluster)
        slow = a_broker(cluster)
        cluster.pause(slow)
        await asyncio.sleep(SESSION_S - 2)
        cluster.resume(slow)
        await asyncio.sleep(2)
        assert leaders(cluster) == before

    simulate(app, settings=FAIL_OVER, seed=1)


def test_a_broker_on_a_machine_without_power_is_fenced_by_its_session() -> None:
    async def app(cluster: SimulatedCluster) -> None:
        await create(cluster)
        gone = a_broker(cluster)
        await cluster.lose_power(gone)
        await asyncio.sleep(SESSION_S - 2)
        assert gone in leaders(cluster)
        await until_moved(cluster, gone, within_s=3)

    simulate(app, settings=FAIL_OVER, seed=1)


def test_a_live_broker_that_is_refused_comes_back_and_is_not_fenced_so_again() -> None:
    async def app(cluster: SimulatedCluster) -> None:
        await create(cluster)
        slow = a_broker(cluster)
        cluster.set_network(refuse_rate=1.0)
        cluster.pause(slow)
        await until_moved(cluster, slow, within_s=1.5)
        cluster.resume(slow)
        cluster.set_network(refuse_rate=0.0)
        await cluster.wait_in_sync()
        async with Admin(bootstrap_servers=cluster.bootstrap_servers) as admin:
            await admin.elect_leaders()
        before = leaders(cluster)
        assert slow in before
        cluster.set_network(refuse_rate=1.0)
        cluster.pause(slow)
        await asyncio.sleep(SESSION_S - 2)
        assert leaders(cluster) == before
        cluster.resume(slow)

    simulate(app, settings=FAIL_OVER, seed=1)
