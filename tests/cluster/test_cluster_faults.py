"""Clients of a cluster notice faults only as a pause: the short version of `make soak-cluster`."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from cluster_faults import CLUSTER_OPTIONS, ClusterStory, longest_gap
from cluster_processes import ThreeNodes
from steady_feed import Acked

pytestmark = pytest.mark.ottla_only

SLICE_S = 30.0


@pytest.mark.timeout(240)
def test_clients_lose_nothing_while_nodes_die_freeze_and_lose_connections(tmp_path: Path) -> None:
    seed = random.SystemRandom().randrange(1 << 32)
    print(f"seed {seed}: python tests/cluster/cluster_faults.py --seed {seed}")
    with ThreeNodes(tmp_path, CLUSTER_OPTIONS) as cluster:
        found = ClusterStory(cluster, tmp_path, seed, print).play(100, SLICE_S)
    print(found)
    assert found["rounds"] >= 2


def test_the_longest_gap_is_that_of_one_partition() -> None:
    acked = [
        *(Acked(t / 10, partition, 0, "k", 0) for t in range(100) for partition in range(1, 6)),
        *(Acked(t / 10, 0, 0, "k", 0) for t in range(100) if not 30 < t < 50),
    ]
    assert longest_gap(acked, 1.0, 9.0) == pytest.approx(2.0)
    assert longest_gap(acked, 6.0, 9.0) == pytest.approx(0.1)
