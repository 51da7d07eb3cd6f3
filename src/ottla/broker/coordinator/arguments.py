"""Checks of group requests that do not depend on the group, so they run before the coordinator is
looked up.

ConsumerGroupHeartbeat has more to check: see `consumer/requests.py`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.protocol.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from ottla.broker.coordinator.classic.settings import GroupSettings
    from ottla.protocol.messages.join_group import JoinGroupRequest


def require_group_id(group_id: str) -> None:
    if not group_id:
        raise KafkaError(ErrorCode.INVALID_GROUP_ID, "the group id is empty")


def check_join_arguments(request: JoinGroupRequest, settings: GroupSettings) -> None:
    require_group_id(request.group_id)
    lowest, highest = settings.session_timeout_ms_min, settings.session_timeout_ms_max
    if not lowest <= request.session_timeout_ms <= highest:
        raise KafkaError(ErrorCode.INVALID_SESSION_TIMEOUT)
