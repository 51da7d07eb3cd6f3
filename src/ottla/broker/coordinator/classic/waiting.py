"""Joins that wait for the next generation, and syncs that wait for the assignment."""

from __future__ import annotations

from typing import Any

from ottla.broker.coordinator.classic.group import ClassicGroup
from ottla.broker.coordinator.outbox import Outbox
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.join_group import JoinGroupResponse
from ottla.protocol.messages.sync_group import SyncGroupResponse
from ottla.protocol.schema import Message


def wait_to_join(group: ClassicGroup, member_id: str, token: Any, outbox: Outbox) -> None:
    """Keep the join waiting. Only a member's newest join counts; an older one is from a lost
    connection."""
    again = JoinGroupResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS, member_id=member_id)
    answer_join(group, member_id, again, outbox)
    group.members.joining[member_id] = token


def wait_to_sync(group: ClassicGroup, member_id: str, token: Any, outbox: Outbox) -> None:
    again = SyncGroupResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS)
    answer_sync(group, member_id, again, outbox)
    group.members.syncing[member_id] = token


def answer_join(
    group: ClassicGroup, member_id: str, response: JoinGroupResponse, outbox: Outbox
) -> bool:
    """Answer the member's join; False if none waits."""
    return _answer(group.members.joining, member_id, response, outbox)


def answer_sync(
    group: ClassicGroup, member_id: str, response: SyncGroupResponse, outbox: Outbox
) -> bool:
    """Answer the member's sync; False if none waits."""
    return _answer(group.members.syncing, member_id, response, outbox)


def _answer(waiting: dict[str, Any], member_id: str, response: Message, outbox: Outbox) -> bool:
    if member_id not in waiting:
        return False
    outbox.reply(waiting.pop(member_id), response)
    return True
