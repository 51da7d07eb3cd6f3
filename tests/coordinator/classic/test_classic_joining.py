"""Joining a classic group: ids, waiting, protocols, leaders, limits."""

import pytest
from classic_stage import REBALANCE_MS, SESSION_MS, Stage, subscription

from ottla.broker.coordinator.arguments import check_join_arguments
from ottla.broker.coordinator.classic.conversion import delete
from ottla.broker.coordinator.classic.settings import GroupSettings
from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol


def test_a_dynamic_member_is_given_an_id_and_has_to_come_again_with_it() -> None:
    stage = Stage()
    asked = stage.join("a")
    assert asked.error is ErrorCode.MEMBER_ID_REQUIRED
    assert asked.answer.member_id.startswith("a-")
    assert len(asked.answer.member_id) == len("a-") + 36
    assert stage.state == "Empty"
    assert stage.join("a", asked.answer.member_id).waits
    assert stage.state == "PreparingRebalance"


@pytest.mark.parametrize("version", [0, 3])
def test_before_version_4_a_member_is_in_with_its_first_request(version: int) -> None:
    stage = Stage()
    call = stage.join("a", version=version)
    assert call.waits
    stage.pass_time(3_000)
    assert call.error is ErrorCode.NONE
    assert call.answer.member_id.startswith("a-")


def test_version_0_rebalances_within_the_session_timeout() -> None:
    stage = Stage()
    stage.join("a", version=0, session_ms=7_000, rebalance_ms=-1)
    assert stage.group.members.rebalance_timeout_ms == 7_000


def test_an_id_that_nobody_gave_out_is_unknown() -> None:
    stage = Stage()
    stage.join("a")
    call = stage.join("b", "b-made-up")
    assert call.error is ErrorCode.UNKNOWN_MEMBER_ID
    assert call.answer.member_id == "b-made-up"


def test_the_first_rebalance_waits_for_its_delay() -> None:
    stage = Stage()
    _, call = stage.enter("a")
    stage.pass_time(2_999)
    assert call.waits
    stage.pass_time(1)
    assert call.error is ErrorCode.NONE
    assert call.answer.generation_id == 1


def test_without_a_delay_the_first_rebalance_is_over_at_once() -> None:
    stage = Stage(GroupSettings(initial_rebalance_delay_ms=0))
    _, call = stage.enter("a")
    stage.pass_time(0)
    assert call.error is ErrorCode.NONE


def test_newcomers_extend_the_first_rebalance_up_to_the_rebalance_timeout() -> None:
    stage = Stage()
    calls = [stage.enter("m0", rebalance_ms=7_000)[1]]
    for at in range(1, 7):
        stage.pass_time(1_000)
        calls.append(stage.enter(f"m{at}", rebalance_ms=7_000)[1])
    stage.pass_time(999)
    assert all(call.waits for call in calls)
    stage.pass_time(1)
    assert [call.answer.generation_id for call in calls] == [1] * 7


def test_the_leader_alone_is_told_of_all_members_and_their_metadata() -> None:
    stage = Stage()
    a, first = stage.enter("a", protocols={"range": b"of a"})
    b, second = stage.enter("b", protocols={"range": b"of b"})
    stage.pass_time(6_000)
    assert first.answer.leader == second.answer.leader == a
    assert {one.member_id: one.metadata for one in first.answer.members} == {
        a: b"of a",
        b: b"of b",
    }
    assert second.answer.members == []
    assert second.answer.protocol_type == "consumer"
    assert second.answer.protocol_name == "range"


def test_the_protocol_with_most_votes_among_those_all_speak_is_elected() -> None:
    stage = Stage()
    stage.enter("a", protocols=["only-a", "x", "y"])
    stage.enter("b", protocols=["y", "x"])
    _, call = stage.enter("c", protocols=["y", "x", "only-c"])
    stage.pass_time(10_000)
    assert call.answer.protocol_name == "y"


def test_of_a_protocol_named_twice_the_first_counts() -> None:
    stage = Stage()
    request = JoinGroupRequest(
        group_id="g",
        session_timeout_ms=SESSION_MS,
        protocol_type="consumer",
        protocols=[
            JoinGroupRequestProtocol(name="x", metadata=b"1"),
            JoinGroupRequestProtocol(name="x", metadata=b"2"),
        ],
    )
    first = stage.call("a", "join", request, version=3)
    stage.enter("b", protocols=["x"])
    stage.pass_time(6_000)
    assert first.answer.members[0].metadata == b"1"
    assert first.answer.protocol_name == "x"


@pytest.mark.parametrize(
    ("protocol_type", "protocols"),
    [("", ["range"]), ("consumer", []), ("connect", ["range"]), ("consumer", ["sticky"])],
)
def test_who_does_not_speak_what_the_others_do_is_refused(
    protocol_type: str, protocols: list[str]
) -> None:
    stage = Stage()
    stage.stable("a")
    call = stage.join("b", protocol_type=protocol_type, protocols=protocols)
    assert call.error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert stage.state == "Stable"


def test_an_empty_group_takes_any_protocol_type_but_none() -> None:
    stage = Stage()
    ids = stage.stable("a")
    stage.leave("a", (ids["a"], None))
    assert stage.state == "Empty"
    assert stage.join("b", protocol_type="").error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    stage.enter("b", protocol_type="connect", protocols=["compatible"])
    assert stage.group.protocol_type == "connect"


def test_a_stable_group_waits_for_its_members_when_another_one_joins() -> None:
    stage = Stage()
    ids = stage.stable("a", "b")
    _, newcomer = stage.enter("c")
    assert stage.state == "PreparingRebalance"
    assert stage.heartbeat("a", ids["a"]).error is ErrorCode.REBALANCE_IN_PROGRESS
    rejoins = [stage.join(name, ids[name]) for name in ("a", "b")]
    assert stage.state == "CompletingRebalance"
    assert [call.answer.generation_id for call in [newcomer, *rejoins]] == [2, 2, 2]
    assert newcomer.answer.leader == ids["a"]


def test_a_pending_member_holds_up_a_rebalance_until_its_session_would_end() -> None:
    stage = Stage()
    ids = stage.stable("a")
    stage.join("b", session_ms=8_000)  # gets an id and never uses it
    rejoin = stage.join("a", ids["a"])
    stage.pass_time(7_999)
    assert rejoin.waits
    stage.pass_time(1)
    assert rejoin.answer.generation_id == 2


def test_a_follower_that_missed_the_answer_is_told_again_without_a_rebalance() -> None:
    stage = Stage()
    ids = stage.stable("a", "b")
    again = stage.join("b", ids["b"])
    assert (again.error, again.answer.generation_id) == (ErrorCode.NONE, 1)
    assert stage.state == "Stable"


def test_both_are_told_again_while_the_assignment_is_awaited() -> None:
    stage = Stage()
    a, _ = stage.enter("a")
    b, _ = stage.enter("b")
    stage.pass_time(6_000)
    leader, follower = stage.join("a", a), stage.join("b", b)
    assert [one.member_id for one in leader.answer.members] == [a, b]
    assert follower.answer.members == []
    assert stage.state == "CompletingRebalance"


@pytest.mark.parametrize("who", ["a", "b"])
def test_new_metadata_means_a_rebalance(who: str) -> None:
    stage = Stage()
    ids = stage.stable("a", "b")
    call = stage.join(who, ids[who], protocols={"range": subscription(["other"])}, reason="why")
    assert call.waits
    assert stage.state == "PreparingRebalance"
    assert stage.group.rebalance_reason.endswith("client reason: why")


def test_a_leader_that_rejoins_means_a_rebalance() -> None:
    stage = Stage()
    ids = stage.stable("a", "b")
    assert stage.join("a", ids["a"]).waits
    assert stage.state == "PreparingRebalance"


def test_who_does_not_rejoin_in_time_is_out_and_another_leads() -> None:
    stage = Stage()
    ids = stage.stable("a", "b", session_ms=1_000_000)
    rejoin = stage.join("b", ids["b"], protocols={"range": b"new"}, session_ms=1_000_000)
    stage.pass_time(REBALANCE_MS - 1)
    assert rejoin.waits
    stage.pass_time(1)
    assert rejoin.answer.leader == ids["b"]
    assert [one.member_id for one in rejoin.answer.members] == [ids["b"]]
    assert stage.heartbeat("a", ids["a"]).error is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_second_join_of_a_member_ends_the_first() -> None:
    stage = Stage()
    member_id, first = stage.enter("a")
    second = stage.join("a", member_id)
    assert first.error is ErrorCode.REBALANCE_IN_PROGRESS
    stage.pass_time(3_000)
    assert second.error is ErrorCode.NONE


def test_a_full_group_refuses_newcomers_but_not_its_members() -> None:
    stage = Stage(GroupSettings(members_max=2))
    ids = stage.stable("a", "b")
    assert stage.join("c").error is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert stage.join("b", ids["b"]).error is ErrorCode.NONE


def test_of_more_who_ask_than_may_enter_the_last_are_refused() -> None:
    stage = Stage(GroupSettings(members_max=2))
    asked = [stage.join(f"m{at}").answer.member_id for at in range(4)]
    joins = [stage.join(f"m{at}", id) for at, id in enumerate(asked)]
    assert [call.waits for call in joins] == [True, True, False, False]
    assert joins[3].error is ErrorCode.GROUP_MAX_SIZE_REACHED
    stage.pass_time(6_000)
    assert stage.state == "CompletingRebalance"
    assert not stage.group.members.pending


def test_a_group_over_a_lowered_limit_shrinks_in_a_rebalance() -> None:
    stage = Stage()
    ids = stage.stable("a", "b", "c")
    stage.reload(GroupSettings(members_max=2))
    assert stage.state == "PreparingRebalance"
    joins = {name: stage.join(name, id) for name, id in ids.items()}
    assert joins["c"].error is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert joins["c"].answer.member_id == ""
    assert joins["a"].answer.generation_id == joins["b"].answer.generation_id == 2


def test_generations_start_anew_after_the_last_number() -> None:
    stage = Stage()
    stage.stable("a")
    stage.group.generation = 2**31 - 1
    a = next(iter(stage.group.members)).member_id
    assert stage.join("a", a).answer.generation_id == 1


def test_session_timeouts_outside_the_bounds_are_told_apart() -> None:
    settings = GroupSettings(session_timeout_ms_min=6_000, session_timeout_ms_max=10_000)
    for ms in (6_000, 10_000):
        check_join_arguments(JoinGroupRequest(group_id="g", session_timeout_ms=ms), settings)
    for ms in (5_999, 10_001):
        with pytest.raises(KafkaError) as refused:
            check_join_arguments(JoinGroupRequest(group_id="g", session_timeout_ms=ms), settings)
        assert refused.value.code is ErrorCode.INVALID_SESSION_TIMEOUT


def test_a_deleted_group_sends_clients_to_look_for_the_coordinator() -> None:
    stage = Stage()
    stage.join("a")
    stage.step(lambda now, outbox: delete(stage.group, now, outbox))
    assert stage.join("a").error is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert stage.timers == {}
