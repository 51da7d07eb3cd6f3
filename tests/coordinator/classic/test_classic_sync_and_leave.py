"""Assignments, heartbeats, leaving, and everything that runs out of time."""

import pytest
from classic_stage import REBALANCE_MS, SESSION_MS, Stage

from ottla.broker.coordinator.classic.conversion import dissolve
from ottla.broker.coordinator.classic.sessions import offsets_committed
from ottla.broker.coordinator.classic.settings import NEW_MEMBER_JOIN_TIMEOUT_MS
from ottla.protocol.errors import ErrorCode


def completing(stage: Stage, *names: str) -> dict[str, str]:
    ids = {name: stage.enter(name)[0] for name in names}
    stage.pass_time(3_000 * (len(names) + 1))
    assert stage.state == "CompletingRebalance"
    return ids


# --- sync -----------------------------------------------------------------------------------------


def test_followers_wait_for_the_leaders_decision() -> None:
    stage = Stage()
    ids = completing(stage, "a", "b", "c")
    waiting = stage.sync("b", ids["b"])
    assert waiting.waits
    leader = stage.sync("a", ids["a"], assignments={ids["a"]: b"1", ids["b"]: b"2"})
    late = stage.sync("c", ids["c"])
    assert [call.answer.assignment for call in (leader, waiting, late)] == [b"1", b"2", b""]
    assert stage.state == "Stable"
    assert leader.answer.protocol_name == "range"
    assert leader.answer.protocol_type == "consumer"


def test_what_a_follower_sends_as_assignment_does_not_count() -> None:
    stage = Stage()
    ids = completing(stage, "a", "b")
    call = stage.sync("b", ids["b"], assignments={ids["b"]: b"mine"})
    stage.sync("a", ids["a"], assignments={ids["b"]: b"given"})
    assert call.answer.assignment == b"given"


def test_a_second_sync_of_a_member_ends_the_first() -> None:
    stage = Stage()
    ids = completing(stage, "a", "b")
    first, second = stage.sync("b", ids["b"]), stage.sync("b", ids["b"])
    assert first.error is ErrorCode.REBALANCE_IN_PROGRESS
    assert second.waits


def test_sync_is_refused_with_the_reason() -> None:
    stage = Stage()
    ids = completing(stage, "a", "b")
    a = ids["a"]
    assert stage.sync("x", "x").error is ErrorCode.UNKNOWN_MEMBER_ID
    assert stage.sync("a", a, 0).error is ErrorCode.ILLEGAL_GENERATION
    inconsistent = ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert stage.sync("a", a, protocol_type="connect").error is inconsistent
    assert stage.sync("a", a, protocol="sticky").error is inconsistent
    stage.leave("b", (ids["b"], None))
    assert stage.sync("a", a).error is ErrorCode.REBALANCE_IN_PROGRESS


def test_a_change_sends_waiting_followers_back_to_join() -> None:
    stage = Stage()
    ids = completing(stage, "a", "b")
    waiting = stage.sync("b", ids["b"])
    stage.enter("c")
    assert waiting.error is ErrorCode.REBALANCE_IN_PROGRESS
    assert waiting.answer.assignment == b""


def test_who_leaves_while_it_waits_is_answered_too() -> None:
    stage = Stage()
    ids = completing(stage, "a", "b")
    sync = stage.sync("b", ids["b"])
    stage.leave("b", (ids["b"], None))
    assert sync.error is ErrorCode.UNKNOWN_MEMBER_ID
    stage.enter("c")
    member_id, join = stage.enter("d")
    stage.leave("d", (member_id, None))
    assert join.error is ErrorCode.UNKNOWN_MEMBER_ID


def test_if_the_leader_does_not_decide_in_time_it_is_out() -> None:
    stage = Stage()
    ids = completing(stage, "a", "b")
    waiting = stage.sync("b", ids["b"])
    while stage.state == "CompletingRebalance":  # it lives, but does not do its part
        stage.heartbeat("a", ids["a"])
        stage.pass_time(5_000)
    assert stage.now_ms <= 9_000 + REBALANCE_MS + 5_000
    assert waiting.error is ErrorCode.REBALANCE_IN_PROGRESS
    assert stage.group.members.leader_id == ids["b"]


def test_who_does_not_fetch_its_assignment_in_time_is_out() -> None:
    stage = Stage()
    ids = completing(stage, "a", "b")
    stage.sync("a", ids["a"], assignments={})
    for _ in range(REBALANCE_MS // 5_000):
        assert stage.state == "Stable"
        for name, id in ids.items():
            stage.heartbeat(name, id)
        stage.pass_time(5_000)
    assert stage.state == "PreparingRebalance"
    assert list(stage.group.members.by_id) == [ids["a"]]


# --- sessions -------------------------------------------------------------------------------------


def test_a_silent_member_is_out_after_its_session_timeout() -> None:
    stage = Stage()
    ids = stage.stable("a", "b")
    stage.heartbeat("b", ids["b"])
    stage.pass_time(SESSION_MS // 2)
    stage.heartbeat("a", ids["a"])
    stage.pass_time(SESSION_MS // 2 - 1)
    assert stage.state == "Stable"
    stage.pass_time(1)
    assert stage.state == "PreparingRebalance"
    assert list(stage.group.members.by_id) == [ids["a"]]


def test_a_commit_is_as_good_as_a_heartbeat() -> None:
    stage = Stage()
    ids = stage.stable("a")
    stage.pass_time(SESSION_MS - 1)
    stage.step(lambda now, outbox: offsets_committed(stage.group, ids["a"], now, outbox))
    stage.pass_time(SESSION_MS - 1)
    assert stage.state == "Stable"


def test_who_waits_for_an_answer_needs_no_heartbeat() -> None:
    stage = Stage()
    ids = stage.stable("a", "b", "c")
    rejoin = stage.join("b", ids["b"], protocols={"range": b"new"})
    while stage.now_ms < 40_000:
        stage.heartbeat("a", ids["a"])
        stage.heartbeat("c", ids["c"])
        stage.pass_time(5_000)
    assert rejoin.waits
    stage.join("a", ids["a"])
    stage.join("c", ids["c"])
    assert rejoin.error is ErrorCode.NONE


def test_heartbeats_of_other_generations_and_strangers_are_refused() -> None:
    stage = Stage()
    ids = stage.stable("a")
    assert stage.heartbeat("a", ids["a"], 0).error is ErrorCode.ILLEGAL_GENERATION
    assert stage.heartbeat("x", "x").error is ErrorCode.UNKNOWN_MEMBER_ID
    assert stage.heartbeat("a", ids["a"]).error is ErrorCode.NONE


def test_a_pending_id_cannot_send_heartbeats() -> None:
    stage = Stage()
    member_id = stage.join("a").answer.member_id
    assert stage.heartbeat("a", member_id).error is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_pending_id_is_forgotten_after_the_session_timeout() -> None:
    stage = Stage()
    member_id = stage.join("a").answer.member_id
    stage.pass_time(SESSION_MS)
    assert not stage.group.members.pending
    assert stage.join("a", member_id).error is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_newcomer_that_waits_too_long_is_sent_to_try_again() -> None:
    stage = Stage()
    ids = stage.stable("a", rebalance_ms=10 * NEW_MEMBER_JOIN_TIMEOUT_MS)
    _, newcomer = stage.enter("b")
    since_ms = stage.now_ms
    while newcomer.waits:
        stage.heartbeat("a", ids["a"])
        stage.pass_time(5_000)
    assert stage.now_ms - since_ms == NEW_MEMBER_JOIN_TIMEOUT_MS
    assert newcomer.error is ErrorCode.UNKNOWN_MEMBER_ID


# --- leaving --------------------------------------------------------------------------------------


def test_when_the_last_member_leaves_the_group_is_empty_in_a_new_generation() -> None:
    stage = Stage()
    ids = stage.stable("a")
    answer = stage.leave("a", (ids["a"], None)).answer
    assert [one.error_code for one in answer.members] == [0]
    assert (stage.state, stage.group.generation) == ("Empty", 2)
    assert stage.timers == {}


def test_each_who_leaves_has_its_own_answer() -> None:
    stage = Stage()
    ids = stage.stable("a", "b", "c")
    answer = stage.leave("admin", (ids["a"], None), ("x", None), (ids["b"], None)).answer
    assert [one.error_code for one in answer.members] == [0, ErrorCode.UNKNOWN_MEMBER_ID, 0]
    assert list(stage.group.members.by_id) == [ids["c"]]


def test_a_pending_id_can_be_given_back() -> None:
    stage = Stage()
    ids = stage.stable("a")
    pending = stage.join("b").answer.member_id
    rejoin = stage.join("a", ids["a"])
    assert rejoin.waits
    stage.leave("b", (pending, None))
    assert rejoin.answer.generation_id == 2


def test_leaving_during_the_first_rebalance_leaves_an_empty_group() -> None:
    stage = Stage()
    member_id, join = stage.enter("a")
    stage.leave("a", (member_id, None))
    assert join.error is ErrorCode.UNKNOWN_MEMBER_ID
    stage.pass_time(3_000)
    assert stage.state == "Empty"
    assert stage.timers == {}


@pytest.mark.parametrize("code", [ErrorCode.NOT_COORDINATOR, ErrorCode.REBALANCE_IN_PROGRESS])
def test_a_dissolved_group_answers_all_who_wait(code: ErrorCode) -> None:
    stage = Stage()
    ids = completing(stage, "a", "b")
    sync = stage.sync("b", ids["b"])
    stage.step(lambda now, outbox: dissolve(stage.group, code, now, outbox))
    assert sync.error is code
    assert stage.timers == {}
    stage = Stage()
    _, join = stage.enter("a")
    stage.step(lambda now, outbox: dissolve(stage.group, code, now, outbox))
    assert join.error is code
    assert stage.heartbeat("a", ids["a"]).error is ErrorCode.COORDINATOR_NOT_AVAILABLE
    left = stage.leave("a", (ids["a"], None))
    assert left.error is ErrorCode.COORDINATOR_NOT_AVAILABLE
