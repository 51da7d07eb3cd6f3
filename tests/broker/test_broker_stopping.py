"""The order in which a node stops."""

from __future__ import annotations

from pathlib import Path

import pytest
from broker_nodes import BOTH, Cluster, with_cluster

from ottla.broker.storage.log_manager import LogManager


def test_a_node_that_cannot_stop_a_part_does_not_mark_its_log_dirs_as_clean(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    closed: list[LogManager] = []
    close = LogManager.close

    async def noting(manager: LogManager, broker_epoch: int = -1) -> None:
        closed.append(manager)
        await close(manager, broker_epoch)

    monkeypatch.setattr(LogManager, "close", noting)

    async def test(cluster: Cluster) -> None:
        node = cluster.nodes[1]
        metadata = node.metadata
        intact = metadata.close

        async def failing(*, is_last: bool = False) -> None:
            raise OSError("as the test asks for")

        metadata.close = failing  # type: ignore[method-assign]
        for _ in range(2):  # not the second time either
            with pytest.raises(OSError, match="as the test asks for"):
                await node.stop()
        assert not closed
        metadata.close = intact  # type: ignore[method-assign]

    with_cluster(tmp_path, test, roles=[BOTH], offsets_topic_replication_factor="1")
    assert len(closed) == 1
