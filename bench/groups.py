"""A group of 200 members: the time until it is stable, first and after each change.

Members send a heartbeat at once after a change, while a consumer's next one may be three seconds
away: so only the broker's part is measured. The first join waits for other members, on either side,
twice the three seconds of `group.initial.rebalance.delay.ms`; its CPU time is that of the whole
wait.
"""

from __future__ import annotations

import asyncio
import time
import uuid
from statistics import fmean

from bench import coordinator_wire as wire
from bench.brokers import Broker
from bench.members import Group
from bench.results import Reading
from bench.sides import Bench

MEMBERS = 200
BEATS = 50
ROUND_TIMEOUT_S = 300.0


def run(bench: Bench) -> None:
    changes = bench.pick(3, 10)
    bench.alternate("groups", lambda broker: _round(broker, changes), rounds=bench.pick(1, 3))


def _round(broker: Broker, changes: int) -> list[Reading]:
    name = f"crowd-{uuid.uuid4().hex[:6]}"
    wire.await_coordinator(broker.port, name)
    return asyncio.run(_bounded(broker, name, changes))


async def _bounded(broker: Broker, name: str, changes: int) -> list[Reading]:
    group = Group(name, MEMBERS, "bench-crowd")
    try:
        async with asyncio.timeout(ROUND_TIMEOUT_S):
            await group.open(broker.port)
            readings = await _joins(broker, group)
            readings += await _rebalances(broker, group, changes)
            readings += await _beats(broker, group)
            await group.leave(group.members)
            return readings
    finally:
        group.close()


async def _joins(broker: Broker, group: Group) -> list[Reading]:
    cpu, started = broker.cpu_s(), time.monotonic()
    await group.settle()
    ended, used = time.monotonic(), broker.cpu_s() - cpu
    name = f"{MEMBERS} members"
    return [
        Reading(f"{name}: first join to stable, with delay", ended - started, "s"),
        Reading(f"{name}: first answer to stable", (ended - group.first_answer_s) * 1e3, "ms"),
        Reading(f"{name}: joins, broker CPU", used * 1e3, "ms"),
    ]


async def _rebalances(broker: Broker, group: Group, changes: int) -> list[Reading]:
    """Let members leave and come back, another one each time."""
    left_ms, joined_ms = [], []
    cpu = broker.cpu_s()
    for _ in range(changes):
        started = time.monotonic()
        changed = group.members.pop()
        await group.leave([changed])
        await group.settle()
        left_ms.append((time.monotonic() - started) * 1e3)
        started = time.monotonic()
        await changed.introduce()
        # In front: its join is sent before the others send a heartbeat and learn of it.
        group.members.insert(0, changed)
        await group.settle()
        joined_ms.append((time.monotonic() - started) * 1e3)
    used = broker.cpu_s() - cpu
    name = f"{MEMBERS} members"
    return [
        Reading(f"{name}: one leaves, rebalanced", fmean(left_ms), "ms"),
        Reading(f"{name}: one joins, rebalanced", fmean(joined_ms), "ms"),
        Reading(f"{name}: a rebalance, broker CPU", used / changes / 2 * 1e3, "ms"),
    ]


async def _beats(broker: Broker, group: Group) -> list[Reading]:
    cpu, started = broker.cpu_s(), time.monotonic()
    for _ in range(BEATS):
        if any(await asyncio.gather(*(member.beat() for member in group.members))):
            raise RuntimeError(f"{broker.name} rebalances a group that nothing happened to")
    taken, used = time.monotonic() - started, broker.cpu_s() - cpu
    total = BEATS * MEMBERS
    name = f"heartbeats of {MEMBERS} members"
    return [
        Reading(f"{name}: requests", total / taken, "/s", less_is_better=False),
        Reading(f"{name}: broker CPU", used / total * 1e6, "us"),
    ]
