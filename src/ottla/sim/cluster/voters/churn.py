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
from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.sim.cluster.rights import ADMIN, ANONYMOUSLY
from ottla.sim.cluster.shape import CONTROLLER_PORT
from ottla.sim.cluster.voters.electorate import Electorate
from ottla.sim.cluster.work import Client, Work
from ottla.sim.runtime import SimRuntime

LEADER_RATE = 0.25
HASTE_RATE = 0.4


class VoterChurn(Client):
    """Removes voters, often the leader, adds controllers that are not voters, and makes a node with
    a new disk a voter again. It sends its requests to brokers or to the controllers
    (`--bootstrap-controller`)."""

    USER = ADMIN

    def __init__(self, work: Work, runtime: SimRuntime, name: str) -> None:
        super().__init__(work, runtime, name)
        self._pause_s = self.chance.choice((0.1, 0.7, 3.0))
        self._removal_rate = self.chance.choice((0.1, 0.3, 0.5))
        """The rate of removals while some controllers are not voters: few voters should occur
        too."""

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
        options = {**self.options, **ANONYMOUSLY}
        runtime = options.pop("runtime")
        controllers = self.work.shape.controllers
        options["bootstrap_servers"] = [f"{one.host}:{CONTROLLER_PORT}" for one in controllers]
        async with Controllers.of(ClientSettings(**options), runtime) as cluster:
            yield Admin.over(cluster)

    async def _change(self, admin: Admin) -> None:
        folders = self.work.folders
        electorate = Electorate(admin, self.work.shape, folders)
        was_lost = folders.is_lost
        if folders.replacing is None:
            await self._change_some(electorate)
        elif not await electorate.put_right() and was_lost:
            folders.replacing, folders.is_lost = None, False

    async def _change_some(self, electorate: Electorate) -> None:
        quorum = await electorate.look()
        others = electorate.without_vote(quorum)
        if len(quorum.voters) > 1 and (not others or self.chance.random() < self._removal_rate):
            await self._remove_some(electorate, quorum)
        else:
            coming = self.chance.sample(others, min(self._count(), len(others)))
            _check(await _at_once([electorate.add(node_id) for node_id in coming]))

    async def _remove_some(self, electorate: Electorate, quorum: DescribedQuorum) -> None:
        folders, voters = self.work.folders, list(quorum.voters)
        if folders.replacing is not None:
            return  # a disk was lost since the look at the quorum
        self.chance.shuffle(voters)
        count = min(self._count(), len(voters) - 1)
        if count == 2:  # not the leader: it would be gone before the second removal
            voters.sort(key=lambda voter: voter.node_id == quorum.leader)
        elif self.chance.random() < LEADER_RATE:
            voters.sort(key=lambda voter: voter.node_id != quorum.leader)
        leaving = voters[:count]
        folders.unsure_since_s = self.work.now()
        outcomes = await _at_once([electorate.remove(voter) for voter in leaving])
        if all(map(_is_sure, outcomes)):
            folders.unsure_since_s = None
        _check(outcomes)

    def _count(self) -> int:
        """Return how many changes to request at once. Of two, the quorum makes one or both."""
        return 2 if self.chance.random() < HASTE_RATE else 1


async def _at_once(changes: list[Coroutine[Any, Any, None]]) -> list[BaseException | None]:
    return await asyncio.gather(*changes, return_exceptions=True)


def _check(outcomes: list[BaseException | None]) -> None:
    for outcome in outcomes:
        if outcome is not None:
            raise outcome


def _is_sure(outcome: BaseException | None) -> bool:
    """True if the change was made or never will be; after other errors it may still come."""
    answers = (ErrorCode.DUPLICATE_VOTER, ErrorCode.VOTER_NOT_FOUND)
    return outcome is None or (isinstance(outcome, KafkaError) and outcome.code in answers)
