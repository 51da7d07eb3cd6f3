"""An administrator who moves partitions to just those brokers that have lost their power."""

from __future__ import annotations

from typing import Any

import pytest

from ottla.client.admin.admin import Admin
from ottla.client.values import TopicPartition
from ottla.sim.cluster.churn import Churn
from ottla.sim.cluster.nemesis import Storm
from ottla.sim.cluster.power import PowerFailures
from ottla.sim.scenarios.cluster import play

EVERYWHERE = [1, 2, 3]
MOVES_PAUSE_S = 0.3


@pytest.mark.timeout(240)
def test_replicas_are_not_given_up_for_those_that_lost_power(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It found eight losses in ten seeds while a move was decided by the ISR alone."""
    without_power: list[int] = []
    lose = PowerFailures._lose

    async def tell_and_lose(self: PowerFailures, victims: list[int], **options: Any) -> None:
        without_power[:] = victims
        try:
            await lose(self, victims, **options)
        finally:
            without_power.clear()

    async def move_all(self: Churn, admin: Admin) -> None:
        self._pause_s = MOVES_PAUSE_S
        partitions = [each for topic in self.work.shape.created for each in topic.all()]
        if len(without_power) == 2:
            await move(admin, partitions, without_power)
        elif not without_power and self.chance.random() < 0.2:
            await move(admin, partitions, EVERYWHERE)

    async def move(admin: Admin, partitions: list[TopicPartition], brokers: list[int]) -> None:
        await admin.alter_partition_reassignments({each: list(brokers) for each in partitions})

    monkeypatch.setattr(PowerFailures, "_lose", tell_and_lose)
    monkeypatch.setattr(Churn, "_change", move_all)
    storm = Storm(seconds=25.0, kinds=("fail_power",), pause_s=1.5)
    for seed in range(1, 5):
        without_power.clear()
        play(seed, nodes=3, synced=False, compacted=False, dynamic=False, storm=storm)
