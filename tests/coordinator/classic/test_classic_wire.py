"""Classic groups over the wire: every version of the four requests, and the shape of refusals.

With OTTLA_TEST_TARGET=kafka the same is asked of Apache Kafka.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator
from typing import Any

import pytest
from bench.brokers import Broker
from classic_stage import subscription

from broker_harness import MakeBroker
from broker_wire import Wire
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.describe_groups import DescribeGroupsRequest
from ottla.protocol.messages.find_coordinator import FindCoordinatorRequest
from ottla.protocol.messages.heartbeat import HeartbeatRequest
from ottla.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from ottla.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from ottla.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment

NO_DELAY = {"group.initial.rebalance.delay.ms": "0"}
STATIC_FROM = 5


@pytest.fixture
def quick_broker(fresh_broker: MakeBroker) -> Broker:
    broker = fresh_broker(NO_DELAY)
    coordinate(broker, "g")
    return broker


def coordinate(broker: Broker, group: str) -> None:
    """Wait for the group's coordinator; the first question creates its topic."""
    wire = Wire(broker)
    deadline = time.monotonic() + 20
    beat = HeartbeatRequest(group_id=group, member_id="m", generation_id=1)
    while True:
        wire.ask(FindCoordinatorRequest(key=group), 3)
        answer = wire.ask(beat, 4)
        if answer.error_code == ErrorCode.UNKNOWN_MEMBER_ID:
            break
        assert time.monotonic() < deadline, f"no coordinator: {answer}"
        time.sleep(0.1)
    wire.close()


@pytest.fixture
def wire(quick_broker: Broker) -> Iterator[Wire]:
    one = Wire(quick_broker)
    yield one
    one.close()


def join_request(group: str = "g", member_id: str = "", **fields: Any) -> JoinGroupRequest:
    values: dict[str, Any] = {
        "group_id": group,
        "member_id": member_id,
        "session_timeout_ms": 10_000,
        "rebalance_timeout_ms": 20_000,
        "protocol_type": "consumer",
        "protocols": [JoinGroupRequestProtocol(name="range", metadata=subscription(["t"]))],
    }
    return JoinGroupRequest(**(values | fields))


def test_every_version_joins_syncs_beats_and_leaves(wire: Wire) -> None:
    for version in range(10):
        group = f"g{version}"
        sync, beat, leave = min(version, 5), min(version, 4), min(version, 5)
        joined = wire.ask(join_request(group), version)
        if version >= 4:
            assert joined.error_code == ErrorCode.MEMBER_ID_REQUIRED
            assert (joined.generation_id, joined.protocol_name) == (-1, no_protocol(version))
            joined = wire.ask(join_request(group, joined.member_id), version)
        me = joined.member_id
        assert joined.error_code == 0
        assert (joined.generation_id, joined.leader) == (1, me)
        assert joined.protocol_name == "range"
        assert joined.protocol_type == ("consumer" if version >= 7 else None)
        assert [one.member_id for one in joined.members] == [me]
        synced = wire.ask(
            SyncGroupRequest(
                group_id=group,
                member_id=me,
                generation_id=1,
                protocol_type="consumer",
                protocol_name="range",
                assignments=[SyncGroupRequestAssignment(member_id=me, assignment=b"work")],
            ),
            sync,
        )
        assert (synced.error_code, synced.assignment) == (0, b"work")
        assert synced.protocol_name == ("range" if sync >= 5 else None)
        heard = wire.ask(HeartbeatRequest(group_id=group, member_id=me, generation_id=1), beat)
        assert heard.error_code == 0
        left = wire.ask(leave_request(group, me, leave), leave)
        assert left.error_code == 0
        assert [one.error_code for one in left.members] == ([0] if leave >= 3 else [])
        described = wire.ask(DescribeGroupsRequest(groups=[group]), 5).groups[0]
        assert (described.group_state, described.protocol_type) == ("Empty", "consumer")


def no_protocol(version: int) -> str | None:
    return None if version >= 7 else ""


def leave_request(group: str, member_id: str, version: int) -> LeaveGroupRequest:
    if version < 3:
        return LeaveGroupRequest(group_id=group, member_id=member_id)
    return LeaveGroupRequest(group_id=group, members=[MemberIdentity(member_id=member_id)])


@pytest.mark.parametrize("group", ["g", "another", ""])
def test_refusals_have_the_shape_of_their_version(quick_broker: Broker, group: str) -> None:
    """Of a group that exists, of one that does not, and of one without a name."""
    wire = Wire(quick_broker)
    if group == "g":
        assert wire.ask(join_request("g"), 4).error_code == ErrorCode.MEMBER_ID_REQUIRED
    expected = ErrorCode.UNKNOWN_MEMBER_ID if group else ErrorCode.INVALID_GROUP_ID
    for version in range(10):
        refused = wire.ask(join_request(group, "nobody"), version)
        assert (refused.error_code, refused.member_id) == (expected, "nobody")
        assert refused.protocol_name == no_protocol(version)
    for version in range(6):
        request = SyncGroupRequest(
            group_id=group, member_id="m", generation_id=1, protocol_type="c", protocol_name="p"
        )
        assert wire.ask(request, version).error_code == expected
    for version in range(5):
        beat = HeartbeatRequest(group_id=group, member_id="m", generation_id=1)
        assert wire.ask(beat, version).error_code == expected
    for version in range(6):
        left = wire.ask(leave_request(group, "m", version), version)
        if version < 3 or not group:
            assert (left.error_code, left.members) == (expected, [])
        else:
            assert left.error_code == 0
            assert [(one.member_id, one.error_code) for one in left.members] == [("m", expected)]


def test_requests_that_cannot_be_right_are_refused(wire: Wire) -> None:
    for session_ms in (5_999, 1_800_001):
        refused = wire.ask(join_request(session_timeout_ms=session_ms), 9)
        assert refused.error_code == ErrorCode.INVALID_SESSION_TIMEOUT
    for wrong in ({"protocols": []}, {"protocol_type": ""}):
        refused = wire.ask(join_request(**wrong), 9)
        assert refused.error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    sync = SyncGroupRequest(group_id="g", member_id="m", generation_id=1)
    refused = wire.ask(sync, 5)
    assert refused.error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    left = wire.ask(LeaveGroupRequest(group_id="g"), 5)
    assert (left.error_code, left.members) == (0, [])


@pytest.mark.parametrize("version", range(STATIC_FROM, 10))
def test_a_static_member_that_restarts_fences_its_old_self(broker: Broker, version: int) -> None:
    group = f"static.{uuid.uuid4().hex}"
    coordinate(broker, group)
    old, new = Wire(broker), Wire(broker)
    request = join_request(group, group_instance_id="i1")
    first = old.ask(request, version)
    assert first.error_code == 0
    assignments = [SyncGroupRequestAssignment(member_id=first.member_id, assignment=b"work")]
    sync = SyncGroupRequest(
        group_id=group,
        member_id=first.member_id,
        generation_id=first.generation_id,
        group_instance_id="i1",
        assignments=assignments,
    )
    assert old.ask(sync, 3).assignment == b"work"
    second = new.ask(request, version)
    assert (second.error_code, second.generation_id) == (0, first.generation_id)
    assert second.member_id != first.member_id
    assert second.skip_assignment is (version >= 9)
    assert second.leader == (second.member_id if version >= 9 else first.member_id)
    assert old.ask(sync, 3).error_code == ErrorCode.FENCED_INSTANCE_ID
    beat = HeartbeatRequest(
        group_id=group,
        member_id=first.member_id,
        generation_id=first.generation_id,
        group_instance_id="i1",
    )
    assert old.ask(beat, 4).error_code == ErrorCode.FENCED_INSTANCE_ID
    sync.member_id, sync.assignments = second.member_id, []
    assert new.ask(sync, 3).assignment == b"work"


def test_a_join_waits_on_its_connection_until_the_others_have_come(quick_broker: Broker) -> None:
    wire, other = Wire(quick_broker), Wire(quick_broker)
    me = wire.ask(join_request(), 9).member_id
    assert wire.ask(join_request(member_id=me), 9).generation_id == 1
    assignments = [SyncGroupRequestAssignment(member_id=me, assignment=b"all")]
    sync = SyncGroupRequest(group_id="g", member_id=me, generation_id=1, assignments=assignments)
    assert wire.ask(sync, 3).assignment == b"all"
    its_id = other.ask(join_request(), 9).member_id
    request = join_request(member_id=its_id)
    other.send(request, 9)
    beat = HeartbeatRequest(group_id="g", member_id=me, generation_id=1)
    deadline = time.monotonic() + 10
    while wire.ask(beat, 4).error_code != ErrorCode.REBALANCE_IN_PROGRESS:
        assert time.monotonic() < deadline
        time.sleep(0.02)
    mine = wire.ask(join_request(member_id=me), 9)
    theirs = other.receive(request, 9)
    assert mine.generation_id == theirs.generation_id == 2
    assert {one.member_id for one in mine.members} == {me, its_id}
