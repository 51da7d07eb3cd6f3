"""The machines of membership by themselves: whatever is told to them, their promises hold."""

from __future__ import annotations

from collections.abc import Iterable
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.client.consumer.groups.classic import state as classic_state
from ottla.client.consumer.groups.classic.state import ClassicState, Next
from ottla.client.consumer.groups.commit_requests import NOBODY
from ottla.client.consumer.groups.new_protocol import state as new_protocol_state
from ottla.client.consumer.groups.new_protocol.state import NewProtocolState, Phase, Wanted
from ottla.client.errors import CommitFailed, CommitInterrupted
from ottla.client.settings.consumer import ConsumerSettings
from ottla.client.values import TopicPartition
from ottla.protocol.errors import ErrorCode, KafkaError

SETTINGS = ConsumerSettings(group_id="g")
NAMES = {bytes([number] * 16): f"topic-{number}" for number in range(4)}


def stable() -> ClassicState:
    state = ClassicState(SETTINGS)
    state.prepared()
    state.join_sent()
    state.joined(3, "me", "range", "me")
    state.synced()
    state.applied()
    return state


def test_a_stable_member_has_no_reason_to_join_and_may_commit() -> None:
    state = stable()
    assert state.rejoin_reason is None
    assert state.is_leader
    assert state.identity_for_commit() == state.identity


def test_while_rebalancing_commits_are_refused_with_the_hope_of_a_retry() -> None:
    state = stable()
    state.join_sent()
    with pytest.raises(CommitInterrupted):
        state.identity_for_commit()
    state.reset("thrown out")
    with pytest.raises(CommitFailed, match="no member") as caught:
        state.identity_for_commit()
    assert not isinstance(caught.value, CommitInterrupted)


def test_who_was_thrown_out_goes_by_its_old_name_until_it_has_a_new_one() -> None:
    """A transaction with what it had read is refused by that; one of nobody would be taken."""
    state = stable()
    known = state.metadata()
    assert known == ("g", 3, "me", None)
    state.reset("thrown out")
    state.join_sent()
    state.joined(5, "me again", "range", "other")
    assert state.metadata() == known
    state.synced()
    assert state.metadata() == ("g", 5, "me again", None)


def test_who_was_fenced_goes_by_its_old_epoch_until_it_has_a_new_one() -> None:
    state = NewProtocolState(SETTINGS, "me")
    assert state.metadata() == ("g", -1, "", None)
    state.join()
    state.answered(answer(7, None))
    state.lose()
    assert state.metadata() == ("g", 7, "me", None)
    state.join()
    assert state.metadata() == ("g", 7, "me", None)
    state.answered(answer(12, None))
    assert state.metadata() == ("g", 12, "me", None)


def test_answers_to_an_older_generation_change_nothing() -> None:
    state = stable()
    old = state.identity._replace(generation=2)
    for code in (
        ErrorCode.ILLEGAL_GENERATION,
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.FENCED_INSTANCE_ID,
    ):
        assert state.heartbeat_refused(code, old) is None
        assert state.phase is classic_state.Phase.STABLE
        assert state.rejoin_reason is None


def test_a_member_without_a_group_is_told_that_it_is_a_stranger() -> None:
    refusal = stable().commit_refused(ErrorCode.UNKNOWN_MEMBER_ID, NOBODY)
    assert refusal is not None
    assert "has members" in str(refusal.error)


CODES = [code for code in ErrorCode if code]


@given(
    steps=st.lists(
        st.tuples(st.sampled_from(["join", "sync", "beat", "commit"]), st.sampled_from(CODES)),
        max_size=20,
    )
)
def test_whatever_is_answered_a_classic_member_is_in_the_group_or_has_a_reason_to_join(
    steps: list[tuple[str, ErrorCode]],
) -> None:
    state = stable()
    for what, code in steps:
        sent = state.identity
        try:
            if what == "join":
                state.join_sent()
                if state.rejoin_reason is None:
                    state.request_rejoin("told to")
                assert isinstance(state.join_refused(code, sent, "given"), Next)
            elif what == "sync":
                assert isinstance(state.sync_refused(code, sent), Next)
            elif what == "beat":
                state.heartbeat_refused(code, sent)
            else:
                state.commit_refused(code, sent)
        except KafkaError as error:
            raised = error.code
        else:
            raised = code
        assert raised is code
        assert state.phase is classic_state.Phase.STABLE or state.rejoin_reason is not None
        if state.phase is classic_state.Phase.UNJOINED:
            assert state.has_lost_partitions
            assert state.must_prepare


# The new protocol


def answer(epoch: int, target: dict[bytes, Iterable[int]] | None) -> Any:
    assignment = None
    if target is not None:
        parts = [SimpleNamespace(topic_id=one, partitions=part) for one, part in target.items()]
        assignment = SimpleNamespace(topic_partitions=parts)
    return SimpleNamespace(member_epoch=epoch, member_id="me", assignment=assignment)


targets = st.dictionaries(
    st.sampled_from(sorted(NAMES)), st.frozensets(st.integers(0, 4), min_size=1)
)


@given(given_targets=st.lists(targets, max_size=8), hidden=st.sampled_from(sorted(NAMES)))
def test_the_way_to_a_target_ends_there_and_revokes_only_what_is_held(
    given_targets: list[dict[bytes, frozenset[int]]], hidden: bytes
) -> None:
    """One topic's name is not known at first."""
    state = NewProtocolState(SETTINGS, "me")
    state.join()
    owned: set[TopicPartition] = set()
    some = {one: name for one, name in NAMES.items() if one != hidden}
    for epoch, target in enumerate(given_targets, 1):
        state.answered(answer(epoch, target))
        for known in (some, NAMES):
            plan = state.plan(known)
            assert plan.revoke <= owned
            assert not plan.add & owned
            owned = (owned - plan.revoke) | plan.add
            state.reconciled(plan.held)
            assert plan.unresolved <= {hidden}
        assert state.held == target
        assert owned == {
            TopicPartition(NAMES[one], index) for one, part in target.items() for index in part
        }
        assert not state.plan(NAMES).changes


def test_a_topic_that_was_made_anew_is_revoked_before_it_is_given() -> None:
    state = NewProtocolState(SETTINGS, "me")
    state.join()
    old, new = bytes([1] * 16), bytes([2] * 16)
    state.answered(answer(1, {old: [0]}))
    state.reconciled(state.plan({old: "t"}).held)
    state.answered(answer(2, {new: [0]}))
    plan = state.plan({new: "t"})
    assert plan.revoke == plan.add == {TopicPartition("t", 0)}


def test_after_a_failure_everything_is_told_again() -> None:
    state = NewProtocolState(SETTINGS, "me")
    state.join()
    wanted = Wanted(frozenset({"t"}), None)
    full = state.request(wanted, 1)
    state.answered(answer(4, {}))
    assert state.request(wanted, 1).subscribed_topic_names is None
    state.refused(ErrorCode.NOT_COORDINATOR, None)
    again = state.request(wanted, 1)
    assert again.subscribed_topic_names == full.subscribed_topic_names == ["t"]
    assert again.rebalance_timeout_ms == full.rebalance_timeout_ms
    assert (again.member_epoch, again.topic_partitions) == (4, [])


def test_a_pattern_is_taken_back_when_names_are_wanted() -> None:
    state = NewProtocolState(SETTINGS, "me")
    state.join()
    assert state.request(Wanted(frozenset(), "a.*"), 1).subscribed_topic_regex == "a.*"
    back = state.request(Wanted(frozenset({"t"}), None), 1)
    assert (back.subscribed_topic_regex, back.subscribed_topic_names) == ("", ["t"])


def test_before_members_had_ids_of_their_own_the_coordinator_gives_one() -> None:
    state = NewProtocolState(SETTINGS, "mine")
    state.join()
    assert state.request(Wanted(frozenset({"t"}), None), 0).member_id == ""
    state.answered(answer(1, None))
    assert state.request(Wanted(frozenset({"t"}), None), 0).member_id == "me"


@given(codes=st.lists(st.sampled_from(CODES), max_size=10))
def test_whatever_is_answered_a_member_of_the_new_protocol_is_in_or_knows_that_it_is_out(
    codes: list[ErrorCode],
) -> None:
    state = NewProtocolState(SETTINGS, "me")
    for code in codes:
        if state.phase in (Phase.OUT, Phase.LOST):
            state.join()
        state.answered(answer(1, {}))
        term = state.term
        after: object
        try:
            after = state.refused(code, None)
        except KafkaError as error:
            after = error.code
        assert after is code or isinstance(after, new_protocol_state.Next)
        assert (state.phase is Phase.MEMBER) == (state.term == term)
