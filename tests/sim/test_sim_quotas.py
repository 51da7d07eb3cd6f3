"""Quotas in virtual time: the rate of real clients over minutes, and storms while they count."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial

import pytest

import ottla
from ottla.broker.quotas.budget import Budget
from ottla.client.admin.quotas import QuotaEntity, QuotaName
from ottla.testing import SimulatedCluster, simulate

pytestmark = pytest.mark.ottla_only

RATE = 100_000.0
RECORD_BYTES = 1_000
WARM_S, MEASURED_S = 36, 120
"""At first the whole burst of eleven windows may be used at once."""
CLIENT = QuotaEntity(client_id="greedy")


async def set_quota(cluster: SimulatedCluster, entity: QuotaEntity, **rates: float) -> None:
    async with ottla.Admin(bootstrap_servers=cluster.bootstrap_servers) as admin:
        assert await admin.alter_client_quotas({entity: rates}) == {entity: None}


async def bytes_per_second(
    move: Callable[[], Awaitable[int]], warm_s: float, measured_s: float
) -> float:
    loop = asyncio.get_running_loop()
    start = loop.time()
    moved = 0
    while (now := loop.time() - start) < warm_s + measured_s:
        count = await move()
        moved += count if now >= warm_s else 0
    return moved / (now - warm_s)


async def greedy_producer(
    cluster: SimulatedCluster, warm_s: float = WARM_S, measured_s: float = MEASURED_S
) -> float:
    await set_quota(cluster, CLIENT, producer_byte_rate=RATE)
    async with ottla.Producer(
        bootstrap_servers=cluster.bootstrap_servers, client_id="greedy", linger_ms=0
    ) as producer:

        async def move() -> int:
            sent = [await producer.send("t", bytes(RECORD_BYTES)) for _ in range(50)]
            await producer.flush()
            return len(sent) * RECORD_BYTES

        moved = await bytes_per_second(move, warm_s, measured_s)
        if warm_s:
            (broker,) = cluster._fleet.nodes.values()
            values = {metric.name: metric.value for metric in broker.quota_metrics()}
            assert values["byte-rate"] >= RATE * 0.9
            assert values["throttle-time"] > 0
        return moved


def test_a_greedy_producer_gets_its_rate_over_minutes() -> None:
    rate = simulate(greedy_producer, seed=1, nodes=1)
    # The overhead of requests and batches counts, too.
    assert RATE * 0.9 <= rate <= RATE * 1.05


def test_a_broker_that_does_not_throttle_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def charge_nothing(self: Budget, amount: float, now: float) -> int:
        self.note(amount, now)
        return 0

    monkeypatch.setattr(Budget, "charge", charge_nothing)
    unbounded = partial(greedy_producer, warm_s=0, measured_s=3)
    assert simulate(unbounded, seed=1, nodes=1) > RATE * 2


async def work_under_quotas(cluster: SimulatedCluster) -> None:
    """Everybody is limited, also by name the user that nodes have among themselves."""
    everybody = QuotaEntity(user=QuotaName.DEFAULT)
    await set_quota(
        cluster,
        everybody,
        producer_byte_rate=20_000.0,
        consumer_byte_rate=20_000.0,
        request_percentage=50.0,
        controller_mutation_rate=1.0,
    )
    values = [b"%06d" % number + bytes(500) for number in range(600)]
    async with ottla.Producer(bootstrap_servers=cluster.bootstrap_servers) as producer:
        for value in values:
            await producer.send("t", value)
        await producer.flush()
    await cluster.calm()
    async with ottla.Consumer(
        "t", bootstrap_servers=cluster.bootstrap_servers, auto_offset_reset="earliest"
    ) as consumer:
        found: list[bytes] = []
        async for record in consumer:
            found.append(record.value or b"")
            if len(found) == len(values):
                break
    assert found == values


@pytest.mark.parametrize("seed", [1, 2])
def test_nothing_is_lost_in_a_storm_while_everybody_is_limited(seed: int) -> None:
    simulate(work_under_quotas, seed=seed, storms=True)
