"""Snapshots: written as the log grows, in place of what it forgets, and sent to who lacks that."""

from __future__ import annotations

from functools import partial

import pytest
from quorum_world import FOLDER, QuorumWorld

from ottla.broker.quorum.log import QuorumLog

SMALL = {
    "metadata.log.max.record.bytes.between.snapshots": "600",
    "metadata.max.retention.bytes": "1500",
    "controller.quorum.fetch.snapshot.max.bytes": "1024",
}
DIRECTORY = f"{FOLDER}/__cluster_metadata-0"


def snapshots(quorum: QuorumWorld, node_id: int) -> list[str]:
    disk = quorum.nodes[node_id].runtime.disk
    return [name for name in disk.list_dir(DIRECTORY) if name.endswith(".checkpoint")]


def begins_later(log: QuorumLog) -> bool:
    return log.start_offset > 0


def knows_all_snapshots(quorum: QuorumWorld, node_id: int) -> bool:
    log = quorum.nodes[node_id].metadata.quorum.log
    return len(snapshots(quorum, node_id)) == len(log.snapshots)


@pytest.mark.parametrize("seed", range(3))
def test_snapshots_are_written_and_the_log_behind_them_goes(seed: int) -> None:
    quorum = QuorumWorld(seed, settings=SMALL)

    async def story() -> None:
        await quorum.start_all()
        for number in range(50):
            await quorum.write(number)
        await quorum.agreed()
        for node_id, node in quorum.nodes.items():
            log = node.metadata.quorum.log
            await quorum.until(partial(begins_later, log))
            assert log.earliest_snapshot is not None
            assert log.earliest_snapshot.offset == log.start_offset
            # Another one may just be on its way to the disk.
            await quorum.until(partial(knows_all_snapshots, quorum, node_id))
            assert not node.failures

    quorum.run(story)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("power_loss", [True, False])
def test_a_node_starts_from_its_snapshot(seed: int, power_loss: bool) -> None:
    quorum = QuorumWorld(seed, settings=SMALL)

    async def story() -> None:
        await quorum.start_all()
        for number in range(40):
            await quorum.write(number)
        await quorum.agreed()
        for node_id in quorum.ids:
            quorum.crash(node_id, power_loss=power_loss)
        await quorum.start_all()
        assert all(node.metadata.image.topics for node in quorum.nodes.values())
        await quorum.write(40)
        image = await quorum.agreed()
        assert len(image.topics) == 41

    quorum.run(story)


@pytest.mark.parametrize("seed", range(3))
def test_an_empty_follower_catches_up_with_a_snapshot(seed: int) -> None:
    quorum = QuorumWorld(seed, settings=SMALL)

    async def story() -> None:
        await quorum.start(1)
        await quorum.start(2)
        for number in range(50):
            await quorum.write(number)
        leader = await quorum.elected()
        await quorum.until(lambda: quorum.nodes[leader].metadata.quorum.log.start_offset > 0)
        late = await quorum.start(3)
        told: list[int] = []
        late.metadata.subscribe(lambda delta, image: told.append(len(delta.created)))
        await quorum.on(3, lambda log: log.caught_up())
        assert len(late.metadata.image.topics) == 50
        assert sum(told) == 50
        assert late.metadata.quorum.log.start_offset > 0
        quorum.crash(3)
        await quorum.write(50)
        await quorum.start(3)
        assert len((await quorum.agreed()).topics) == 51

    quorum.run(story)


@pytest.mark.parametrize("seed", range(3))
def test_who_lagged_behind_the_log_of_others_hears_what_changed(seed: int) -> None:
    quorum = QuorumWorld(seed, settings=SMALL)

    async def story() -> None:
        await quorum.start_all()
        for number in range(5):
            await quorum.write(number)
        await quorum.agreed()
        leader = await quorum.elected()
        slow = next(i for i in quorum.ids if i != leader)
        quorum.cut_off(slow)
        told: list[str] = []
        quorum.nodes[slow].metadata.subscribe(
            lambda delta, image: told.extend(made.name for made in delta.created.values())
        )
        for number in range(5, 50):
            await quorum.write(number)
        start = quorum.nodes[await quorum.elected()].metadata.quorum.log
        await quorum.until(lambda: start.start_offset > 10)
        quorum.world.network.heal()
        assert len((await quorum.agreed()).topics) == 50
        assert sorted(told) == sorted(f"topic-{n}" for n in range(5, 50))
        assert not quorum.nodes[slow].failures

    quorum.run(story)


def test_a_snapshot_is_taken_when_the_last_one_is_old() -> None:
    quorum = QuorumWorld(1, settings={"metadata.log.max.snapshot.interval.ms": "60000"})

    async def story() -> None:
        await quorum.start_all()
        await quorum.write(1)
        await quorum.agreed()
        began = quorum.world.loop.time()
        await quorum.until(
            lambda: all(snapshots(quorum, node_id) for node_id in quorum.ids), within_s=100
        )
        assert 50 < quorum.world.loop.time() - began < 70

    quorum.run(story)


def test_a_single_node_starts_from_snapshot_and_log() -> None:
    quorum = QuorumWorld(1, nodes=1, settings=SMALL)

    async def story() -> None:
        await quorum.start_all()
        for number in range(50):
            await quorum.write(number)
        await quorum.until(lambda: quorum.nodes[1].metadata.quorum.log.start_offset > 0)
        quorum.crash(1)
        node = await quorum.start(1)
        assert node.metadata.is_leader
        assert len(node.metadata.image.topics) == 50
        await quorum.stop(1)
        await quorum.start(1, clean=True)
        assert len(quorum.nodes[1].metadata.image.topics) == 50

    quorum.run(story)
