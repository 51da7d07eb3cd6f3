"""Group epochs, target assignments, and members that move to them.

a change -> the group's epoch is bumped -> a target is computed for that epoch
    -> at its next heartbeats each member is moved to it
"""

from __future__ import annotations

from ottla.broker.coordinator.consumer.assignors import ASSIGNORS, MemberSpec
from ottla.broker.coordinator.consumer.group import ConsumerGroup
from ottla.broker.coordinator.consumer.member import Member, MemberState
from ottla.broker.coordinator.consumer.reconcile import Owned, reconcile
from ottla.broker.coordinator.consumer.subscriptions import (
    current_hash,
    drop_unused_regexes,
    metadata_changed,
    resolve_regexes,
    rights_are_unknown,
    rights_may_have_changed,
    topic_ids,
)
from ottla.broker.coordinator.consumer.timers import start_revoking, stop_revoking
from ottla.broker.coordinator.consumer.writing import (
    drop_partition_metadata,
    write_assignment_epoch,
    write_current,
    write_epoch,
    write_target,
)
from ottla.broker.coordinator.outbox import Now, Outbox

# --- the group ----------------------------------------------------------------------------------


def bump_if(group: ConsumerGroup, changed: bool, now: Now, outbox: Outbox) -> None:
    """Bump the group's epoch if the caller changed something or the topics have changed."""
    if not changed and not metadata_changed(group) and not rights_may_have_changed(group, now):
        return
    if rights_are_unknown(group):
        changed |= drop_unused_regexes(group, outbox)
    else:
        changed |= resolve_regexes(group, now, outbox)
        group.topics_seen, group.brokers_seen = group.image.topics, group.image.brokers
    current = current_hash(group)
    if changed or current != group.metadata_hash:
        bump(group, current, outbox)


def bump(group: ConsumerGroup, metadata_hash: int, outbox: Outbox) -> None:
    write_epoch(group, group.epoch + 1, metadata_hash, outbox)
    if group.has_partition_metadata:
        drop_partition_metadata(group, outbox)


def assign_if_due(group: ConsumerGroup, now: Now, outbox: Outbox) -> None:
    """Compute a new target, but not too often: members that join meanwhile are part of the next
    one."""
    if group.epoch <= group.assignment_epoch:
        return
    due_ms = group.assignment_timestamp_ms + group.settings.assignment_interval_ms
    if group.assignment_timestamp_ms <= now.wall_ms < due_ms:
        return
    assign = ASSIGNORS[group.assignor]
    specs, counts = _specs(group)
    for member_id, target in assign(specs, counts).items():
        if group.targets.get(member_id) != target:
            write_target(group, member_id, target, outbox)
    write_assignment_epoch(group, now.wall_ms, outbox)


def _specs(group: ConsumerGroup) -> tuple[dict[str, MemberSpec], dict[bytes, int]]:
    same: dict[tuple[frozenset[str], str], frozenset[bytes]] = {}
    specs = {}
    for member_id, member in group.members.items():
        wanted = (member.topics, member.regex)
        if wanted not in same:
            same[wanted] = topic_ids(group, member)
        specs[member_id] = MemberSpec(
            same[wanted], group.targets.get(member_id, {}), member.instance_id
        )
    by_id = group.image.topics_by_id
    counts = {id_: len(by_id[id_].partitions) for ids in same.values() for id_ in ids}
    return specs, counts


# --- members ------------------------------------------------------------------------------------


def follow(
    group: ConsumerGroup,
    member_id: str,
    owned: Owned | None,
    subscription_changed: bool,
    now: Now,
    outbox: Outbox,
) -> None:
    """Move the member as far towards its target as possible now."""
    member = group.members[member_id]
    if not subscription_changed and member.is_reconciled_to(group.assignment_epoch):
        return
    updated = _reconciled(group, member, owned, subscription_changed)
    if updated == member:
        return
    write_current(group, updated, outbox)
    if updated.uses_classic:
        return  # classic members have timers of their own
    if updated.state == MemberState.UNREVOKED_PARTITIONS:
        start_revoking(group, updated, now, outbox)
    else:
        stop_revoking(group, member_id, outbox)


def _reconciled(
    group: ConsumerGroup, member: Member, owned: Owned | None, subscription_changed: bool
) -> Member:
    def is_free(topic_id: bytes, index: int) -> bool:
        return group.owners.get(topic_id, {}).get(index) in (None, member.member_id)

    return reconcile(
        member,
        group.assignment_epoch,
        group.targets.get(member.member_id, {}),
        topic_ids(group, member),
        owned,
        is_free,
        subscription_changed,
    )


def waits_for_others(group: ConsumerGroup, member: Member) -> bool:
    """True if another member still owns a partition of this member's target."""
    return any(
        group.owners.get(topic_id, {}).get(index) not in (None, member.member_id)
        for topic_id, indexes in group.targets.get(member.member_id, {}).items()
        for index in indexes
    )
