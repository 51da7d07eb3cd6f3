"""Offset commits per second, by group members, with one partition in each commit.

Measured in three ways: pipelined on one connection, which no client does but which shows the
broker's own limit; one at a time, like a client that commits after every record; and one at a time
from many groups at once.
"""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import Iterator

from bench import coordinator_wire as wire
from bench.brokers import Broker
from bench.members import Group, Member
from bench.requests import exchange
from bench.results import Reading
from bench.sides import Bench
from bench.topics import delete, new_topic
from bench.wire import Peer

WINDOW = 64
GROUPS = 50
PER_S_TARGET = 10_000.0
CPU_US_TARGET = 1e6 / PER_S_TARGET
"""CPU time per commit at that rate on one core."""
ROUND_TIMEOUT_S = 300.0


def run(bench: Bench) -> None:
    seconds = bench.pick(2, 8)
    bench.alternate("commits", lambda broker: _round(broker, seconds), rounds=bench.pick(1, 3))


def _round(broker: Broker, seconds: float) -> list[Reading]:
    topic = new_topic(broker)
    try:
        return asyncio.run(_bounded(broker, topic, seconds))
    finally:
        delete(broker, topic)


async def _bounded(broker: Broker, topic: str, seconds: float) -> list[Reading]:
    mark = uuid.uuid4().hex[:6]
    groups = [Group(f"commits-{mark}-{number}", 1, topic) for number in range(GROUPS)]
    await asyncio.to_thread(wire.await_coordinator, broker.port, groups[0].name)
    try:
        async with asyncio.timeout(ROUND_TIMEOUT_S):
            for group in groups:
                await group.open(broker.port)
            await asyncio.gather(*(group.settle() for group in groups))
            frame = _frame(groups[0].members[0])
            readings = await asyncio.to_thread(_pipelined, broker, frame, seconds)
            readings += await asyncio.to_thread(_one_at_a_time, broker, frame, seconds)
            # The groups that waited meanwhile are well within their session timeout.
            readings += await _at_once(broker, groups, seconds)
            for group in groups:
                await group.leave(group.members)
            return readings
    finally:
        for group in groups:
            group.close()


def _frame(member: Member) -> bytes:
    group = member.group
    return wire.commit_frame(group.name, member.generation, member.id, group.topic, 0, 1)


def _pipelined(broker: Broker, frame: bytes, seconds: float) -> list[Reading]:
    with Peer(broker.port, 30) as peer:
        answer = wire.ready_answer(peer, frame, wire.parse_commit)
        kept = bytearray()
        cpu, started = broker.cpu_s(), time.monotonic()
        count = exchange(peer, _batches(frame * WINDOW, seconds), WINDOW, len(answer), kept)
        taken, used = time.monotonic() - started, broker.cpu_s() - cpu
    if kept != (len(answer).to_bytes(4, "big") + answer) * count:
        raise RuntimeError(f"{broker.name} refused some of {count} offset commits")
    return _readings("pipelined", count, taken, used, PER_S_TARGET)


def _batches(batch: bytes, seconds: float) -> Iterator[bytes]:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        yield batch


def _one_at_a_time(broker: Broker, frame: bytes, seconds: float) -> list[Reading]:
    with Peer(broker.port, 30) as peer:
        wire.ready_answer(peer, frame, wire.parse_commit)
        count = 0
        cpu, started = broker.cpu_s(), time.monotonic()
        while time.monotonic() - started < seconds:
            _check(wire.parse_commit(peer.ask(frame)))
            count += 1
        taken, used = time.monotonic() - started, broker.cpu_s() - cpu
    return _readings("one at a time", count, taken, used)


async def _at_once(broker: Broker, groups: list[Group], seconds: float) -> list[Reading]:
    cpu, started = broker.cpu_s(), time.monotonic()
    end = started + seconds
    members = [group.members[0] for group in groups]
    count = sum(await asyncio.gather(*(_commit_until(end, member) for member in members)))
    taken, used = time.monotonic() - started, broker.cpu_s() - cpu
    return _readings(f"from {GROUPS} groups at once", count, taken, used)


async def _commit_until(end: float, member: Member) -> int:
    frame = _frame(member)
    count = 0
    while time.monotonic() < end:
        _check(wire.parse_commit(await member.ask(frame)))
        count += 1
    return count


def _check(code: int) -> None:
    if code:
        raise RuntimeError(f"an offset commit was answered with error {code}")


def _readings(
    how: str, count: int, taken: float, used: float, target: float | None = None
) -> list[Reading]:
    name = f"offset commits, {how}"
    return [
        Reading(f"{name}: commits", count / taken, "/s", less_is_better=False, target=target),
        Reading(f"{name}: broker CPU", used / count * 1e6, "us", target=CPU_US_TARGET),
    ]
