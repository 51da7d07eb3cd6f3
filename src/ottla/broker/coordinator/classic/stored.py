"""A classic group as a record of `__consumer_offsets`, and back."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from ottla.broker.coordinator.classic.group import ClassicGroup
from ottla.broker.coordinator.classic.member import Member
from ottla.broker.coordinator.classic.members import Members
from ottla.broker.coordinator.classic.state import GroupState
from ottla.broker.coordinator.outbox import Now, Outbox
from ottla.protocol.coordinator_records.group_metadata import (
    GroupMetadataKey,
    GroupMetadataValue,
    MemberMetadata,
)

VALUE_VERSION: Final = 3
"""Newer versions can be read, but Kafka does not write them yet."""
_FIXED_BYTES: Final = 64
"""About the size of a member without its strings and bytes, and of a group without its members."""


def group_key(group_id: str) -> GroupMetadataKey:
    return GroupMetadataKey(group=group_id)


# --- writing ------------------------------------------------------------------------------------


def store(group: ClassicGroup, outbox: Outbox) -> None:
    protocol = group.protocol_name
    value = GroupMetadataValue(
        protocol_type=group.protocol_type or "",
        generation=group.generation,
        protocol=protocol,
        leader=group.members.leader_id,
        current_state_timestamp=-1 if group.state_since_ms is None else group.state_since_ms,
    )
    if protocol is not None:
        value.members = [_stored_member(member, protocol) for member in group.members]
    outbox.append(group_key(group.group_id), value)
    group.is_stored = True


def store_if_new(group: ClassicGroup, now: Now, outbox: Outbox) -> None:
    """Store a group on its first join, before any member gets an answer."""
    if group.is_stored or group.state is GroupState.DEAD:
        return
    if group.state_since_ms is None:
        group.state_since_ms = now.wall_ms
    value = GroupMetadataValue(
        protocol=None, leader=None, current_state_timestamp=group.state_since_ms
    )
    outbox.append(group_key(group.group_id), value)
    group.is_stored = True


def _stored_member(member: Member, protocol: str) -> MemberMetadata:
    return MemberMetadata(
        member_id=member.member_id,
        group_instance_id=member.instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        rebalance_timeout=member.rebalance_timeout_ms,
        session_timeout=member.session_timeout_ms,
        subscription=member.protocols[protocol],
        assignment=member.assignment,
    )


def fits_on_record(group: ClassicGroup) -> bool:
    assert group.protocol_name is not None
    return _stored_size(group.members, group.protocol_name) <= group.settings.record_bytes_max


def _stored_size(members: Iterable[Member], protocol: str) -> int:
    """Return the approximate size of a group's record."""
    return _FIXED_BYTES + sum(
        _FIXED_BYTES
        + len(member.member_id)
        + len(member.instance_id or "")
        + len(member.client_id)
        + len(member.client_host)
        + len(member.protocols[protocol])
        + len(member.assignment)
        for member in members
    )


# --- replay -------------------------------------------------------------------------------------


def replay(group: ClassicGroup, value: GroupMetadataValue | None) -> None:
    """Restore the state from a record. A tombstone ends the group."""
    group.members = Members()
    group.unsynced.clear()
    if value is None:
        group.state = GroupState.DEAD
        return
    group.is_stored = True
    group.generation = value.generation
    group.protocol_type = value.protocol_type or None
    group.protocol_name = value.protocol
    timestamp_ms = value.current_state_timestamp
    group.state_since_ms = None if timestamp_ms == -1 else timestamp_ms
    for member in _loaded_members(value):
        group.members.add(member)
    if value.leader is not None:
        group.members.leader_id = value.leader
    group.state = GroupState.STABLE if value.members else GroupState.EMPTY
    group.note_subscriptions()


def _loaded_members(value: GroupMetadataValue) -> list[Member]:
    """Return the members of a stored group; only the elected protocol of each is stored."""
    return [
        Member(
            stored.member_id,
            instance_id=stored.group_instance_id,
            client_id=stored.client_id,
            client_host=stored.client_host,
            rebalance_timeout_ms=(
                stored.session_timeout
                if stored.rebalance_timeout == -1
                else stored.rebalance_timeout
            ),
            session_timeout_ms=stored.session_timeout,
            protocols={value.protocol or "": stored.subscription},
            assignment=stored.assignment,
        )
        for stored in value.members
    ]
