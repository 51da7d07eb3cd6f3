"""The uniform assignment for members that subscribe to different topics.

Each member first keeps the partitions it may keep. The rest goes to the least loaded subscribers;
then partitions move from more to less loaded subscribers of their topic until no move helps. A move
takes a partition from a member to one that has at least two fewer, so the loads only ever come
closer to each other, and this ends.
"""

from __future__ import annotations

from collections.abc import Mapping
from heapq import heapify, heappop, heappush, heapreplace

from ottla.broker.coordinator.consumer.assignors.spec import Assignment, MemberSpec

Owned = dict[str, set[int]]
"""The partitions of one topic, by member."""


def assign_mixed(members: Mapping[str, MemberSpec], counts: Mapping[bytes, int]) -> Assignment:
    subscribers: dict[bytes, list[str]] = {}
    for member_id in sorted(members):
        for topic_id in members[member_id].topics:
            subscribers.setdefault(topic_id, []).append(member_id)
    owned = {
        topic_id: _kept(topic_id, readers, members, counts[topic_id])
        for topic_id, readers in subscribers.items()
    }
    loads = dict.fromkeys(members, 0)
    for owners in owned.values():
        for member_id, indexes in owners.items():
            loads[member_id] += len(indexes)
    # Topics with few subscribers come first: those with many can balance the loads afterwards.
    ordered = sorted(subscribers, key=lambda topic_id: (len(subscribers[topic_id]), topic_id))
    for topic_id in ordered:
        _give(owned[topic_id], subscribers[topic_id], counts[topic_id], loads)
    moved = True
    while moved:
        moved = False
        for topic_id in ordered:
            moved |= _balance(owned[topic_id], subscribers[topic_id], loads)
    return _by_member(members, owned)


def _kept(
    topic_id: bytes, readers: list[str], members: Mapping[str, MemberSpec], count: int
) -> Owned:
    taken: set[int] = set()
    owners: Owned = {}
    for member_id in readers:
        held = members[member_id].assigned.get(topic_id)
        if held is None:
            continue
        owners[member_id] = {index for index in held if index < count} - taken
        taken |= owners[member_id]
    return owners


def _give(owners: Owned, readers: list[str], count: int, loads: dict[str, int]) -> None:
    """Give each partition without an owner to the least loaded reader."""
    taken = {index for indexes in owners.values() for index in indexes}
    heap = [(loads[member_id], member_id) for member_id in readers]
    heapify(heap)
    for index in range(count):
        if index in taken:
            continue
        load, member_id = heap[0]
        owners.setdefault(member_id, set()).add(index)
        loads[member_id] = load + 1
        heapreplace(heap, (load + 1, member_id))


def _balance(owners: Owned, readers: list[str], loads: dict[str, int]) -> bool:
    """Move partitions of this topic while that evens out the loads; True if any was moved."""
    if len(readers) < 2:
        return False
    least = [(loads[member_id], member_id) for member_id in readers]
    most = [(-loads[member_id], member_id) for member_id in readers if owners.get(member_id)]
    heapify(least)
    heapify(most)
    moved = False
    while most:
        # Entries of members whose load has changed are stale; new ones were pushed.
        if -most[0][0] != loads[most[0][1]] or not owners[most[0][1]]:
            heappop(most)
            continue
        while least[0][0] != loads[least[0][1]]:
            heappop(least)
        giver, taker = most[0][1], least[0][1]
        if loads[giver] - loads[taker] < 2:
            break
        index = max(owners[giver])
        owners[giver].remove(index)
        owners.setdefault(taker, set()).add(index)
        for member_id, change in ((giver, -1), (taker, 1)):
            loads[member_id] += change
            heappush(least, (loads[member_id], member_id))
            heappush(most, (-loads[member_id], member_id))
        moved = True
    return moved


def _by_member(members: Mapping[str, MemberSpec], owned: dict[bytes, Owned]) -> Assignment:
    assignment: Assignment = {member_id: {} for member_id in members}
    for topic_id, owners in owned.items():
        for member_id, indexes in owners.items():
            if indexes:
                assignment[member_id][topic_id] = frozenset(indexes)
    return assignment
