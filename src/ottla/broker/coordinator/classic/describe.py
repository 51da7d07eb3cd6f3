"""A classic group as DescribeGroups shows it."""

from __future__ import annotations

from ottla.broker.coordinator.classic.group import ClassicGroup
from ottla.broker.coordinator.classic.state import GroupState
from ottla.protocol.messages.describe_groups import DescribedGroup, DescribedGroupMember


def describe(group: ClassicGroup) -> DescribedGroup:
    protocol = group.protocol_name if group.state is GroupState.STABLE else None
    return DescribedGroup(
        group_id=group.group_id,
        group_state=group.state.value,
        protocol_type=group.protocol_type or "",
        protocol_data=protocol or "",
        members=[
            DescribedGroupMember(
                member_id=member.member_id,
                group_instance_id=member.instance_id,
                client_id=member.client_id,
                client_host=member.client_host,
                member_metadata=b"" if protocol is None else member.protocols[protocol],
                member_assignment=member.assignment,
            )
            for member in group.members
        ],
    )
