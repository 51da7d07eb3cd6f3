"""Faults around a working broker that must not harm it."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable

from ottla.sim.world import World

PAUSE_BETWEEN_S = 0.4


async def make_mischief(
    world: World,
    broker: str,
    client: str,
    chance: random.Random,
    break_disk: Callable[[], None] | None,
) -> None:
    """Inject faults one after another until cancelled; some runs have none."""
    if chance.random() < 0.4:
        return
    breaking = None
    if break_disk is not None and chance.random() < 0.5:
        breaking = world.loop.call_later(chance.random(), break_disk)
    try:
        while True:
            await asyncio.sleep(chance.expovariate(1.0) * PAUSE_BETWEEN_S)
            if world.machine(broker).is_up:
                await _trouble(world, broker, client, chance)
    finally:
        if breaking is not None:
            breaking.cancel()


async def _trouble(world: World, broker: str, client: str, chance: random.Random) -> None:
    seconds = chance.expovariate(1.0) * chance.choice((0.01, 0.2))
    match chance.choice(("cut", "pause", "partition", "freeze", "clock")):
        case "cut":
            world.network.cut_connections(broker, rate=chance.choice((0.3, 1.0)))
        case "pause":
            world.network.pause(broker, seconds)
        case "partition":
            one, other = chance.choice(((broker, client), (client, broker)))
            world.network.partition(one, other, one_way=chance.random() < 0.5)
            await asyncio.sleep(seconds)
            world.network.heal()
        case "freeze":
            world.pause(broker, seconds)
            await asyncio.sleep(seconds)
        case "clock":
            world.machine(broker).clock.jump(chance.randint(-5000, 5000))
