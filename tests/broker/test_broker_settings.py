"""Dynamic settings of a broker, over its restarts."""

from __future__ import annotations

from pathlib import Path

from broker_nodes import BOTH, Cluster, until, with_cluster

from ottla.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)

BROKER = 4


def test_dynamic_settings_are_in_force_after_a_restart(tmp_path: Path) -> None:
    async def test(cluster: Cluster) -> None:
        request = IncrementalAlterConfigsRequest(
            resources=[
                AlterConfigsResource(
                    resource_type=BROKER,
                    resource_name="1",
                    configs=[
                        AlterableConfig(name="max.connections.per.ip", value="77"),
                        AlterableConfig(name="cordoned.log.dirs", value="*"),
                    ],
                )
            ]
        )
        address = cluster.nodes[1].addresses[0]
        answer = await cluster.peers.post(*address, request, timeout_ms=5_000)
        assert [one.error_code for one in answer.responses] == [0], answer
        for restarted in (False, True):
            if restarted:
                await cluster.stop(1)
                await cluster.start(1)
            node = cluster.nodes[1]
            await until(lambda node=node: node.server.limits.per_address_max == 77)
            assert node.log_manager.dirs.cordoned_ids() == node.log_manager.dirs.directory_ids()
            assert node.controller.config["max.connections.per.ip"] == 77

    with_cluster(tmp_path, test, roles=[BOTH], offsets_topic_replication_factor="1")
