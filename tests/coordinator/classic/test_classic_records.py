"""What is stored of a classic group, what a restart finds, and what offsets depend on."""

import struct
from functools import partial

import pytest
from classic_stage import WALL_MS, Stage, durable, replayed, subscription

from ottla.broker.coordinator.classic import stored
from ottla.broker.coordinator.classic.conversion import adopt, delete
from ottla.broker.coordinator.classic.describe import describe
from ottla.broker.coordinator.classic.group import ClassicGroup
from ottla.broker.coordinator.classic.member import Member
from ottla.broker.coordinator.classic.rebalancing import rebalance
from ottla.broker.coordinator.classic.settings import GroupSettings
from ottla.broker.coordinator.classic.state import GroupState
from ottla.protocol.coordinator_records.group_metadata import (
    GroupMetadataKey,
    GroupMetadataValue,
    MemberMetadata,
)
from ottla.protocol.errors import ErrorCode


def test_a_new_group_is_stored_before_anyone_is_told_of_it() -> None:
    stage = Stage()
    stage.pass_time(5)
    stage.join("a")
    stage.join("b")
    value = GroupMetadataValue(protocol=None, leader=None, current_state_timestamp=WALL_MS + 5)
    assert stage.log == [(GroupMetadataKey(group="g"), value)]


def test_a_generation_is_stored_with_its_assignments() -> None:
    stage = Stage()
    ids = stage.stable("a")
    assert len(stage.log) == 2
    assert stage.log[-1].value == GroupMetadataValue(
        protocol_type="consumer",
        generation=1,
        protocol="range",
        leader=ids["a"],
        current_state_timestamp=WALL_MS + stage.now_ms,
        members=[
            MemberMetadata(
                member_id=ids["a"],
                group_instance_id=None,
                client_id="a",
                client_host="/a",
                rebalance_timeout=60_000,
                session_timeout=10_000,
                subscription=subscription(["t"]),
                assignment=b"a",
            )
        ],
    )


def test_an_emptied_group_is_stored_without_members() -> None:
    stage = Stage()
    ids = stage.stable("a")
    stage.leave("a", (ids["a"], None))
    assert stage.log[-1].value == GroupMetadataValue(
        protocol_type="consumer",
        generation=2,
        protocol=None,
        leader=None,
        current_state_timestamp=WALL_MS + stage.now_ms,
    )


def test_a_restart_finds_the_stable_group_and_its_members_go_on() -> None:
    stage = Stage()
    ids = stage.stable("a", "b")
    before = durable(stage.group)
    stage.reload()
    assert durable(stage.group) == before
    assert stage.heartbeat("b", ids["b"]).error is ErrorCode.NONE
    assert stage.sync("b", ids["b"]).answer.assignment == b"b"


def test_after_a_restart_members_have_a_session_to_show_up() -> None:
    stage = Stage()
    ids = stage.stable("a", "b")
    stage.reload()
    stage.pass_time(9_999)
    stage.heartbeat("a", ids["a"])
    assert len(stage.group.members) == 2
    stage.pass_time(1)
    assert list(stage.group.members.by_id) == [ids["a"]]


def test_a_restart_in_a_rebalance_finds_the_generation_before() -> None:
    stage = Stage()
    ids = stage.stable("a")
    stage.join("a", ids["a"])
    assert stage.group.generation == 2
    stage.reload()
    assert (stage.state, stage.group.generation) == ("Stable", 1)
    assert stage.heartbeat("a", ids["a"], 2).error is ErrorCode.ILLEGAL_GENERATION


def test_an_assignment_too_large_to_be_stored_is_refused_and_the_group_starts_over() -> None:
    stage = Stage(GroupSettings(record_bytes_max=1_000))
    a, _ = stage.enter("a")
    b, _ = stage.enter("b")
    stage.pass_time(6_000)
    waiting = stage.sync("b", b)
    leader = stage.sync("a", a, assignments={a: bytes(400), b: bytes(400)})
    assert leader.error is waiting.error is ErrorCode.UNKNOWN_SERVER_ERROR
    assert leader.answer.assignment == b""
    assert stage.state == "PreparingRebalance"
    assert len(stage.log) == 1
    joins = [stage.join("a", a), stage.join("b", b)]
    assert [call.answer.generation_id for call in joins] == [2, 2]
    stage.synced({"a": a, "b": b})


def test_a_static_member_that_comes_back_with_too_much_to_store_means_a_rebalance() -> None:
    stage = Stage(GroupSettings(record_bytes_max=1_000))
    call = stage.join("a", instance="i-a")
    stage.pass_time(3_000)
    stage.synced({"a": call.answer.member_id}, {"a": "i-a"})
    back = stage.join("a", instance="i-a", protocols={"range": bytes(1_000)})
    assert back.answer.generation_id == 2
    refused = stage.sync("a", back.answer.member_id, instance="i-a")
    assert refused.error is ErrorCode.UNKNOWN_SERVER_ERROR


def test_a_deleted_group_leaves_a_tombstone() -> None:
    stage = Stage()
    ids = stage.stable("a")
    assert stage.group.validate_delete() is ErrorCode.NON_EMPTY_GROUP
    stage.leave("a", (ids["a"], None))
    assert stage.group.validate_delete() is None
    stage.step(partial(delete, stage.group))
    assert stage.log[-1] == (GroupMetadataKey(group="g"), None)
    assert stage.group.validate_delete() is ErrorCode.GROUP_ID_NOT_FOUND
    assert replayed(stage.log, stage.settings).is_simple


def test_a_tombstone_ends_a_group_also_by_replay() -> None:
    stage = Stage()
    stage.stable("a")
    stored.replay(stage.group, None)
    assert stage.group.state is GroupState.DEAD
    assert len(stage.group.members) == 0


def test_records_without_rebalance_timeout_or_timestamp_are_read() -> None:
    stage = Stage()
    value = GroupMetadataValue(
        protocol_type="consumer",
        generation=7,
        protocol="range",
        leader="m",
        members=[MemberMetadata(member_id="m", session_timeout=9_000)],
    )
    stored.replay(stage.group, value)
    assert stage.group.members.rebalance_timeout_ms == 9_000
    assert stage.group.state_since_ms is None
    assert stage.group.subscribed_topics is None  # the subscription is not one


# --- what tools see -------------------------------------------------------------------------------


def test_a_stable_group_is_described_with_metadata_and_assignments() -> None:
    stage = Stage()
    ids = stage.stable("a")
    described = describe(stage.group)
    assert (described.group_state, described.protocol_type) == ("Stable", "consumer")
    assert described.protocol_data == "range"
    (member,) = described.members
    assert (member.member_id, member.client_id, member.client_host) == (ids["a"], "a", "/a")
    assert (member.member_metadata, member.member_assignment) == (subscription(["t"]), b"a")


def test_in_a_rebalance_a_group_is_described_without_metadata() -> None:
    stage = Stage()
    stage.stable("a")
    stage.enter("b")
    described = describe(stage.group)
    assert (described.group_state, described.protocol_data) == ("PreparingRebalance", "")
    assert [one.member_metadata for one in described.members] == [b"", b""]


# --- offsets --------------------------------------------------------------------------------------


def test_who_may_commit_offsets() -> None:
    stage = Stage()
    check = stage.group.validate_offset_commit
    assert check("", None, -1) is None
    assert check("m", None, 0) is ErrorCode.UNKNOWN_MEMBER_ID
    a, _ = stage.enter("a")
    assert check("", None, -1) is ErrorCode.UNKNOWN_MEMBER_ID
    assert check("", None, -1, transactional=True) is None
    assert check(a, None, 0) is None  # of the generation before
    stage.pass_time(3_000)
    assert check(a, None, 1) is ErrorCode.REBALANCE_IN_PROGRESS
    assert check(a, None, 1, transactional=True) is None
    stage.synced({"a": a})
    assert check(a, None, 1) is None
    assert check(a, None, 0) is ErrorCode.ILLEGAL_GENERATION
    assert check("x", None, 1) is ErrorCode.UNKNOWN_MEMBER_ID
    stage.leave("a", (a, None))
    stage.step(partial(delete, stage.group))
    assert check("", None, -1) is ErrorCode.COORDINATOR_NOT_AVAILABLE


def test_subscriptions_are_the_topics_of_all_members() -> None:
    stage = Stage()
    assert stage.group.subscribed_topics is None
    stage.enter("a", protocols={"range": subscription(["x", "y"], 0)})
    stage.enter("b", protocols={"range": subscription(["y", "z"], 3)})
    stage.pass_time(6_000)
    assert stage.group.subscribed_topics == {"x", "y", "z"}
    assert stage.group.is_subscribed_to("x")
    assert not stage.group.is_subscribed_to("t")


@pytest.mark.parametrize(
    "metadata", [b"", b"\0", b"\0\3", struct.pack(">hi", 0, 99), b"\xff\xff\0\0\0\0"]
)
def test_if_a_subscription_is_unreadable_the_group_counts_as_subscribed_to_all(
    metadata: bytes,
) -> None:
    stage = Stage()
    stage.enter("a", protocols={"range": metadata})
    stage.pass_time(3_000)
    assert stage.group.subscribed_topics is None
    assert stage.group.is_subscribed_to("any")


def test_groups_that_are_no_consumers_have_no_topics() -> None:
    stage = Stage()
    stage.enter("a", protocol_type="connect", protocols={"compatible": b"?"})
    stage.pass_time(3_000)
    assert stage.group.subscribed_topics is None
    assert not stage.group.is_subscribed_to("any")
    assert stage.group.validate_offset_delete() is ErrorCode.NON_EMPTY_GROUP


def test_when_the_retention_of_an_offset_begins() -> None:
    stage = Stage()
    since = stage.group.offset_idle_since_ms
    assert since(77) == 77  # offsets only
    ids = stage.stable("a")
    assert since(77) == 77  # for topics no longer subscribed to
    stage.join("a", ids["a"])
    assert since(77) is None  # nothing expires in a rebalance
    stage.leave("a", (ids["a"], None))
    stage.pass_time(60_000)
    assert since(77) == stage.group.state_since_ms is not None  # since it is empty


# --- change of kind -------------------------------------------------------------------------------


def test_a_group_adopts_the_members_of_a_consumer_group_and_rebalances() -> None:
    stage = Stage()
    members = [
        Member(
            f"m{at}",
            instance_id=None,
            client_id="c",
            client_host="/h",
            rebalance_timeout_ms=60_000,
            session_timeout_ms=10_000,
            protocols={"range": subscription(["t"]), "sticky": b"s"},
        )
        for at in range(2)
    ]

    def work(member: Member, metadata: bytes) -> bytes:
        assert metadata == subscription(["t"])
        return member.member_id.encode()

    stage.step(lambda now, outbox: adopt(stage.group, members, 12, work, now, outbox))
    assert (stage.state, stage.group.generation) == ("Stable", 12)
    assert describe(replayed(stage.log, stage.settings)) == describe(stage.group)
    stage.step(lambda now, outbox: rebalance(stage.group, "it became classic", now, outbox))
    assert stage.heartbeat("m1", "m1", 12).error is ErrorCode.REBALANCE_IN_PROGRESS
    calls = [stage.join(one, one) for one in ("m0", "m1")]
    assert [call.answer.generation_id for call in calls] == [13, 13]
    assert isinstance(stage.group, ClassicGroup)
