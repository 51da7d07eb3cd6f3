"""What is wrong with a request is told by every broker, whoever coordinates the group."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from broker_harness import MakeBroker
from broker_wire import Wire
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from ottla.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from ottla.protocol.messages.heartbeat import HeartbeatRequest
from ottla.protocol.messages.join_group import JoinGroupRequest
from ottla.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from ottla.protocol.messages.offset_delete import OffsetDeleteRequest
from ottla.protocol.messages.sync_group import SyncGroupRequest


@pytest.fixture
def wire(fresh_broker: MakeBroker) -> Iterator[Wire]:
    """To a broker that coordinates nothing: nobody has asked for a coordinator yet."""
    wire = Wire(fresh_broker())
    try:
        yield wire
    finally:
        wire.close()


def test_wrong_arguments_are_refused_where_no_group_is_coordinated(wire: Wire) -> None:
    no_id, request = ErrorCode.INVALID_GROUP_ID, ErrorCode.INVALID_REQUEST
    member = MemberIdentity(member_id="m")
    asked: list[tuple[Any, int, ErrorCode]] = [
        (JoinGroupRequest(session_timeout_ms=10_000), 9, no_id),
        (
            JoinGroupRequest(group_id="g", session_timeout_ms=1),
            9,
            ErrorCode.INVALID_SESSION_TIMEOUT,
        ),
        (SyncGroupRequest(protocol_type="consumer", protocol_name="range"), 5, no_id),
        (HeartbeatRequest(), 4, no_id),
        (LeaveGroupRequest(members=[member]), 5, no_id),
        (OffsetDeleteRequest(), 0, no_id),
        (ConsumerGroupHeartbeatRequest(member_id="m"), 1, request),
        (ConsumerGroupHeartbeatRequest(group_id="g"), 1, request),
        (ConsumerGroupHeartbeatRequest(group_id="g", member_id="m"), 1, request),
    ]
    for message, version, expected in asked:
        assert wire.ask(message, version).error_code == expected, message
    (group,) = wire.ask(ConsumerGroupDescribeRequest(group_ids=[""]), 1).groups
    assert group.error_code == no_id


def test_sound_requests_are_sent_to_look_for_the_coordinator(wire: Wire) -> None:
    message = JoinGroupRequest(group_id="g", session_timeout_ms=10_000, protocol_type="consumer")
    assert wire.ask(message, 9).error_code == ErrorCode.NOT_COORDINATOR
    assert wire.ask(HeartbeatRequest(group_id="g"), 4).error_code == (ErrorCode.NOT_COORDINATOR)
