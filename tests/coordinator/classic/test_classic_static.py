"""Static members: they may restart without a rebalance, and there is only one of each."""

import pytest
from classic_stage import REBALANCE_MS, SESSION_MS, Stage, subscription

from ottla.broker.coordinator.classic.settings import GroupSettings
from ottla.protocol.errors import ErrorCode


def stable(stage: Stage, *names: str) -> dict[str, str]:
    calls = {name: stage.join(name, instance=f"i-{name}") for name in names}
    stage.pass_time(3_000 * (len(names) + 1))
    ids = {name: call.answer.member_id for name, call in calls.items()}
    stage.synced(ids, {name: f"i-{name}" for name in names})
    return ids


def test_a_static_member_needs_no_second_request_and_its_id_tells_its_name() -> None:
    ids = stable(Stage(), "a")
    assert ids["a"].startswith("i-a-")


@pytest.mark.parametrize(("version", "leader_told"), [(9, True), (8, False)])
def test_a_restarted_leader_goes_on_without_a_rebalance(version: int, leader_told: bool) -> None:
    stage = Stage()
    ids = stable(stage, "a", "b")
    back = stage.join("a", instance="i-a", version=version)
    assert (back.error, back.answer.generation_id) == (ErrorCode.NONE, 1)
    new_id = back.answer.member_id
    assert new_id != ids["a"]
    assert back.answer.skip_assignment is leader_told
    assert back.answer.leader == (new_id if leader_told else ids["a"])
    assert len(back.answer.members) == (2 if leader_told else 0)
    assert stage.sync("a", new_id, instance="i-a").answer.assignment == b"a"
    assert stage.state == "Stable"


def test_a_restarted_follower_is_told_nothing_but_the_leader() -> None:
    stage = Stage()
    ids = stable(stage, "a", "b")
    back = stage.join("b", instance="i-b")
    assert back.answer.leader == ids["a"]
    assert back.answer.members == []
    assert back.answer.skip_assignment is False


def test_a_restart_is_stored() -> None:
    stage = Stage()
    stable(stage, "a", "b")
    back = stage.join("b", instance="i-b")
    stage.reload()
    call = stage.sync("b", back.answer.member_id, 1, instance="i-b")
    assert call.answer.assignment == b"b"


def test_the_old_process_is_fenced_whatever_it_asks() -> None:
    stage = Stage()
    old = stable(stage, "a", "b")["b"]
    stage.join("b", instance="i-b")
    calls = [
        stage.join("b", old, instance="i-b"),
        stage.sync("b", old, instance="i-b"),
        stage.heartbeat("b", old, instance="i-b"),
    ]
    assert [call.error for call in calls] == [ErrorCode.FENCED_INSTANCE_ID] * 3
    left = stage.leave("b", (old, "i-b")).answer.members[0]
    assert left.error_code == ErrorCode.FENCED_INSTANCE_ID
    commit = stage.group.validate_offset_commit(old, "i-b", 1)
    assert commit is ErrorCode.FENCED_INSTANCE_ID
    assert stage.heartbeat("b", old).error is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_waiting_join_of_the_old_process_is_fenced_at_once() -> None:
    stage = Stage()
    old = stage.join("a", instance="i-a")
    new = stage.join("a", instance="i-a")
    assert old.error is ErrorCode.FENCED_INSTANCE_ID
    stage.pass_time(3_000)
    assert new.error is ErrorCode.NONE
    assert len(stage.group.members) == 1


def test_a_restart_while_the_assignment_is_awaited_rebalances() -> None:
    stage = Stage()
    a, b = (stage.join(name, instance=f"i-{name}") for name in "ab")
    stage.pass_time(6_000)
    waiting = stage.sync("b", b.answer.member_id, instance="i-b")
    back = stage.join("b", instance="i-b")
    assert waiting.error is ErrorCode.FENCED_INSTANCE_ID
    assert stage.state == "PreparingRebalance"
    rejoined = stage.join("a", a.answer.member_id, instance="i-a")
    assert rejoined.answer.generation_id == back.answer.generation_id == 2


def test_a_restart_that_changes_the_elected_protocol_rebalances() -> None:
    stage = Stage()
    ids = stage.stable("a", protocols=["x", "y"])
    call = stage.join("s", instance="i-s", protocols=["x", "y"])
    rejoin = stage.join("a", ids["a"], protocols=["x", "y"])
    assert call.answer.protocol_name == rejoin.answer.protocol_name == "x"
    stage.synced({"a": ids["a"], "s": call.answer.member_id}, {"s": "i-s"})
    assert stage.join("s", instance="i-s", protocols=["y"]).waits
    assert stage.state == "PreparingRebalance"


def test_a_restart_with_other_topics_keeps_the_group_stable_and_is_remembered() -> None:
    stage = Stage()
    stable(stage, "a", "b")
    stage.join("b", instance="i-b", protocols={"range": subscription(["other"])})
    assert stage.state == "Stable"
    assert stage.group.subscribed_topics == {"t", "other"}


def test_a_missing_static_member_stays_through_a_rebalance_until_its_session_ends() -> None:
    stage = Stage()
    ids = stable(stage, "a", "b")
    rejoin = stage.join("a", ids["a"], instance="i-a", rebalance_ms=1_000)
    for member in stage.group.members:
        member.rebalance_timeout_ms = member.session_timeout_ms = 5_000
    stage.pass_time(REBALANCE_MS)
    assert rejoin.answer.generation_id == 2
    stage = Stage()
    ids = stable(stage, "a", "b")
    stage.join("a", ids["a"], instance="i-a")
    stage.pass_time(SESSION_MS)
    assert [one.instance_id for one in stage.group.members] == ["i-a"]


def test_if_only_static_members_are_left_and_none_rejoins_the_group_waits_for_their_sessions() -> (
    None
):
    stage = Stage()
    call = stage.join("a", instance="i-a", session_ms=50_000, rebalance_ms=10)
    stage.pass_time(3_000)
    a = call.answer.member_id
    stage.synced({"a": a}, {"a": "i-a"})
    b, _ = stage.enter("b", session_ms=50_000, rebalance_ms=10)
    stage.leave("b", (b, None))
    stage.pass_time(40_000)
    assert stage.state == "PreparingRebalance"
    assert stage.group.generation == 1
    stage.pass_time(10_000)
    assert stage.state == "Empty"


def test_an_operator_removes_a_static_member_by_its_name() -> None:
    stage = Stage()
    ids = stable(stage, "a", "b")
    answer = stage.leave("admin", ("", "i-b"), ("", "i-nobody")).answer
    assert [one.error_code for one in answer.members] == [0, ErrorCode.UNKNOWN_MEMBER_ID]
    assert stage.state == "PreparingRebalance"
    assert stage.heartbeat("b", ids["b"], instance="i-b").error is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_static_member_comes_back_into_a_full_group() -> None:
    stage = Stage(GroupSettings(members_max=2))
    stable(stage, "a", "b")
    assert stage.join("b", instance="i-b").error is ErrorCode.NONE
    assert stage.join("c", instance="i-c").error is ErrorCode.GROUP_MAX_SIZE_REACHED


def test_the_instance_must_be_a_member_under_that_id() -> None:
    stage = Stage()
    ids = stage.stable("a")
    call = stage.heartbeat("a", ids["a"], instance="i-a")
    assert call.error is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_member_that_came_back_before_it_had_synced_still_has_to() -> None:
    stage = Stage()
    a, b = (stage.join(name, instance=f"i-{name}") for name in "ab")
    stage.pass_time(6_000)
    ids = {"a": a.answer.member_id, "b": b.answer.member_id}
    work = {id: name.encode() for name, id in ids.items()}
    stage.sync("a", ids["a"], assignments=work, instance="i-a")
    back = stage.join("b", instance="i-b", session_ms=1_000_000)
    assert stage.state == "Stable"
    for _ in range(REBALANCE_MS // 5_000):
        stage.pass_time(5_000)
        stage.heartbeat("a", ids["a"], instance="i-a")
        stage.heartbeat("b", back.answer.member_id, instance="i-b")
    assert [one.instance_id for one in stage.group.members] == ["i-a"]
