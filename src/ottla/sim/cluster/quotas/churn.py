"""Administration that sets, changes and removes quotas while everything else goes on."""

from __future__ import annotations

import asyncio

from ottla.client.admin.admin import Admin
from ottla.client.admin.quotas import QuotaEntity
from ottla.sim.cluster.quotas.limited import ALWAYS, FIRST, FIRST_UNFAIR, UNFAIR, Choice
from ottla.sim.cluster.rights import ADMIN
from ottla.sim.cluster.work import Client, Work
from ottla.sim.runtime import SimRuntime

PAUSE_S = 2.0
REMOVAL_RATE = 0.2


class QuotaChurn(Client):
    USER = ADMIN

    def __init__(self, work: Work, runtime: SimRuntime, name: str) -> None:
        super().__init__(work, runtime, name)
        self._first = list(FIRST if work.is_fair else FIRST_UNFAIR)
        """What is still to be set before anything else."""

    def goes_on(self) -> bool:
        return self.work.writing

    async def live(self) -> None:
        async with Admin(**self.options) as admin:
            until = self.lifetime()
            while self.work.writing and self.work.now() < until:
                change = self._change if self.work.healed_s is None else self._remove_all
                if await self.attempt(lambda: change(admin)):  # noqa: B023
                    self.work.did(self.name)
                await asyncio.sleep((0.5 + self.chance.random()) * PAUSE_S)

    async def _change(self, admin: Admin) -> None:
        if self._first:
            await _alter(admin, {entity: {key: values[0]} for entity, key, values in self._first})
            self._first.clear()
            return
        choices: tuple[Choice, ...] = ALWAYS if self.work.is_fair else (*ALWAYS, *UNFAIR)
        entity, key, values = self.chance.choice(choices)
        value = None if self.chance.random() < REMOVAL_RATE else self.chance.choice(values)
        await _alter(admin, {entity: {key: value}})

    async def _remove_all(self, admin: Admin) -> None:
        found = await admin.describe_client_quotas()
        await _alter(admin, {entity: dict.fromkeys(quotas) for entity, quotas in found.items()})


async def _alter(admin: Admin, changes: dict[QuotaEntity, dict[str, float | None]]) -> None:
    for error in (await admin.alter_client_quotas(changes)).values():
        if error is not None:
            raise error
