"""Carries out a plan: sets throttles, begins the moves, waits for them, removes the throttles."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

from ottla.client.admin.admin import Admin
from ottla.client.admin.configs import ConfigResource, ResourceType
from ottla.client.admin.reassignments import Reassignment
from ottla.client.values import TopicPartition
from ottla.protocol.errors import ErrorCode, KafkaError

POLL_S = 0.5
RATES = ("leader.replication.throttled.rate", "follower.replication.throttled.rate")
LEADERS = "leader.replication.throttled.replicas"
FOLLOWERS = "follower.replication.throttled.replicas"

Placement = Mapping[TopicPartition, Sequence[int]]


class Progress(NamedTuple):
    """The progress of moves."""

    moving: int
    """Number of partitions that are not done."""
    bytes_copied: int
    bytes_total: int


class Copied(NamedTuple):
    """Bytes copied of one moving partition."""

    done: int
    whole: int


async def placement_of(
    admin: Admin, partitions: Iterable[TopicPartition]
) -> dict[TopicPartition, tuple[int, ...]]:
    """Return the current replicas of these partitions; raise `TopicMissing` if one is missing."""
    from ottla.client.errors import TopicMissing

    wanted = list(partitions)
    found: dict[TopicPartition, tuple[int, ...]] = {}
    for name in sorted({one.topic for one in wanted}):
        topic = await admin.describe_topic(name)
        found |= {TopicPartition(name, p.index): p.replicas for p in topic.partitions}
    for one in wanted:
        if one not in found:
            raise TopicMissing(one.topic, one.partition)
    return {one: found[one] for one in wanted}


# --- throttles ----------------------------------------------------------------------------------


async def set_throttle(admin: Admin, current: Placement, plan: Placement, bytes_per_s: int) -> None:
    """Throttle the moves; replicas that do not move are not slowed down."""
    involved = {b for replicas in (*current.values(), *plan.values()) for b in replicas}
    brokers = involved.intersection(await _live_brokers(admin))
    changes: dict[ConfigResource, dict[str, str | None]] = {
        _broker(broker): dict.fromkeys(RATES, str(bytes_per_s)) for broker in sorted(brokers)
    }
    for topic in sorted({one.topic for one in plan}):
        leaders, followers = throttled_replicas(topic, current, plan)
        changes[_topic(topic)] = {LEADERS: leaders, FOLLOWERS: followers}
    await _alter(admin, changes)


async def _throttled_topics(admin: Admin) -> list[str]:
    resources = [_topic(name) for name in await admin.list_topics(internal=True)]
    found = await admin.describe_configs(resources)
    return [
        resource.name
        for resource, entries in found.items()
        if not isinstance(entries, KafkaError)
        and any(entry.name in (LEADERS, FOLLOWERS) and entry.value for entry in entries)
    ]


async def _live_brokers(admin: Admin) -> list[int]:
    """Return the brokers that run: a broker takes its own settings, so one that is away cannot."""
    there = (await admin.describe_cluster()).brokers
    return sorted(broker.node_id for broker in there.values() if not broker.is_fenced)


def throttled_replicas(topic: str, current: Placement, plan: Placement) -> tuple[str, str]:
    """Return the replicas that are read from while the topic's partitions move, and those that
    catch up, as `partition:broker` pairs."""
    sources, targets = [], []
    for one, replicas in sorted(plan.items()):
        if one.topic == topic:
            old = current.get(one, ())
            sources += [f"{one.partition}:{broker}" for broker in old]
            targets += [f"{one.partition}:{broker}" for broker in replicas if broker not in old]
    return ",".join(sources), ",".join(targets)


async def clear_throttle(admin: Admin, topics: Iterable[str] | None = None) -> None:
    """Remove the throttles of all brokers, and the throttled replicas of these topics, or of all
    topics that have some."""
    if topics is None:
        topics = await _throttled_topics(admin)
    changes: dict[ConfigResource, dict[str, str | None]] = {
        _broker(broker): dict.fromkeys(RATES) for broker in await _live_brokers(admin)
    }
    for topic in sorted(set(topics)):
        changes[_topic(topic)] = {LEADERS: None, FOLLOWERS: None}
    await _alter(admin, changes)


async def _alter(admin: Admin, changes: Mapping[ConfigResource, Mapping[str, str | None]]) -> None:
    for error in (await admin.alter_configs(changes)).values():
        if error is not None and error.code is not ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            raise error


def _broker(broker_id: int) -> ConfigResource:
    return ConfigResource(ResourceType.BROKER, str(broker_id))


def _topic(name: str) -> ConfigResource:
    return ConfigResource(ResourceType.TOPIC, name)


# --- moves --------------------------------------------------------------------------------------


async def begin(admin: Admin, plan: Mapping[TopicPartition, Sequence[int] | None]) -> None:
    """Begin moves, or cancel them (None); raise the first refusal. The others go on."""
    outcome = await admin.alter_partition_reassignments(plan)
    refused = {one: error for one, error in outcome.items() if error is not None}
    for one, error in sorted(refused.items()):
        raise KafkaError(
            error.code, f"{one}: {error.message} ({len(refused)} of {len(plan)} refused)"
        )


async def check_arrived(admin: Admin, plan: Placement) -> None:
    """Check that the partitions are where the plan wants them: somebody else may have cancelled a
    move. Partitions without replicas in the plan are not checked."""
    wanted = {one: set(replicas) for one, replicas in plan.items() if replicas}
    found = await placement_of(admin, wanted)
    astray = [one for one, replicas in wanted.items() if set(found[one]) != replicas]
    if astray:
        raise KafkaError(
            ErrorCode.NO_REASSIGNMENT_IN_PROGRESS,
            f"{len(astray)} of {len(wanted)} partition(s), such as {min(astray)}, did not get to "
            "where they were to be: somebody cancelled the move, or began another one",
        )


async def watch(
    admin: Admin, partitions: Iterable[TopicPartition], report: Callable[[Progress], object]
) -> None:
    """Return when none of these partitions moves any more; call `report` with the progress."""
    wanted = sorted(set(partitions))
    seen: dict[TopicPartition, Copied] = {}
    while True:
        moving = await admin.list_partition_reassignments(wanted)
        seen |= await measure(admin, moving)
        report(progress_of(seen, moving))
        if not moving:
            return
        await asyncio.sleep(POLL_S)


def progress_of(
    seen: Mapping[TopicPartition, Copied], moving: Collection[TopicPartition]
) -> Progress:
    """Return the progress of all partitions in `seen`. One that is not in `moving` is done."""
    copied = sum(one.done if at in moving else one.whole for at, one in seen.items())
    return Progress(len(moving), copied, sum(one.whole for one in seen.values()))


async def let_first_lead(admin: Admin, partitions: Iterable[TopicPartition]) -> None:
    """Elect the preferred leaders. If that fails now, the cluster does it later
    (auto.leader.rebalance.enable)."""
    if wanted := sorted(partitions):
        await admin.elect_leaders(wanted)


async def measure(
    admin: Admin, moving: Mapping[TopicPartition, Reassignment]
) -> dict[TopicPartition, Copied]:
    """Return the bytes copied. Each added replica copies as much as the largest replica has."""
    if not moving:
        return {}
    sizes: dict[tuple[TopicPartition, int], int] = {}
    for folder in await admin.describe_log_dirs(partitions=moving):
        for replica in folder.replicas:
            if not replica.is_future:
                where = TopicPartition(replica.topic, replica.partition)
                sizes[where, folder.broker] = replica.size_bytes
    found = {}
    for one, move in moving.items():
        whole = max((sizes.get((one, broker), 0) for broker in move.replicas), default=0)
        done = sum(min(whole, sizes.get((one, broker), 0)) for broker in move.adding)
        found[one] = Copied(done, whole * len(move.adding))
    return found
