"""Power losses and broken disks. Data that was not synced is lost, within limits (`promises`)."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Sequence
from itertools import combinations

from ottla.broker.metadata.image import EMPTY_IMAGE, MetadataImage
from ottla.sim.cluster import promises
from ottla.sim.cluster.fleet import Fleet
from ottla.sim.cluster.outages import Outages
from ottla.sim.cluster.shape import DATA_DIR
from ottla.sim.world import World

CALM_S_MAX = 25.0
FORGET_S_MAX = 40.0
LOOK_EVERY_S = 0.25
BROKEN_S = 4.0
AWAY_S = 6.0
"""Usually long enough for a broker session to expire and for followers to fall out of the ISR."""
ELECTION_S = 8.0
WATCH_S = 0.0005
"""How often to look for a new leader: it is elected a millisecond or two after the votes, and
the next disk write of a voter would also make a vote durable that was not synced."""


class PowerFailures:
    def __init__(self, world: World, fleet: Fleet, chance: random.Random, outages: Outages) -> None:
        self._world = world
        self._fleet = fleet
        self._chance = chance
        self._outages = outages
        self.wants_calm = False
        """True while no other fault may begin."""
        self._swapping = False
        self.is_alone: Callable[[], bool] = lambda: True
        """Returns True if no other fault is under way."""

    async def fail_power(self) -> None:
        if self._fleet.shape.synced:
            with self._outages.one_node() as node_id:
                if node_id is not None:
                    self._fleet.kill(node_id, power_loss=True)
                    await self._outages.start_again(node_id)
            return
        pure = [node.id for node in self._fleet.shape.nodes if not node.is_broker]
        if pure and self._chance.random() < 0.5:
            with self._outages.one_node(pure) as node_id:
                if node_id is not None:
                    self._fleet.kill(node_id, power_loss=True)
                    await self._outages.start_again(node_id)
        elif victims := await self._calm_victims():
            await self._lose(victims, broken_first=False)

    async def fail_disk(self) -> None:
        """Break a node's disk for a while, then cut its power and repair the disk: after a failed
        sync its page cache is wrong."""
        if self._fleet.shape.synced:
            with self._outages.one_node() as node_id:
                if node_id is not None and self._fleet.is_up(node_id):
                    await self._break(node_id)
                    await self._outages.start_again(node_id)
        elif victims := await self._calm_victims():
            await self._lose(victims[:1], broken_first=True)

    async def fail_last(self) -> None:
        """Take some or all of the other brokers out of the ISRs, by a stop or a partition. Then the
        power of one that stayed fails, and they come back in any order."""
        if self._fleet.shape.synced or not promises.keeps_eligible(self._newest()):
            return
        victims = (await self._calm_victims())[:1]
        if not victims:
            return
        others = [node.id for node in self._fleet.shape.brokers if node.id not in victims]
        self._chance.shuffle(others)
        leaving = others[: self._chance.randint(1, len(others))]
        try:
            for node_id in leaving:
                await self._take_out_of_isrs(node_id)
            await asyncio.sleep(self._chance.expovariate(1.0) * AWAY_S)
        except BaseException:
            self.wants_calm = False
            raise
        await self._lose(victims, broken_first=False, away=leaving)

    async def _take_out_of_isrs(self, node_id: int) -> None:
        if self._chance.random() < 0.6:
            await self._fleet.stop(node_id)
            return
        for host in self._fleet.hosts.values():
            if host != self._fleet.hosts[node_id]:
                self._world.network.partition(self._fleet.hosts[node_id], host)
        await asyncio.sleep(self._chance.expovariate(1.0) * AWAY_S)

    async def _break(self, node_id: int) -> None:
        machine = self._world.machine(self._fleet.hosts[node_id])
        operations = self._chance.choice((("sync",), ("write",), ("read",), ()))
        self._world.trace.add(machine.name, f"disk fails at {operations or 'everything'}")
        machine.faults.fail(DATA_DIR, *operations)
        machine.faults.struck = True
        await asyncio.sleep(self._chance.expovariate(1.0) * BROKEN_S)
        self._fleet.kill(node_id, power_loss=True)
        machine.faults.heal()

    async def swap_majorities(self) -> None:
        """Cut off the leader of the quorum. As soon as another is elected, cut that one off, let
        the first one back, and take the power of the third voter: if it forgets its vote, it votes
        twice."""
        away, voters = self._fleet.quorum_leader()
        if len(voters) != 3 or away is None or away not in voters or self._swapping:
            return
        self._swapping = True
        try:
            self._cut_off(away, voters)
            elected = await self._next_leader([voter for voter in voters if voter != away])
            self._mend(voters)
            if elected is not None:
                self._cut_off(elected, voters)
                (forgetful,) = set(voters) - {away, elected}
                await self._forget(forgetful)
        finally:
            self._mend(voters)
            self._swapping = False

    async def _forget(self, voter: int) -> None:
        shape = next(node for node in self._fleet.shape.nodes if node.id == voter)
        if not shape.is_broker or self._fleet.shape.synced:
            with self._outages.taking(voter):
                self._fleet.kill(voter, power_loss=True)
                await asyncio.sleep(self._chance.random() * 0.3)
                self._outages.start(voter)
        await asyncio.sleep(self._chance.random() * ELECTION_S)

    def _cut_off(self, voter: int, voters: list[int]) -> None:
        for other in voters:
            if other != voter:
                self._world.network.partition(self._fleet.hosts[voter], self._fleet.hosts[other])

    def _mend(self, voters: list[int]) -> None:
        for one, other in combinations(voters, 2):
            self._world.network.heal(self._fleet.hosts[one], self._fleet.hosts[other])

    async def _next_leader(self, voters: list[int]) -> int | None:
        """Return the voter that is elected, as soon as it is, or None."""
        for _ in range(int(ELECTION_S / WATCH_S)):
            await asyncio.sleep(WATCH_S)
            for node_id, node in self._fleet.running():
                if node_id not in voters or not node.has_metadata:
                    continue
                if node.metadata.quorum.is_leader:
                    return node_id
        return None

    # Without flush.messages=1: only while other replicas have what is lost.

    async def _calm_victims(self) -> list[int]:
        """Return brokers that may lose power now, after the cluster has been well for a while."""
        if self.wants_calm:
            return []
        self.wants_calm = True
        image = await self._wait_until_whole()
        if image is None:
            self.wants_calm = False
            return []
        count = self._chance.randint(1, max(1, promises.losses_max(image)))
        brokers = [node.id for node in self._fleet.shape.brokers]
        if len(brokers) < 2:
            self.wants_calm = False
            return []
        return self._chance.sample(brokers, min(count, len(brokers) - 1))

    async def _wait_until_whole(self) -> MetadataImage | None:
        """Wait until all nodes see a whole cluster, in several looks in a row, with no other fault
        under way: an ISR change that is under way, or a move that is decided and not committed,
        could count on brokers that lose power."""
        seen = 0
        for _ in range(int(CALM_S_MAX / LOOK_EVERY_S)):
            await asyncio.sleep(LOOK_EVERY_S)
            images = self.images()
            everybody = len(images) == len(self._fleet.shape.nodes)
            is_calm = self.is_alone() and not self._is_deciding()
            is_well = everybody and is_calm and all(map(promises.is_whole, images))
            seen = seen + 1 if is_well and len({image.offset for image in images}) == 1 else 0
            if seen >= 6:
                return images[0]
        return None

    def images(self) -> list[MetadataImage]:
        return [node.metadata.image for _, node in self._fleet.running() if node.has_metadata]

    def _is_deciding(self) -> bool:
        """Whether a controller has made a decision that is not committed."""
        return any(
            node.metadata.is_leader and node.metadata.pending.offset > node.metadata.image.offset
            for _, node in self._fleet.running()
            if node.has_metadata
        )

    def _newest(self) -> MetadataImage:
        return max(self.images(), key=lambda image: image.offset, default=EMPTY_IMAGE)

    async def _lose(
        self, victims: list[int], *, broken_first: bool, away: Sequence[int] = ()
    ) -> None:
        epochs = {node: broker.epoch for node, broker in self._newest().brokers.items()}
        try:
            if broken_first:
                await self._break(victims[0])
            for node_id in victims:
                self._fleet.kill(node_id, power_loss=True)
            back = [*victims, *away]
            if away:
                self._chance.shuffle(back)
            for node_id in back:
                for host in self._fleet.hosts.values() if away else ():
                    self._world.network.heal(self._fleet.hosts[node_id], host)
                await self._outages.start_again(node_id)
            for _ in range(int(FORGET_S_MAX / LOOK_EVERY_S)):
                if promises.forgotten_by(self._newest(), victims, epochs):
                    return
                await asyncio.sleep(LOOK_EVERY_S)
            self._fleet.troubles.append(f"{victims} lost power, and stayed in ISRs")
        finally:
            self.wants_calm = False
