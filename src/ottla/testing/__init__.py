"""Clusters for tests: real brokers on real sockets, in this process, removed at the end.

    with ottla.testing.cluster(nodes=3) as cluster:
        producer = Producer({"bootstrap.servers": cluster.bootstrap_servers})

`simulate` and `simulated` run a whole application and its cluster in a seeded simulation instead.
`async_cluster` is the same for `async with`. `ottla.testing.plugin` has the fixtures `ottla_broker`
and `ottla_cluster`, which pytest finds by itself if Ottla is installed.
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
    from ottla.testing.security import Security as Security
    from ottla.testing.sim_cluster import SimulatedCluster as SimulatedCluster
    from ottla.testing.simulation import simulate as simulate
    from ottla.testing.simulation import simulated as simulated
    from ottla.testing.thread_cluster import Cluster as Cluster
    from ottla.testing.thread_cluster import cluster as cluster

SEED_VARIABLE = "OTTLA_SIM_SEED"
"""Sets the only seed that simulated tests run with."""
REPLAY_MARKER = "; replay it: "
"""In the note of a failed run, before the command that replays it."""

if not TYPE_CHECKING:  # so that type checkers report names that do not exist
    __getattr__, __dir__ = lazily(__name__)
