"""Joining, silent and leaving members of both protocols."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from ottla.broker.coordinator.consumer.assigning import bump
from ottla.broker.coordinator.consumer.downgrade import downgrade, would_downgrade
from ottla.broker.coordinator.consumer.group import ConsumerGroup
from ottla.broker.coordinator.consumer.member import STATIC_LEAVING_EPOCH, Member, MemberState
from ottla.broker.coordinator.consumer.subscriptions import current_hash, drop_unused_regexes
from ottla.broker.coordinator.consumer.timers import (
    REBALANCE,
    SESSION,
    TimerKey,
    cancel_timers,
    set_timer,
    start_revoking,
)
from ottla.broker.coordinator.consumer.writing import (
    write_current,
    write_gone,
    write_member,
    write_target,
    write_tombstones,
)
from ottla.broker.coordinator.outbox import Now, Outbox
from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.uuids import random_uuid, to_text

# --- identity -----------------------------------------------------------------------------------


def new_member_id(group: ConsumerGroup) -> str:
    return to_text(random_uuid(group.random))


def check_room(group: ConsumerGroup) -> None:
    """Raise if the group is full. Only for new members: a static member that returns takes its old
    place."""
    most = group.settings.members_max
    if len(group.members) >= most:
        raise KafkaError(
            ErrorCode.GROUP_MAX_SIZE_REACHED,
            f"group {group.group_id} has the {most} members it may have",
        )


def known_member(group: ConsumerGroup, member_id: str, instance_id: str | None) -> Member:
    """Return the member that sends a request; raise `KafkaError` if it is not a member."""
    if instance_id is not None:
        owner = group.static_ids.get(instance_id)
        if owner is None:
            raise KafkaError(
                ErrorCode.UNKNOWN_MEMBER_ID,
                f"no member of group {group.group_id} has the instance id {instance_id}",
            )
        if owner != member_id:
            raise KafkaError(
                ErrorCode.FENCED_INSTANCE_ID,
                f"member {owner} has taken over the instance id {instance_id}",
            )
    member = group.members.get(member_id)
    if member is None:
        raise KafkaError(
            ErrorCode.UNKNOWN_MEMBER_ID, f"{member_id} is no member of group {group.group_id}"
        )
    return member


def replace_static(group: ConsumerGroup, old: Member, new_id: str, outbox: Outbox) -> None:
    """Give a static member a new id, with its target and assignment."""
    target = group.targets.get(old.member_id, {})
    write_gone(group, old.member_id, outbox)
    new = replace(old, member_id=new_id, epoch=0, previous_epoch=0)
    write_member(group, new, outbox)
    write_target(group, new_id, target, outbox)
    write_current(group, new, outbox)
    cancel_timers(group, old.member_id, outbox)


# --- leaving ------------------------------------------------------------------------------------


def remove(group: ConsumerGroup, leaving: Collection[Member], now: Now, outbox: Outbox) -> None:
    """Remove members for good and free their partitions."""
    downgrades = would_downgrade(group, leaving)
    for member in leaving:
        write_gone(group, member.member_id, outbox)
        cancel_timers(group, member.member_id, outbox)
    if downgrades:
        downgrade(group, "the last member of the consumer protocol left", now, outbox)
        return
    drop_unused_regexes(group, outbox)
    bump(group, current_hash(group), outbox)


def leave_for_a_while(group: ConsumerGroup, member: Member, outbox: Outbox) -> None:
    """Let a static member leave temporarily: it keeps its partitions until its session ends."""
    write_current(
        group,
        replace(
            member,
            epoch=STATIC_LEAVING_EPOCH,
            assigned={
                topic_id: dict.fromkeys(indexes, 0) for topic_id, indexes in member.assigned.items()
            },
            revoking={},
        ),
        outbox,
    )


# --- the life of the group ----------------------------------------------------------------------


def loaded(group: ConsumerGroup, now: Now, outbox: Outbox) -> None:
    """Start the sessions of all members after loading: each has its session timeout to send a
    request."""
    for member_id, member in group.members.items():
        session_ms = group.settings.session_timeout_ms
        if member.classic is not None:
            session_ms = member.classic.session_timeout_ms
        set_timer(group, SESSION, member_id, session_ms, now, outbox)
        if not member.uses_classic and member.state == MemberState.UNREVOKED_PARTITIONS:
            start_revoking(group, member, now, outbox)


def timer_fired(group: ConsumerGroup, key: TimerKey, now: Now, outbox: Outbox) -> None:
    """Fence a member that did not act in time."""
    purpose, member_id = key[2:]
    member = group.members.get(member_id)
    if member is None:
        return
    if purpose == REBALANCE:
        epoch = group.revoking_in.pop(member_id, None)
        if member.state != MemberState.UNREVOKED_PARTITIONS or member.epoch != epoch:
            return  # it revoked its partitions and has a new epoch
    remove(group, [member], now, outbox)


def delete(group: ConsumerGroup, _now: Now, outbox: Outbox) -> None:
    """Write the tombstones of the group; the offsets stay."""
    for member_id in group.members:
        cancel_timers(group, member_id, outbox)
    write_tombstones(group, outbox)
