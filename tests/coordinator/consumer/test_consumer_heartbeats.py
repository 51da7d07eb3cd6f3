"""ConsumerGroupHeartbeat, one behaviour at a time."""

from dataclasses import replace

import pytest
from consumer_stage import (
    CLIENT,
    GROUP,
    SETTINGS,
    Stage,
    beating,
    joining,
    owning,
    told,
)

from ottla.broker.coordinator.classic.client import Client
from ottla.broker.coordinator.consumer.hosting import describe
from ottla.broker.coordinator.consumer.members import delete
from ottla.broker.coordinator.consumer.states import ConsumerGroupState
from ottla.broker.coordinator.consumer.subscriptions import RIGHTS_REFRESH_MS
from ottla.broker.coordinator.outbox import Outbox
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest

BEAT_MS = 10_000


@pytest.fixture
def stage() -> Stage:
    stage = Stage()
    stage.orders = stage.topics.create("orders", 4)  # type: ignore[attr-defined]
    return stage


def all_of(topic_id: bytes, count: int) -> set[tuple[bytes, int]]:
    return {(topic_id, index) for index in range(count)}


def test_the_first_member_gets_everything(stage: Stage) -> None:
    response = stage.heartbeat(joining("m1"))
    assert (response.member_id, response.member_epoch) == ("m1", 2)
    assert response.heartbeat_interval_ms == 5_000
    assert told(response) == all_of(stage.orders, 4)
    assert stage.group.state is ConsumerGroupState.STABLE


def test_an_answer_without_news_carries_no_assignment(stage: Stage) -> None:
    stage.heartbeat(joining("m1"))
    written = len(stage.log)
    assert told(stage.heartbeat(beating("m1", 2))) is None
    assert len(stage.log) == written, "a heartbeat without news is not worth a record"


def test_a_member_that_tells_everything_is_told_everything(stage: Stage) -> None:
    stage.heartbeat(joining("m1"))
    full = joining("m1", member_epoch=2, topic_partitions=owning({stage.orders: range(4)}))
    assert told(stage.heartbeat(full)) == all_of(stage.orders, 4)


def test_a_second_member_waits_until_the_first_let_go(stage: Stage) -> None:
    stage.heartbeat(joining("m1"))
    second = stage.heartbeat(joining("m2"))
    assert (second.member_epoch, told(second)) == (3, set())
    assert stage.group.state is ConsumerGroupState.RECONCILING

    first = stage.heartbeat(beating("m1", 2, topic_partitions=owning({stage.orders: range(4)})))
    kept = told(first)
    assert first.member_epoch == 2, "it stays in its epoch until it let go"
    assert kept is not None
    assert len(kept) == 2
    assert told(stage.heartbeat(beating("m2", 3))) is None

    mine = owning({stage.orders: [index for _, index in kept]})
    assert stage.heartbeat(beating("m1", 2, topic_partitions=mine)).member_epoch == 3
    others = told(stage.heartbeat(beating("m2", 3)))
    assert others == all_of(stage.orders, 4) - kept
    assert stage.group.state is ConsumerGroupState.STABLE


def test_a_member_that_lets_go_too_slowly_is_fenced(stage: Stage) -> None:
    stage.heartbeat(joining("m1", rebalance_timeout_ms=20_000))
    stage.heartbeat(joining("m2"))
    owned = owning({stage.orders: range(4)})
    stage.heartbeat(beating("m1", 2, topic_partitions=owned))
    for _ in range(3):
        stage.advance(6_000)
        assert not stage.heartbeat(beating("m1", 2)).error_code
        stage.heartbeat(beating("m2", stage.group.members["m2"].epoch))
    stage.advance(3_000)
    assert stage.heartbeat(beating("m1", 2)).error_code == ErrorCode.UNKNOWN_MEMBER_ID
    epoch = stage.group.members["m2"].epoch
    assert told(stage.heartbeat(beating("m2", epoch))) == all_of(stage.orders, 4)


def test_a_silent_member_is_fenced_when_its_session_ends(stage: Stage) -> None:
    stage.heartbeat(joining("m1"))
    stage.advance(44_999)
    assert "m1" in stage.group.members
    stage.advance(1)
    assert stage.group.state is ConsumerGroupState.EMPTY
    assert stage.group.epoch == 3
    assert stage.heartbeat(beating("m1", 2)).error_code == ErrorCode.UNKNOWN_MEMBER_ID


@pytest.mark.parametrize("epoch", [2, 4, 9])
def test_a_member_at_another_epoch_is_fenced(stage: Stage, epoch: int) -> None:
    stage.heartbeat(joining("m1"))
    stage.heartbeat(beating("m1", 2, subscribed_topic_names=["orders", "b"]))
    stage.heartbeat(beating("m1", 3, subscribed_topic_names=["orders", "c"]))
    assert stage.group.members["m1"].epoch == 4
    expected = ErrorCode.NONE if epoch == 4 else ErrorCode.FENCED_MEMBER_EPOCH
    assert stage.heartbeat(beating("m1", epoch)).error_code == expected


def test_a_member_that_missed_its_new_epoch_is_told_again(stage: Stage) -> None:
    stage.heartbeat(joining("m1"))
    stage.topics.grow("orders", 6)
    assert stage.heartbeat(beating("m1", 2)).member_epoch == 3
    owned = owning({stage.orders: range(4)})
    again = stage.heartbeat(joining("m1", member_epoch=2, topic_partitions=owned))
    assert again.member_epoch == 3
    assert told(again) == all_of(stage.orders, 6)
    stranger = owning({stage.orders: range(7)})
    again = stage.heartbeat(joining("m1", member_epoch=2, topic_partitions=stranger))
    assert again.error_code == ErrorCode.FENCED_MEMBER_EPOCH


def test_a_join_whose_answer_was_lost_can_be_repeated(stage: Stage) -> None:
    stage.heartbeat(joining("m1"))
    again = stage.heartbeat(joining("m1"))
    assert (again.member_epoch, told(again)) == (2, all_of(stage.orders, 4))


def test_topics_that_come_grow_and_go_move_the_group_on(stage: Stage) -> None:
    stage.heartbeat(joining("m1", ["orders", "later"]))
    later = stage.topics.create("later", 2)
    response = stage.heartbeat(beating("m1", 2))
    assert response.member_epoch == 3
    assert told(response) == all_of(stage.orders, 4) | all_of(later, 2)
    stage.topics.grow("later", 3)
    assert told(stage.heartbeat(beating("m1", 3))) == all_of(stage.orders, 4) | all_of(later, 3)
    stage.topics.delete("later")
    assert told(stage.heartbeat(beating("m1", 4))) == all_of(stage.orders, 4)
    stage.topics.create("unrelated", 2)
    assert stage.heartbeat(beating("m1", stage.group.members["m1"].epoch)).assignment is None
    assert stage.group.epoch == 5


def test_a_topic_that_is_no_longer_wanted_is_taken_back_at_once(stage: Stage) -> None:
    more = stage.topics.create("more", 2)
    stage.heartbeat(joining("m1", ["orders", "more"]))
    owned = owning({stage.orders: range(4), more: range(2)})
    change = beating("m1", 2, subscribed_topic_names=["orders"], topic_partitions=owned)
    response = stage.heartbeat(change)
    assert (response.member_epoch, told(response)) == (2, all_of(stage.orders, 4))
    gone = owning({stage.orders: range(4)})
    assert stage.heartbeat(beating("m1", 2, topic_partitions=gone)).member_epoch == 3


# --- leaving ------------------------------------------------------------------------------------


def test_a_member_that_leaves_is_gone_and_its_partitions_are_free(stage: Stage) -> None:
    stage.heartbeat(joining("m1"))
    stage.heartbeat(joining("m2"))
    assert stage.heartbeat(beating("m1", -1)).member_epoch == -1
    epoch = stage.group.members["m2"].epoch
    assert told(stage.heartbeat(beating("m2", epoch))) == all_of(stage.orders, 4)
    assert stage.heartbeat(beating("m1", -1)).error_code == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_static_member_that_is_back_in_time_finds_everything_as_it_was(stage: Stage) -> None:
    stage.heartbeat(joining("m1", instance_id="one"))
    second = stage.heartbeat(joining("m2", instance_id="two"))
    epoch = stage.group.epoch
    assert stage.heartbeat(beating("m1", -2, instance_id="one")).member_epoch == -2
    assert stage.group.epoch == epoch
    assert told(stage.heartbeat(beating("m2", second.member_epoch, instance_id="two"))) is None
    back = stage.heartbeat(joining("m1-again", instance_id="one"))
    assert back.member_epoch == epoch
    assert len(told(back) or ()) == 2
    assert stage.group.epoch == epoch, "nobody has to rebalance"
    old = stage.heartbeat(beating("m1", 2, instance_id="one"))
    assert old.error_code == ErrorCode.FENCED_INSTANCE_ID


def test_the_place_of_a_static_member_is_its_own_until_it_leaves(stage: Stage) -> None:
    stage.heartbeat(joining("m1", instance_id="one"))
    other = stage.heartbeat(joining("m2", instance_id="one"))
    assert other.error_code == ErrorCode.UNRELEASED_INSTANCE_ID


def test_a_static_member_that_stays_away_is_fenced(stage: Stage) -> None:
    stage.heartbeat(joining("m1", instance_id="one"))
    stage.heartbeat(beating("m1", -2, instance_id="one"))
    stage.advance(45_000)
    assert stage.group.is_empty


# --- assignors, size, regular expressions -------------------------------------------------------


def test_the_assignor_that_most_members_ask_for_is_taken(stage: Stage) -> None:
    stage.heartbeat(joining("m1"))
    assert stage.group.assignor == "uniform"
    stage.heartbeat(joining("m2", server_assignor="range"))
    assert stage.group.assignor == "range"
    assert stage.group.targets["m1"] == {stage.orders: frozenset({0, 1})}


def test_a_full_group_takes_nobody_but_its_members() -> None:
    stage = Stage(replace(SETTINGS, members_max=1))
    stage.heartbeat(joining("m1", instance_id="one"))
    refused = stage.heartbeat(joining("m2"))
    assert refused.error_code == ErrorCode.GROUP_MAX_SIZE_REACHED
    assert not stage.heartbeat(beating("m1", 2, instance_id="one")).error_code
    stage.heartbeat(beating("m1", -2, instance_id="one"))
    assert not stage.heartbeat(joining("m3", instance_id="one")).error_code


def test_joins_shortly_after_an_assignment_wait_for_the_next() -> None:
    stage = Stage(replace(SETTINGS, assignment_interval_ms=1_000))
    orders = stage.topics.create("orders", 4)
    stage.heartbeat(joining("m1"))
    stage.advance(500)
    assert told(stage.heartbeat(joining("m2"))) == set()
    assert stage.group.state is ConsumerGroupState.ASSIGNING
    stage.advance(500)
    stage.heartbeat(beating("m1", 2, topic_partitions=owning({orders: range(4)})))
    assert stage.group.state is ConsumerGroupState.RECONCILING


def test_an_expression_follows_the_topics_there_are(stage: Stage) -> None:
    response = stage.heartbeat(joining("m1", subscribed_topic_regex="order.*"))
    assert told(response) == all_of(stage.orders, 4)
    assert stage.group.subscribed_topics() == {"orders"}
    archive = stage.topics.create("orders-archive", 1)
    stage.topics.create("other", 1)
    response = stage.heartbeat(beating("m1", 2))
    assert told(response) == all_of(stage.orders, 4) | {(archive, 0)}
    stage.topics.delete("orders")
    assert told(stage.heartbeat(beating("m1", 3))) == {(archive, 0)}
    assert not stage.heartbeat(beating("m1", 3, subscribed_topic_regex="")).error_code
    assert stage.group.regexes == {}


def test_an_expression_matches_only_what_the_member_may_describe(stage: Stage) -> None:
    stage.topics.create("orders-secret", 1)
    visible = {"orders", "orders-archive"}
    stage.may_describe = visible.__contains__
    response = stage.heartbeat(joining("m1", subscribed_topic_regex="order.*"))
    assert told(response) == all_of(stage.orders, 4)
    archive = stage.topics.create("orders-archive", 1)
    response = stage.heartbeat(beating("m1", 2))
    assert told(response) == all_of(stage.orders, 4) | {(archive, 0)}
    assert stage.group.subscribed_topics() == visible


def test_an_expression_follows_rights_that_change(stage: Stage) -> None:
    def beat_for(ms: int) -> frozenset[str]:
        for _ in range(ms // BEAT_MS):
            stage.advance(BEAT_MS)
            member = stage.group.members["m1"]
            beat = beating("m1", member.epoch, topic_partitions=owning(member.assigned))
            assert not stage.heartbeat(beat).error_code
        return stage.group.subscribed_topics()

    stage.topics.create("orders-archive", 1)
    both = {"orders", "orders-archive"}
    visible = set(both)
    stage.may_describe = visible.__contains__
    stage.heartbeat(joining("m1", subscribed_topic_regex="order.*"))
    visible.remove("orders-archive")
    assert beat_for(RIGHTS_REFRESH_MS - BEAT_MS) == both, "looked too often"
    assert beat_for(BEAT_MS) == {"orders"}
    visible.add("orders-archive")
    assert beat_for(RIGHTS_REFRESH_MS) == both


def test_a_name_and_an_expression_add_up(stage: Stage) -> None:
    other = stage.topics.create("other", 1)
    response = stage.heartbeat(joining("m1", ["other"], subscribed_topic_regex="o.*s"))
    assert told(response) == all_of(stage.orders, 4) | {(other, 0)}


def test_the_last_member_with_an_expression_takes_it_along(stage: Stage) -> None:
    stage.heartbeat(joining("m1"))
    stage.heartbeat(joining("m2", subscribed_topic_regex="o.*"))
    stage.heartbeat(beating("m2", -1))
    assert stage.group.regexes == {}


def test_what_is_no_expression_is_refused(stage: Stage) -> None:
    refused = stage.heartbeat(joining("m1", subscribed_topic_regex="o(?=x)"))
    assert refused.error_code == ErrorCode.INVALID_REGULAR_EXPRESSION
    assert GROUP not in stage.groups


# --- requests that make no sense ----------------------------------------------------------------


@pytest.mark.parametrize(
    ("request_", "expected"),
    [
        (joining(""), ErrorCode.INVALID_REQUEST),
        (joining("m", group_id=" "), ErrorCode.INVALID_REQUEST),
        (joining("m", instance_id=""), ErrorCode.INVALID_REQUEST),
        (joining("m", rack_id=""), ErrorCode.INVALID_REQUEST),
        (joining("m", rebalance_timeout_ms=-1), ErrorCode.INVALID_REQUEST),
        (joining("m", topic_partitions=None), ErrorCode.INVALID_REQUEST),
        (joining("m", topic_partitions=owning({b"x" * 16: [0]})), ErrorCode.INVALID_REQUEST),
        (joining("m", subscribed_topic_names=None), ErrorCode.INVALID_REQUEST),
        (joining("m", server_assignor="magic"), ErrorCode.UNSUPPORTED_ASSIGNOR),
        (joining("m", [f"{n:0249}" for n in range(5_000)]), ErrorCode.INVALID_REQUEST),
        (beating("m", -3), ErrorCode.INVALID_REQUEST),
        (beating("m", -2), ErrorCode.INVALID_REQUEST),
        (beating("", 5), ErrorCode.INVALID_REQUEST),
        (beating("m", 5), ErrorCode.GROUP_ID_NOT_FOUND),
        (beating("m", -1), ErrorCode.GROUP_ID_NOT_FOUND),
    ],
)
def test_a_senseless_request_is_refused_and_leaves_no_trace(
    request_: ConsumerGroupHeartbeatRequest, expected: ErrorCode
) -> None:
    stage = Stage()
    assert stage.heartbeat(request_).error_code == expected
    assert stage.groups == {}
    assert stage.log == []


def test_old_clients_get_an_id_from_the_coordinator(stage: Stage) -> None:
    response = stage.heartbeat(joining(""), Client("old", "/127.0.0.1", 0))
    assert response.member_id
    assert response.member_id in stage.group.members


# --- offsets ------------------------------------------------------------------------------------


def test_only_a_member_at_its_epoch_commits_and_fetches(stage: Stage) -> None:
    stage.heartbeat(joining("m1"))
    group = stage.group
    assert group.validate_offset_commit("m1", None, 2) is None
    assert group.validate_offset_commit("m1", None, 3) == ErrorCode.STALE_MEMBER_EPOCH
    assert group.validate_offset_commit("m1", None, 1) == ErrorCode.STALE_MEMBER_EPOCH
    assert group.validate_offset_commit("m2", None, 2) == ErrorCode.UNKNOWN_MEMBER_ID
    assert group.validate_offset_commit("", None, -1) == ErrorCode.UNKNOWN_MEMBER_ID
    assert group.validate_offset_commit("", None, -1, transactional=True) is None
    assert group.validate_offset_fetch(None, -1) is None
    assert group.validate_offset_fetch("m1", 2) is None
    assert group.validate_offset_fetch("m1", 5) == ErrorCode.STALE_MEMBER_EPOCH
    stage.heartbeat(beating("m1", -1))
    assert group.validate_offset_commit("", None, -1) is None


def test_a_commit_of_an_older_epoch_is_good_for_what_was_its_own_then(stage: Stage) -> None:
    stage.heartbeat(joining("m1"))
    stage.topics.grow("orders", 5)
    stage.heartbeat(beating("m1", 2))
    group = stage.group
    assert group.validate_partition_commit("m1", 2, stage.orders, 3) is None
    late = group.validate_partition_commit("m1", 2, stage.orders, 4)
    assert late == ErrorCode.STALE_MEMBER_EPOCH
    assert group.validate_partition_commit("m1", 4, stage.orders, 3) is not None


def test_a_group_with_members_is_not_deleted_and_one_without_leaves_nothing(stage: Stage) -> None:
    stage.heartbeat(joining("m1", subscribed_topic_regex="o.*"))
    assert stage.group.validate_delete() == ErrorCode.NON_EMPTY_GROUP
    stage.heartbeat(beating("m1", -1))
    assert stage.group.validate_delete() is None
    outbox = Outbox()
    delete(stage.group, stage.now, outbox)
    stage._carry_out(outbox)
    assert stage.reloaded().groups == {}
    assert stage.compacted() == []


def test_it_is_described_with_names_and_targets(stage: Stage) -> None:
    stage.heartbeat(joining("m1", rack_id="r1"), CLIENT)
    described = describe(stage.shard, GROUP)
    assert described.group_state == "Stable"
    assert (described.group_epoch, described.assignment_epoch) == (2, 2)
    assert described.assignor_name == "uniform"
    (member,) = described.members
    assert member.subscribed_topic_names == ["orders"]
    assert member.assignment.topic_partitions[0].topic_name == "orders"
    assert member.assignment == member.target_assignment
    assert (member.rack_id, member.client_host, member.member_type) == ("r1", "/127.0.0.1", 1)
