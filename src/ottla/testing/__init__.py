"""Clusters inside a test: real brokers on real sockets, in this process, gone when it is over.

    with ottla.testing.cluster(nodes=3) as cluster:
        producer = Producer({"bootstrap.servers": cluster.bootstrap_servers})

`simulate` and `simulated` run a whole application and its cluster in a seeded simulation instead.
`async_cluster` is the same for `async with`, and `ottla.testing.plugin` has the fixtures
`ottla_broker` and `ottla_cluster`, which pytest finds by itself where Ottla is installed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.lazy import lazily

if TYPE_CHECKING:
    from ottla.sim.history import Violation as Violation
    from ottla.sim.loop import Deadlock as Deadlock
    from ottla.sim.loop import NotSimulated as NotSimulated
    from ottla.sim.loop import Stalled as Stalled
    from ottla.testing.asyncio_cluster import AsyncCluster as AsyncCluster
    from ottla.testing.asyncio_cluster import async_cluster as async_cluster
    from ottla.testing.nodes import NodeView as NodeView
    from ottla.testing.sim_cluster import SimulatedCluster as SimulatedCluster
    from ottla.testing.simulation import simulate as simulate
    from ottla.testing.simulation import simulated as simulated
    from ottla.testing.thread_cluster import Cluster as Cluster
    from ottla.testing.thread_cluster import cluster as cluster

SEED_VARIABLE = "OTTLA_SIM_SEED"
"""Names the one seed that simulated tests are to run with."""

_HOMES = {
    "ottla.sim.history": "Violation",
    "ottla.sim.loop": "Deadlock NotSimulated Stalled",
    "ottla.testing.asyncio_cluster": "AsyncCluster async_cluster",
    "ottla.testing.nodes": "NodeView",
    "ottla.testing.sim_cluster": "SimulatedCluster",
    "ottla.testing.simulation": "simulate simulated",
    "ottla.testing.thread_cluster": "Cluster cluster",
}

if not TYPE_CHECKING:
    __getattr__, __all__ = lazily(__name__, _HOMES)
