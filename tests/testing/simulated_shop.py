"""An application as a user might write it, in two forms: orders are sent, workers ship them.

The wrong form commits before it has shipped: a worker that is killed in between forgets orders.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import ottla
from ottla.testing import SimulatedCluster

ORDERS = 120
AT_ONCE = 10
PATIENCE_S = 600
"""A group may wait for a lost coordinator's answer as long as for its slowest member, 5 minutes."""
WORKERS = ("worker-1", "worker-2")

Worker = Callable[[str, list[bytes]], Coroutine[Any, Any, None]]


def consumer(servers: str) -> ottla.Consumer:
    return ottla.Consumer(
        "orders",
        bootstrap_servers=servers,
        group_id="shipping",
        auto_offset_reset="earliest",
        enable_auto_commit=False,
    )


async def ship(order: bytes, shipped: list[bytes]) -> None:
    await asyncio.sleep(1)  # the carrier takes its time
    shipped.append(order)


async def right_worker(servers: str, shipped: list[bytes]) -> None:
    async with consumer(servers) as orders:
        while True:
            for records in (await orders.poll()).values():
                for record in records:
                    await ship(record.value, shipped)
            await orders.commit()


async def wrong_worker(servers: str, shipped: list[bytes]) -> None:
    async with consumer(servers) as orders:
        while True:
            found = await orders.poll()
            await orders.commit()
            for records in found.values():
                for record in records:
                    await ship(record.value, shipped)


async def sell(servers: str) -> None:
    async with ottla.Producer(bootstrap_servers=servers) as producer:
        for number in range(ORDERS):
            await producer.send("orders", b"%d" % number)
            if number % AT_ONCE == 0:
                await asyncio.sleep(5)


async def nothing_is_forgotten(cluster: SimulatedCluster, worker: Worker) -> None:
    shipped: list[bytes] = []
    async with ottla.Admin(bootstrap_servers=cluster.bootstrap_servers) as admin:
        await admin.create_topic("orders", partitions=4)
    for host in WORKERS:
        cluster.run(worker, cluster.bootstrap_servers, shipped, host=host)
    await sell(cluster.bootstrap_servers)
    await cluster.calm()
    for _ in range(PATIENCE_S):
        if len(set(shipped)) == ORDERS:
            return
        await asyncio.sleep(1)
    raise AssertionError(f"{ORDERS - len(set(shipped))} orders were never shipped")
