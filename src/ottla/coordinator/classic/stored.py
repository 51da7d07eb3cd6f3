"""A classic group as a record of `__consumer_offsets`, and back."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from ottla.coordinator.classic.member import Member
from ottla.protocol.coordinator_records.group_metadata import (
    GroupMetadataKey,
    GroupMetadataValue,
    MemberMetadata,
)

_FIXED_BYTES: Final = 64
"""What a member takes beside its strings and bytes, and a group beside its members, about."""


def group_key(group_id: str) -> GroupMetadataKey:
    return GroupMetadataKey(group=group_id)


def stored_member(member: Member, protocol: str) -> MemberMetadata:
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


def loaded_members(value: GroupMetadataValue) -> list[Member]:
    """Of a member's protocols only the one that was elected is stored."""
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


def stored_size(members: Iterable[Member], protocol: str) -> int:
    """About how many bytes the record of a group takes."""
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
