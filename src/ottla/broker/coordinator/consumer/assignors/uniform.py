"""Uniform: the same number of partitions for all members, with as few moves as possible.

If all members subscribe to the same topics, their loads differ by at most one partition, and that
comes before stickiness. If they do not, a perfect balance may be impossible; then no partition is
with a member that has two or more partitions more than another subscriber of its topic.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping

from ottla.broker.coordinator.consumer.assignors.mixed import assign_mixed
from ottla.broker.coordinator.consumer.assignors.spec import Assignment, MemberSpec

TopicPartition = tuple[bytes, int]


def assign_uniform(members: Mapping[str, MemberSpec], counts: Mapping[bytes, int]) -> Assignment:
    if not members:
        return {}
    subscriptions = {member.topics for member in members.values()}
    if len(subscriptions) > 1:
        return assign_mixed(members, counts)
    return _assign_same(members, {topic_id: counts[topic_id] for topic_id in subscriptions.pop()})


def _assign_same(members: Mapping[str, MemberSpec], counts: Mapping[bytes, int]) -> Assignment:
    quota, extras = divmod(sum(counts.values()), len(members))
    taken: set[TopicPartition] = set()
    kept: dict[str, list[TopicPartition]] = {}
    unfilled = []
    for member_id in sorted(members):
        held = _still_valid(members[member_id], counts, taken)
        if len(held) > quota and extras:
            extras -= 1
            kept[member_id] = held[: quota + 1]
        else:
            kept[member_id] = held[:quota]
            unfilled.append(member_id)
        taken.update(kept[member_id])
    missing = {
        member_id: quota + (place < extras) - len(kept[member_id])
        for place, member_id in enumerate(unfilled)
    }
    free = ((topic, index) for topic in sorted(counts) for index in range(counts[topic]))
    _deal([partition for partition in free if partition not in taken], missing, kept)
    return {member_id: _grouped(partitions) for member_id, partitions in kept.items()}


def _still_valid(
    member: MemberSpec, counts: Mapping[bytes, int], taken: set[TopicPartition]
) -> list[TopicPartition]:
    """Return the member's partitions that still exist and that no earlier member has kept."""
    return [
        (topic, index)
        for topic in sorted(member.assigned)
        for index in sorted(member.assigned[topic])
        if index < counts.get(topic, 0) and (topic, index) not in taken
    ]


def _deal(
    free: list[TopicPartition], missing: dict[str, int], kept: dict[str, list[TopicPartition]]
) -> None:
    """Give free partitions to members in turn, so that the partitions of a topic spread out."""
    waiting = deque((member_id, count) for member_id, count in missing.items() if count)
    for partition in free:
        member_id, count = waiting.popleft()
        kept[member_id].append(partition)
        if count > 1:
            waiting.append((member_id, count - 1))


def _grouped(partitions: list[TopicPartition]) -> dict[bytes, frozenset[int]]:
    topics: dict[bytes, set[int]] = {}
    for topic, index in partitions:
        topics.setdefault(topic, set()).add(index)
    return {topic: frozenset(indexes) for topic, indexes in topics.items()}
