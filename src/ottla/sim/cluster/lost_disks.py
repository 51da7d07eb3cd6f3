"""Controllers' disks that are lost for good, one at a time (`promises`)."""

from __future__ import annotations

import asyncio
import random

from ottla.broker.raft.states.leader import Leader
from ottla.sim.cluster import promises
from ottla.sim.cluster.fleet import Fleet
from ottla.sim.cluster.outages import Outages

SURE_AFTER_S = 20.0
"""After this time a removal that got no answer is not on its way any more."""
WAIT_S_MAX = 25.0
LOOK_EVERY_S = 0.5


class LostDisks:
    def __init__(self, fleet: Fleet, chance: random.Random, outages: Outages) -> None:
        self._fleet = fleet
        self._chance = chance
        self._outages = outages

    async def lose_metadata(self) -> None:
        """Replace the disk of a voter's metadata log; the node comes back with an empty one."""
        folders = self._fleet.metadata_folders
        if folders.replacing is not None:
            return
        controllers = [node.id for node in self._fleet.shape.controllers]
        with self._outages.one_node(controllers) as node_id:
            if node_id is None:
                return
            folders.replacing = node_id
            try:
                if await self._is_at_rest(node_id):
                    self._fleet.replace_metadata_disk(node_id)
            finally:
                if not folders.is_lost:
                    folders.replacing = None
            if folders.is_lost:
                await self._outages.start_again(node_id)

    async def _is_at_rest(self, node_id: int) -> bool:
        for _ in range(int(WAIT_S_MAX / LOOK_EVERY_S)):
            await asyncio.sleep(LOOK_EVERY_S)
            voters, may_shrink = self._voters(), self._may_shrink()
            if promises.may_lose_disk(voters, node_id, may_shrink=may_shrink):
                return True
        return False

    def _may_shrink(self) -> bool:
        since_s = self._fleet.metadata_folders.unsure_since_s
        return since_s is not None and self._fleet.world.loop.time() - since_s <= SURE_AFTER_S

    def _voters(self) -> tuple[int, ...]:
        """Return the voters if all controllers know the same ones and no change is under way."""
        sets = set()
        for controller in self._fleet.shape.controllers:
            node = self._fleet.nodes.get(controller.id)
            if node is None or not node.has_metadata or not self._fleet.is_up(controller.id):
                return ()
            core = node.metadata.quorum.core
            if isinstance(core.state, Leader) and core.state.change is not None:
                return ()
            sets.add(core.voters.ids)
        return sets.pop() if len(sets) == 1 else ()
