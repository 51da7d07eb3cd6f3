"""A leader and a follower move between their data folders, while records come in."""

from __future__ import annotations

import asyncio
import os.path
from pathlib import Path

from replicated import bytes_of, create, followers_of, leader_of, node, produce, replica, until

from ottla import Admin, ReplicaOf
from ottla.testing import AsyncCluster, async_cluster

NODES = (1, 2, 3)


def other_folder(cluster: AsyncCluster, number: int) -> str:
    log = replica(cluster, number).log
    assert log is not None
    return next(
        log_dir.path
        for log_dir in node(cluster, number).log_manager.dirs
        if log_dir.path != log.parent_directory
    )


def home(cluster: AsyncCluster, number: int) -> str:
    log = replica(cluster, number).log
    return "" if log is None else log.parent_directory


def metadata_home(cluster: AsyncCluster, number: int) -> str:
    image = node(cluster, number).metadata.image.topics["t"].partitions[0]
    named = image.directory_of(number)
    dirs = node(cluster, number).log_manager.dirs
    return next((log_dir.path for log_dir in dirs if log_dir.id == named), "")


def test_leader_and_follower_move_while_records_come_in(tmp_path: Path) -> None:
    folders = {
        number: {
            "log.dirs": ",".join(
                (os.path.join(tmp_path, f"node{number}"), os.path.join(tmp_path, f"more{number}"))
            )
        }
        for number in NODES
    }

    async def main() -> None:
        async with async_cluster(3, node_settings=folders, folder=str(tmp_path)) as cluster:
            await create(cluster)
            await produce(cluster, 0, 500)
            leader, follower = leader_of(cluster), followers_of(cluster)[0]
            targets = {number: other_folder(cluster, number) for number in (leader, follower)}
            moves = {ReplicaOf("t", 0, number): path for number, path in targets.items()}
            async with Admin(bootstrap_servers=cluster.bootstrap_servers) as admin:
                writing = asyncio.create_task(produce(cluster, 500, 3000))
                outcome = await admin.alter_replica_log_dirs(moves)
                assert set(outcome.values()) == {None}
                await until(lambda: all(home(cluster, n) == targets[n] for n in targets))
                await writing
                found = await admin.describe_replica_log_dirs(moves)
                assert {one.broker: where.current for one, where in found.items()} == targets
                assert all(where.future is None for where in found.values())
            await produce(cluster, 3500, 100)
            await cluster.wait_in_sync()
            logs = [replica(cluster, number) for number in NODES]
            await until(lambda: {one.log.end_offset for one in logs if one.log} == {3600})
            assert len({bytes_of(one) for one in logs}) == 1
            await until(lambda: all(metadata_home(cluster, n) == targets[n] for n in targets))
            await cluster.kill(follower)
            await cluster.start(follower)
            await cluster.wait_in_sync()
            assert home(cluster, follower) == targets[follower]
            assert bytes_of(replica(cluster, follower)) == bytes_of(replica(cluster, leader))

    asyncio.run(main())
