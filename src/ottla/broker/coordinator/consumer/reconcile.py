"""How a member moves from its assignment to its target.

    Stable ---- target revokes partitions ----> Unrevoked: keeps its epoch until it has revoked
       |                                            |
       +---- nothing to revoke ----+--- revoked ----+
                                   v
              moves to the target's epoch with all free partitions
                   |                                  |
             all are free: Stable      some are still owned: Unreleased, checked
                                       again at each heartbeat

A member only ever waits for partitions that others still own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

from ottla.broker.coordinator.consumer.assignors import Partitions
from ottla.broker.coordinator.consumer.member import Held, Member, MemberState

Owned = Mapping[bytes, Iterable[int]]
"""The partitions that a member reports to own."""


def reconcile(
    member: Member,
    target_epoch: int,
    target: Partitions,
    subscribed: frozenset[bytes],
    owned: Owned | None,
    is_free: Callable[[bytes, int], bool],
    subscription_changed: bool,
) -> Member:
    """Return the member's next state; the member itself if it cannot move now.

    `owned` is what it reported, if it did. `is_free` tells whether no other member owns a
    partition.
    """
    if member.state == MemberState.STABLE and member.epoch == target_epoch:
        return _without_unsubscribed(member, subscribed, owned) if subscription_changed else member
    if member.state == MemberState.UNREVOKED_PARTITIONS and _has_any(owned, member.revoking):
        return _without_unsubscribed(member, subscribed, owned) if subscription_changed else member
    return _towards(member, target_epoch, target, subscribed, owned, is_free)


def _towards(
    member: Member,
    target_epoch: int,
    target: Partitions,
    subscribed: frozenset[bytes],
    owned: Owned | None,
    is_free: Callable[[bytes, int], bool],
) -> Member:
    assigned: dict[bytes, dict[int, int]] = {}
    revoking: dict[bytes, dict[int, int]] = {}
    for topic_id, held in member.assigned.items():
        # It must revoke topics it no longer subscribes to, even if the target still has them.
        wanted = target.get(topic_id, frozenset()) if topic_id in subscribed else frozenset()
        for index, epoch in held.items():
            place = assigned if index in wanted else revoking
            place.setdefault(topic_id, {})[index] = epoch
    if revoking and _has_any(owned, revoking):
        return _unrevoked(member, assigned, revoking)
    waits = False
    for topic_id, indexes in target.items():
        if topic_id not in subscribed:
            continue
        for index in indexes - assigned.get(topic_id, {}).keys():
            if is_free(topic_id, index):
                assigned.setdefault(topic_id, {})[index] = target_epoch
            else:
                waits = True
    return replace(
        member,
        state=MemberState.UNRELEASED_PARTITIONS if waits else MemberState.STABLE,
        epoch=target_epoch,
        previous_epoch=member.epoch,
        assigned=assigned,
        revoking={},
    )


def _without_unsubscribed(
    member: Member, subscribed: frozenset[bytes], owned: Owned | None
) -> Member:
    """Revoke topics that the member just unsubscribed from at once, even if the target still has
    them."""
    gone = {topic_id for topic_id in member.assigned if topic_id not in subscribed}
    if not gone:
        return member
    assigned = {topic: held for topic, held in member.assigned.items() if topic not in gone}
    revoking = dict(member.revoking)
    for topic_id in gone:
        revoking[topic_id] = {**revoking.get(topic_id, {}), **member.assigned[topic_id]}
    if _has_any(owned, revoking):
        return _unrevoked(member, assigned, revoking)
    return replace(member, previous_epoch=member.epoch, assigned=assigned)


def _unrevoked(member: Member, assigned: Held, revoking: Held) -> Member:
    return replace(
        member,
        state=MemberState.UNREVOKED_PARTITIONS,
        previous_epoch=member.epoch,
        assigned=assigned,
        revoking=revoking,
    )


def _has_any(owned: Owned | None, partitions: Held) -> bool:
    """True if the member may own one of these. If it does not report what it owns, it may own
    all."""
    if owned is None:
        return True
    return any(
        index in partitions[topic_id]
        for topic_id, indexes in owned.items()
        if topic_id in partitions
        for index in indexes
    )
