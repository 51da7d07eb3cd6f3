"""The timers of members. Each fences a member that does not act in time."""

from __future__ import annotations

from typing import Final

from ottla.broker.coordinator.consumer.group import ConsumerGroup
from ottla.broker.coordinator.consumer.member import Member
from ottla.broker.coordinator.outbox import Now, Outbox

TimerKey = tuple[str, str, str, str]

SESSION: Final = "session"
"""The session timeout: a member that is silent for this long is removed."""
REBALANCE: Final = "rebalance"
"""The rebalance timeout: a member has this long to revoke partitions."""
JOIN: Final = "join"
"""A classic member was told to rejoin, and has this long to do it."""
SYNC: Final = "sync"
"""A classic member joined, and has this long to ask for its assignment."""


def timer_key(group: ConsumerGroup, purpose: str, member_id: str) -> TimerKey:
    return (group.kind, group.group_id, purpose, member_id)


def set_timer(
    group: ConsumerGroup, purpose: str, member_id: str, after_ms: int, now: Now, outbox: Outbox
) -> None:
    outbox.set_timer(timer_key(group, purpose, member_id), now.ms + after_ms)


def cancel_timer(group: ConsumerGroup, purpose: str, member_id: str, outbox: Outbox) -> None:
    outbox.cancel_timer(timer_key(group, purpose, member_id))


def cancel_timers(group: ConsumerGroup, member_id: str, outbox: Outbox) -> None:
    group.revoking_in.pop(member_id, None)
    group.join_asked.discard(member_id)
    for purpose in (SESSION, REBALANCE, JOIN, SYNC):
        cancel_timer(group, purpose, member_id, outbox)


def start_revoking(group: ConsumerGroup, member: Member, now: Now, outbox: Outbox) -> None:
    """Start the member's time to revoke partitions."""
    group.revoking_in[member.member_id] = member.epoch
    set_timer(group, REBALANCE, member.member_id, member.rebalance_timeout_ms, now, outbox)


def stop_revoking(group: ConsumerGroup, member_id: str, outbox: Outbox) -> None:
    """Cancel the member's time to revoke partitions, if it runs."""
    if group.revoking_in.pop(member_id, None) is not None:
        cancel_timer(group, REBALANCE, member_id, outbox)
