"""Voters that come and go: their set is in the log, and the first one in a formatted folder."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from quorum_world import CLUSTER_ID, FOLDER, PORT, QuorumWorld, host

from ottla.broker.metadata.formatting import FirstVoter, write_first_voters
from ottla.protocol.messages.add_raft_voter import AddRaftVoterRequest, Listener
from ottla.protocol.messages.describe_quorum import (
    DescribeQuorumRequest,
    RequestPartitionData,
    RequestTopicData,
)
from ottla.protocol.messages.remove_raft_voter import RemoveRaftVoterRequest
from ottla.protocol.schema import Message

DYNAMIC = {
    "controller.quorum.voters": "",
    "controller.quorum.bootstrap.servers": ",".join(f"{host(i)}:{PORT}" for i in (1, 2, 3)),
}


def dynamic(seed: int, **settings: str) -> QuorumWorld:
    return QuorumWorld(seed, settings={**DYNAMIC, **settings})


def directory_id(node_id: int) -> bytes:
    return bytes([node_id]) * 16


def format_folder(quorum: QuorumWorld, node_id: int, voters: list[int]) -> None:
    runtime = quorum.world.boot(host(node_id))
    first = [FirstVoter(i, directory_id(i), host(i), PORT) for i in voters]
    runtime.disk.make_dirs(FOLDER)
    write_first_voters(runtime.disk, FOLDER, first, listener="CONTROLLER", now_ms=1)
    runtime.disk.sync_dir(FOLDER)
    quorum.world.crash(host(node_id))


async def ask(quorum: QuorumWorld, node_id: int, request: Message, version: int) -> Any:
    async def work(log: Any) -> Any:
        return await log.quorum.handle(request, version)

    return await quorum.on(node_id, work)


def add(node_id: int) -> AddRaftVoterRequest:
    return AddRaftVoterRequest(
        cluster_id=CLUSTER_ID,
        timeout_ms=5_000,
        voter_id=node_id,
        voter_directory_id=directory_id(node_id),
        listeners=[Listener(name="CONTROLLER", host=host(node_id), port=PORT)],
    )


def remove(node_id: int) -> RemoveRaftVoterRequest:
    return RemoveRaftVoterRequest(
        cluster_id=CLUSTER_ID, voter_id=node_id, voter_directory_id=directory_id(node_id)
    )


async def added(quorum: QuorumWorld, node_id: int) -> None:
    """Node 1 leads. It takes no voter that lags behind, and a new one does for a moment."""
    async with asyncio.timeout(10):
        while (await ask(quorum, 1, add(node_id), 1)).error_code:  # noqa: ASYNC110
            await asyncio.sleep(0.1)


@pytest.mark.parametrize("seed", range(3))
def test_a_formatted_quorum_of_one_grows_to_three(seed: int) -> None:
    quorum = dynamic(seed)

    async def story() -> None:
        format_folder(quorum, 1, [1])
        first = await quorum.start(1)
        assert first.metadata.is_leader
        assert first.metadata.quorum.kraft_version == 1
        await quorum.write(1)
        for node_id in (2, 3):
            await quorum.start(node_id)
            await quorum.on(node_id, lambda log: log.caught_up())
            await added(quorum, node_id)
        assert first.metadata.quorum.voter_ids == (1, 2, 3)
        quorum.crash(1)
        await quorum.elected(among=[2, 3])
        await quorum.write(2)
        await quorum.start(1)
        assert len((await quorum.agreed()).topics) == 2

    quorum.run(story)


def test_controllers_join_by_themselves_if_they_may() -> None:
    quorum = dynamic(1, **{"controller.quorum.auto.join.enable": "true"})

    async def story() -> None:
        format_folder(quorum, 1, [1])
        await quorum.start_all()
        await quorum.until(
            lambda: all(n.metadata.quorum.voter_ids == (1, 2, 3) for n in quorum.nodes.values()),
            within_s=60,
        )

    quorum.run(story)


def test_a_voter_is_removed_and_its_voice_no_longer_counts() -> None:
    quorum = dynamic(2)

    async def story() -> None:
        for node_id in quorum.ids:
            format_folder(quorum, node_id, [1, 2, 3])
        await quorum.start_all()
        leader = await quorum.elected()
        gone = next(i for i in quorum.ids if i != leader)
        response = await ask(quorum, leader, remove(gone), 0)
        assert not response.error_code, response.error_message
        rest = tuple(i for i in quorum.ids if i != gone)
        await quorum.until(
            lambda: all(n.metadata.quorum.voter_ids == rest for n in quorum.nodes.values())
        )
        await quorum.write(1)
        described = await ask(quorum, leader, describe(), 2)
        partition = described.topics[0].partitions[0]
        assert [voter.replica_id for voter in partition.current_voters] == list(rest)
        assert [observer.replica_id for observer in partition.observers] == [gone]

    quorum.run(story)


def describe() -> DescribeQuorumRequest:
    partition = RequestPartitionData(partition_index=0)
    topic = RequestTopicData(topic_name="__cluster_metadata", partitions=[partition])
    return DescribeQuorumRequest(topics=[topic])


@pytest.mark.parametrize("seed", range(3))
def test_voters_survive_in_snapshots(seed: int) -> None:
    small = {
        "metadata.log.max.record.bytes.between.snapshots": "600",
        "metadata.max.retention.bytes": "1500",
    }
    quorum = dynamic(seed, **small)

    async def story() -> None:
        for node_id in quorum.ids:
            format_folder(quorum, node_id, [1, 2, 3])
        await quorum.start_all()
        for number in range(40):
            await quorum.write(number)
        for node_id, node in list(quorum.nodes.items()):
            log = node.metadata.quorum.log
            while log.start_offset == 0:
                await quorum.write(100 + quorum.random.randrange(10**6))
            quorum.crash(node_id)
            again = await quorum.start(node_id)
            assert again.metadata.quorum.voter_ids == (1, 2, 3)
            assert again.metadata.quorum.kraft_version == 1
        await quorum.agreed()

    quorum.run(story)


def test_a_broker_follows_without_a_voice() -> None:
    quorum = QuorumWorld(4)

    async def story() -> None:
        await quorum.start_all()
        await quorum.write(1)
        leader = await quorum.elected()
        broker = {"process.roles": "broker", "listeners": "PLAINTEXT://:9092"}
        observer = await quorum.start(9, settings=broker)
        await quorum.on(9, lambda log: log.caught_up())
        assert len(observer.metadata.image.topics) == 1
        assert observer.metadata.leader_id == leader
        await quorum.write(2)
        await quorum.agreed()
        quorum.crash(9)
        described = await ask(quorum, leader, describe(), 2)
        partition = described.topics[0].partitions[0]
        assert [each.replica_id for each in partition.observers] == [9]

    quorum.run(story)
