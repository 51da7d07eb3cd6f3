"""Nodes that make a cluster: started together, used through any of them, stopped and paused."""

from __future__ import annotations

from pathlib import Path

from cluster_nodes import Cluster, until, with_cluster

from ottla import Admin, NewTopic


def test_three_nodes_form_a_cluster_and_know_each_other(tmp_path: Path) -> None:
    async def test(cluster: Cluster) -> None:
        assert cluster.active.controller is not None
        for node in cluster.nodes.values():
            await until(lambda node=node: len(node.metadata.image.brokers) == 3)
            await until(
                lambda node=node: not any(b.fenced for b in node.metadata.image.brokers.values())
            )
            assert node.metadata.leader_id == cluster.active.node_id

    with_cluster(tmp_path, test)
