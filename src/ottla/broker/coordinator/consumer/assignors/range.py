"""Range: each subscriber of a topic gets one run of consecutive partitions.

Topics with the same number of partitions and the same subscribers are cut in the same places, so
the member that reads partition 7 of one topic reads partition 7 of the others: joins work.
"""

from __future__ import annotations

from collections.abc import Mapping

from ottla.broker.coordinator.consumer.assignors.spec import Assignment, MemberSpec


def assign_range(members: Mapping[str, MemberSpec], counts: Mapping[bytes, int]) -> Assignment:
    ordered = sorted(members, key=lambda member_id: _place(member_id, members[member_id]))
    subscribers: dict[bytes, list[str]] = {}
    for member_id in ordered:
        for topic_id in members[member_id].topics:
            subscribers.setdefault(topic_id, []).append(member_id)
    assignment: Assignment = {member_id: {} for member_id in members}
    for topic_id, readers in subscribers.items():
        share, extra = divmod(counts[topic_id], len(readers))
        start = 0
        for place, member_id in enumerate(readers):
            end = start + share + (place < extra)
            if start < end:
                assignment[member_id][topic_id] = frozenset(range(start, end))
            start = end
    return assignment


def _place(member_id: str, member: MemberSpec) -> tuple[bool, str]:
    """Sort key: static members come first, by their instance ids, which survive restarts; so they
    keep their partitions."""
    if member.instance_id is not None:
        return (False, member.instance_id)
    return (True, member_id)
