"""A quorum leader that is cut off from the other nodes, but not from the admin clients."""

from __future__ import annotations

import asyncio
import random
from itertools import product

from ottla.sim.cluster.fleet import Fleet

VOTERS_MIN = 3
"""With fewer voters the others could not elect another leader meanwhile."""
TURNING_S_MAX = 8.0
"""Time for clients to notice that the other nodes do not answer."""
LOOK_EVERY_S = 0.05
STRANDED_S = 6.0
"""Usually long enough for the others to elect another leader."""


class Stranding:
    def __init__(self, fleet: Fleet, clients: list[str], chance: random.Random) -> None:
        self._fleet = fleet
        self._clients = clients
        self._chance = chance
        self._under_way = False

    async def strand_leader(self) -> None:
        """Cut clients off from all nodes but the leader, then the leader from the other nodes.
        Clients ask it to change the voters, and no majority may learn of the change."""
        leader, _ = self._fleet.quorum_leader()
        if leader is None or self._under_way:
            return
        self._under_way = True
        host = self._fleet.hosts[leader]
        others = [other for other in self._fleet.hosts.values() if other != host]
        try:
            self._cut(self._clients, others)
            await asyncio.sleep(self._chance.random() * TURNING_S_MAX)
            if await self._has_voters(leader):
                self._cut([host], others)
                await asyncio.sleep(self._chance.expovariate(1.0) * STRANDED_S)
            for one, other in product((host, *self._clients), others):
                self._fleet.world.network.heal(one, other)
        finally:
            self._under_way = False

    def _cut(self, these: list[str], those: list[str]) -> None:
        for one, other in product(these, those):
            self._fleet.world.network.partition(one, other)

    async def _has_voters(self, leader: int) -> bool:
        for _ in range(int(TURNING_S_MAX / LOOK_EVERY_S)):
            leads, voters = self._fleet.quorum_leader()
            if leads == leader and leader in voters and len(voters) >= VOTERS_MIN:
                return True
            await asyncio.sleep(LOOK_EVERY_S)
        return False
