"""Fsync before every promise: what a node told others survives the loss of power right after."""

from __future__ import annotations

import asyncio
import json
import os
import random

import pytest
from quorum_world import CLUSTER_ID, FOLDER, PORT, QuorumWorld, host

from ottla.broker.peers.connected import ConnectedPeers
from ottla.broker.quorum.outbox import Outbox
from ottla.broker.raft import wire
from ottla.broker.raft.ids import OffsetAndEpoch, ReplicaKey
from ottla.broker.raft.settings import RaftSettings
from ottla.protocol.messages.vote import VoteResponse

CANDIDATE = 2


async def ask_for_vote(quorum: QuorumWorld, epoch: int) -> bool:
    """As candidate 2 of 1; whether the vote was granted."""
    runtime = quorum.world.machine("asking").runtime or quorum.world.boot("asking")
    settings = RaftSettings(ReplicaKey(CANDIDATE, b"\2" * 16), CLUSTER_ID, "CONTROLLER")
    voter = ReplicaKey(1, b"\1" * 16)
    request = wire.vote_request(settings, epoch, voter, OffsetAndEpoch(9, 0), pre_vote=False)

    async def ask() -> VoteResponse:
        peers = ConnectedPeers(runtime)
        try:
            response: VoteResponse = await peers.post(host(1), PORT, request, timeout_ms=500)
            return response
        finally:
            peers.close()

    response = await runtime.run(ask())
    return bool(response.topics[0].partitions[0].vote_granted)


@pytest.mark.parametrize("seed", range(10))
def test_a_vote_that_was_granted_is_not_forgotten(seed: int) -> None:
    quorum = QuorumWorld(seed)

    async def story() -> None:
        await quorum.start(1)
        assert await ask_for_vote(quorum, epoch=5)
        quorum.crash(1)
        node = await quorum.start(1)
        path = f"{FOLDER}/__cluster_metadata-0/quorum-state"
        state = json.loads(node.runtime.disk.read_bytes(path))
        assert (state["leaderEpoch"], state["votedId"]) == (5, CANDIDATE)

    quorum.run(story)


def test_the_test_would_notice_a_vote_without_fsync(monkeypatch: pytest.MonkeyPatch) -> None:
    """The planted bug: answers leave while the file is being written."""

    async def hasty(self: Outbox, content: bytes) -> None:
        self.is_persisting = False
        self.drain()

    monkeypatch.setattr(Outbox, "_persist", hasty)
    with pytest.raises((AssertionError, FileNotFoundError)):
        test_a_vote_that_was_granted_is_not_forgotten(0)


class Storm:
    """Crashes inside of disk operations, cuts and pauses, never more than one node at a time."""

    def __init__(self, seed: int) -> None:
        self.quorum = QuorumWorld(
            seed,
            settings={
                "metadata.log.max.record.bytes.between.snapshots": "1500",
                "metadata.max.retention.bytes": "3000",
            },
        )
        self.random = self.quorum.random
        self.number = 0
        self.acknowledged: set[int] = set()

    async def story(self) -> None:
        await self.quorum.start_all()
        for _ in range(12):
            await self.one_fault()
            await self.work()
        self.quorum.world.network.heal()
        await self.revive()
        for node in self.quorum.nodes.values():
            node.runtime.process.operations_until_crash = None
        image = await self.quorum.agreed()
        missing = [n for n in self.acknowledged if f"topic-{n}" not in image.topics]
        assert not missing, f"acknowledged and lost: {missing}"
        assert all(not node.failures for node in self.quorum.nodes.values())
        await self.quorum.write(1_000_000)

    async def one_fault(self) -> None:
        quorum = self.quorum
        quorum.world.network.heal()
        await self.revive()
        await quorum.elected()
        victim = self.random.choice([*quorum.ids, quorum.leader() or 1])
        match self.random.randrange(5):
            case 0:
                quorum.crash(victim, power_loss=self.random.random() < 0.7)
            case 1 | 2:
                operations = self.random.randrange(30)
                quorum.world.crash_within(host(victim), operations, power_loss=True)
            case 3:
                quorum.cut_off(victim)
            case 4:
                quorum.world.pause(host(victim), self.random.uniform(0.1, 6))

    async def revive(self) -> None:
        quorum = self.quorum
        quorum.forget_crashed()
        for node_id in quorum.ids:
            if node_id not in quorum.nodes:
                quorum.crash(node_id)
                await quorum.start(node_id)

    async def work(self) -> None:
        for _ in range(self.random.randrange(1, 12)):
            self.quorum.forget_crashed()
            self.number += 1
            await self.try_to_write(self.number)

    async def try_to_write(self, number: int) -> None:
        try:
            async with asyncio.timeout(self.random.uniform(0.5, 8)):
                while not await self.quorum.try_write(number):  # virtual time
                    await asyncio.sleep(0.1)
                    self.quorum.forget_crashed()
            self.acknowledged.add(number)
        except TimeoutError:
            pass


def storm(seed: int) -> None:
    one = Storm(seed)
    one.quorum.run(one.story)


@pytest.mark.parametrize("seed", range(8))
def test_nothing_acknowledged_is_lost_in_a_storm(seed: int) -> None:
    storm(seed)


def test_nothing_acknowledged_is_lost_in_storms_of_today() -> None:
    seed = int(os.environ.get("SEED", random.SystemRandom().randrange(1 << 32)))
    print(f"SEED={seed}")
    storm(seed)
