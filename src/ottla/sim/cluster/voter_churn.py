"""Administration of the quorum while everything else goes on: voters come and go."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Coroutine
from typing import Any

from ottla.client.admin.admin import Admin
from ottla.client.admin.quorum import DescribedQuorum
from ottla.client.network.controllers import Controllers
from ottla.client.settings.common import ClientSettings
from ottla.sim.cluster import electorate
from ottla.sim.cluster.shape import CONTROLLER_PORT
from ottla.sim.cluster.work import Client, Work
from ottla.sim.runtime import SimRuntime

LEADER_RATE = 0.25
HASTE_RATE = 0.3


class VoterChurn(Client):
    """Removes voters, the leading one often, and adds controllers that follow without a vote. It
    asks brokers, or the controllers themselves (`--bootstrap-controller`)."""

    def __init__(self, work: Work, runtime: SimRuntime, name: str) -> None:
        super().__init__(work, runtime, name)
        self._pause_s = self.chance.choice((0.1, 0.7, 3.0))
        self._removal_rate = self.chance.choice((0.1, 0.3, 0.5))
        """While some have no vote: few voters are as interesting as many."""

    def goes_on(self) -> bool:
        return self.work.writing

    async def live(self) -> None:
        async with self._admin() as admin:
            until = self.lifetime()
            while self.work.writing and self.work.now() < until:
                if await self.attempt(lambda: self._change(admin)):
                    self.work.did(self.name)
                await asyncio.sleep(self.chance.expovariate(1.0) * self._pause_s)

    @contextlib.asynccontextmanager
    async def _admin(self) -> AsyncIterator[Admin]:
        if self.chance.random() < 0.5:
            async with Admin(**self.options) as admin:
                yield admin
            return
        options = {**self.options}
        runtime = options.pop("runtime")
        controllers = self.work.shape.controllers
        options["bootstrap_servers"] = [f"{one.host}:{CONTROLLER_PORT}" for one in controllers]
        async with Controllers.of(ClientSettings(**options), runtime) as cluster:
            yield Admin.over(cluster)

    async def _change(self, admin: Admin) -> None:
        quorum = await admin.describe_metadata_quorum()
        outcomes = await asyncio.gather(*self._steps(admin, quorum), return_exceptions=True)
        for outcome in outcomes:
            if outcome is not None:
                raise outcome

    def _steps(self, admin: Admin, quorum: DescribedQuorum) -> list[Coroutine[Any, Any, None]]:
        """One change, or two at once, of which the quorum makes one after the other or one only."""
        count = 2 if self.chance.random() < HASTE_RATE else 1
        shape, voters = self.work.shape, list(quorum.voters)
        followers = electorate.without_vote(quorum, shape)
        if len(voters) > 1 and (not followers or self.chance.random() < self._removal_rate):
            self.chance.shuffle(voters)
            if self.chance.random() < LEADER_RATE:
                voters.sort(key=lambda voter: voter.node_id != quorum.leader)
            leaving = voters[: min(count, len(voters) - 1)]
            return [electorate.remove(admin, voter) for voter in leaving]
        coming = self.chance.sample(followers, min(count, len(followers)))
        return [electorate.add(admin, shape, follower) for follower in coming]
