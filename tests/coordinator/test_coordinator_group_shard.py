"""Offsets and groups of a shard: who may commit, what is kept, what expires, what is listed."""

from __future__ import annotations

import dataclasses

import pytest
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule
from shard_stage import DAY_MS, ShardStage

from ottla.broker.coordinator import record_codec
from ottla.broker.coordinator.classic.client import Client
from ottla.broker.coordinator.classic.hosting import describe
from ottla.broker.coordinator.group_settings import GroupShardSettings
from ottla.broker.coordinator.group_shard import GroupShard
from ottla.broker.coordinator.outbox import CoordinatorRecord
from ottla.protocol.consumer_protocol import write
from ottla.protocol.coordinator_records.legacy_offset_commit import (
    LegacyOffsetCommitKey,
    LegacyOffsetCommitValue,
)
from ottla.protocol.embedded.consumer_protocol_subscription import ConsumerProtocolSubscription
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.heartbeat import HeartbeatRequest
from ottla.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from ottla.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from ottla.runtime.pace import at_once


@pytest.fixture
def stage() -> ShardStage:
    return ShardStage()


def subscribed_to(*topics: str) -> bytes:
    return write(ConsumerProtocolSubscription(topics=list(topics)), 0)


# --- committing ---------------------------------------------------------------------------------


def test_what_is_committed_is_fetched(stage: ShardStage) -> None:
    assert stage.commit("g", 42) is ErrorCode.NONE
    assert stage.commit("g", 7, partition=3) is ErrorCode.NONE
    assert stage.fetch("g") == 42
    assert stage.fetch_all("g") == {("t", 0): 42, ("t", 3): 7}
    assert (stage.fetch("g", partition=1), stage.fetch("other")) == (-1, -1)
    assert stage.fetch_all("other") == {}


def test_a_member_that_the_group_does_not_know_may_not_commit(stage: ShardStage) -> None:
    assert stage.commit("g", 1, generation=0) is ErrorCode.GROUP_ID_NOT_FOUND
    assert stage.commit("g", 1, generation=0, version=8) is ErrorCode.ILLEGAL_GENERATION
    assert "g" not in stage.shard.groups
    member = stage.join("g")
    assert stage.commit("g", 1, member="who", generation=1) is ErrorCode.UNKNOWN_MEMBER_ID
    assert stage.commit("g", 1, member=member, generation=2) is ErrorCode.ILLEGAL_GENERATION
    assert stage.commit("g", 1) is ErrorCode.UNKNOWN_MEMBER_ID
    assert stage.commit("g", 1, member=member, generation=1) is ErrorCode.NONE


def test_commits_keep_a_session_alive(stage: ShardStage) -> None:
    member = stage.join("g")
    for _ in range(5):
        stage.advance(9_000)
        assert stage.commit("g", 1, member=member, generation=1) is ErrorCode.NONE
    stage.advance(11_000)
    assert stage.commit("g", 1, member=member, generation=1) is ErrorCode.UNKNOWN_MEMBER_ID


def test_notes_may_be_as_long_as_configured(stage: ShardStage) -> None:
    assert stage.commit("g", 1, metadata="x" * 4096) is ErrorCode.NONE
    assert stage.commit("g", 2, metadata="x" * 4097) is ErrorCode.OFFSET_METADATA_TOO_LARGE
    assert stage.commit("g", 3, metadata="\U0001f600" * 2049) is (
        ErrorCode.OFFSET_METADATA_TOO_LARGE
    )
    assert stage.fetch("g") == 1


def test_a_commit_too_large_for_one_batch_is_refused_whole() -> None:
    small = ShardStage(dataclasses.replace(GroupShardSettings(), commit_bytes_max=200))
    assert small.commit("g", 1, metadata="x" * 200) is ErrorCode.UNKNOWN_SERVER_ERROR
    assert small.shard.groups == {}
    assert small.commit("g", 1, metadata="x" * 100) is ErrorCode.NONE


@pytest.mark.parametrize("retention_ms", [2**63 - 1, -(2**63), 0])
def test_a_retention_time_of_any_size_is_kept_as_far_as_it_can_be(
    stage: ShardStage, retention_ms: int
) -> None:
    assert stage.commit("g", 7, version=2, retention_ms=retention_ms) is ErrorCode.NONE
    assert stage.reloaded().offsets.get("g", "t", 0) == stage.shard.offsets.get("g", "t", 0)
    stage.advance(2 * stage.settings.expiry_interval_ms)
    assert stage.fetch("g") == (7 if retention_ms > 0 else -1)


def test_offsets_in_the_oldest_format_are_loaded(stage: ShardStage) -> None:
    key = LegacyOffsetCommitKey(group="g", topic="t", partition=0)
    value = LegacyOffsetCommitValue(offset=7, metadata="note", commit_timestamp=5)
    encoded = record_codec.encode(CoordinatorRecord(key, value))
    stage.log.append((*encoded, -1))
    shard = stage.reloaded()
    assert (found := shard.offsets.get("g", "t", 0)) is not None
    assert found[:5] == (7, -1, "note", 5, -1)
    shard.replay(CoordinatorRecord(key, None), -1)
    assert shard.offsets.get("g", "t", 0) is None


def test_a_member_whose_id_could_not_be_stored_is_refused(stage: ShardStage) -> None:
    request = JoinGroupRequest(
        group_id="g",
        session_timeout_ms=10_000,
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name="range", metadata=b"")],
    )
    answer = stage.ask(stage.shard.join, request, Client("c" * 32_767, "/h", 3))
    assert answer is ErrorCode.UNKNOWN_SERVER_ERROR
    assert stage.shard.groups == {}


def test_offsets_of_a_topic_that_was_made_anew_are_not_given_out(stage: ShardStage) -> None:
    old, new = b"o" * 16, b"n" * 16
    stage.commit("g", 5, topic_id=old)
    assert stage.fetch("g", topic_id=old) == 5
    assert stage.fetch("g", topic_id=new) == -1
    assert stage.fetch("g") == 5


# --- transactions -------------------------------------------------------------------------------


def test_offsets_of_a_transaction_count_from_its_commit_on(stage: ShardStage) -> None:
    stage.commit("g", 1)
    assert stage.commit_in_transaction("g", 10, producer_id=7) is ErrorCode.NONE
    assert stage.fetch("g") == 1
    assert stage.fetch("g", stable=True) is ErrorCode.UNSTABLE_OFFSET_COMMIT
    assert stage.fetch("g", partition=1, stable=True) == -1
    stage.end_transaction(7, committed=True)
    assert stage.fetch("g", stable=True) == 10


def test_offsets_of_an_aborted_transaction_never_count(stage: ShardStage) -> None:
    stage.commit_in_transaction("g", 10, producer_id=7)
    stage.end_transaction(7, committed=False)
    assert stage.fetch("g", stable=True) == -1
    stage.end_transaction(7, committed=True)
    assert stage.fetch("g") == -1


def test_a_commit_made_after_that_of_a_transaction_stays(stage: ShardStage) -> None:
    stage.commit_in_transaction("g", 10, producer_id=7)
    stage.commit("g", 20)
    stage.end_transaction(7, committed=True)
    assert stage.fetch("g") == 20


def test_deleted_offsets_do_not_come_back_with_a_transaction(stage: ShardStage) -> None:
    stage.commit_in_transaction("g", 10, producer_id=7)
    assert stage.delete_offset("g") is ErrorCode.NONE
    stage.end_transaction(7, committed=True)
    assert stage.fetch("g") == -1


# --- deleting -----------------------------------------------------------------------------------


def test_offsets_of_a_topic_that_is_read_may_not_be_deleted(stage: ShardStage) -> None:
    assert stage.delete_offset("g") is ErrorCode.GROUP_ID_NOT_FOUND
    member = stage.join("g", subscribed_to("t"))
    stage.commit("g", 1, member=member, generation=1)
    stage.commit("g", 1, member=member, generation=1, topic="old")
    assert stage.delete_offset("g") is ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC
    assert stage.delete_offset("g", topic="old") is ErrorCode.NONE
    assert stage.fetch_all("g") == {("t", 0): 1}


def test_a_group_is_deleted_with_its_offsets_when_nobody_is_in_it(stage: ShardStage) -> None:
    assert stage.delete_group("g") is ErrorCode.GROUP_ID_NOT_FOUND
    member = stage.join("g")
    stage.commit("g", 1, member=member, generation=1)
    assert stage.delete_group("g") is ErrorCode.NON_EMPTY_GROUP
    stage.advance(11_000)
    stage.commit_in_transaction("g", 1, producer_id=3)
    assert stage.delete_group("g") is ErrorCode.NONE
    stage.end_transaction(3, committed=True)
    assert stage.fetch("g") == -1
    assert "g" not in stage.shard.groups
    assert "g" not in stage.reloaded().groups


def test_offsets_go_with_their_topic(stage: ShardStage) -> None:
    stage.commit("g", 1, topic="gone", topic_id=b"o" * 16)
    stage.commit("h", 1, topic="gone")
    stage.commit("g", 2, topic="kept")
    stage.commit("i", 3, topic="gone", topic_id=b"n" * 16)
    stage.topic_deleted("gone", b"o" * 16)
    assert (stage.fetch_all("g"), stage.fetch_all("h")) == ({("kept", 0): 2}, {})
    assert stage.fetch_all("i") == {("gone", 0): 3}


# --- expiry -------------------------------------------------------------------------------------


def test_offsets_of_a_simple_group_expire_a_week_after_their_commit(stage: ShardStage) -> None:
    stage.commit("g", 1)
    stage.advance(6 * DAY_MS)
    stage.commit("g", 2, partition=1)
    stage.advance(DAY_MS + 600_000)
    assert stage.fetch_all("g") == {("t", 1): 2}
    stage.advance(7 * DAY_MS)
    assert stage.shard.groups == {}
    assert stage.reloaded().groups == {}


def test_offsets_of_a_group_that_reads_do_not_expire_but_for_topics_it_gave_up(
    stage: ShardStage,
) -> None:
    member = stage.join("g", subscribed_to("t"))
    for topic in ("t", "given-up"):
        stage.commit("g", 1, member=member, generation=1, topic=topic)
    beat = HeartbeatRequest(group_id="g", member_id=member, generation_id=1)
    for _ in range(8 * DAY_MS // 9_000):
        stage.now_ms += 9_000
        stage.timers = {key: due for key, due in stage.timers.items() if key[0] == "offsets"}
        stage.ask(stage.shard.heartbeat, beat, None)
    stage.advance(1)
    assert stage.fetch_all("g") == {("t", 0): 1}


def test_the_time_of_a_group_runs_from_when_its_last_member_left(stage: ShardStage) -> None:
    member = stage.join("g", subscribed_to("t"))
    stage.commit("g", 1, member=member, generation=1)
    beat = HeartbeatRequest(group_id="g", member_id=member, generation_id=1)
    for _ in range(6 * DAY_MS // 9_000):
        stage.advance(9_000)
        stage.ask(stage.shard.heartbeat, beat, None)
    leave = LeaveGroupRequest(group_id="g", members=[MemberIdentity(member_id=member)])
    stage.ask(stage.shard.leave, leave, None)
    stage.advance(6 * DAY_MS)
    assert stage.fetch("g") == 1
    stage.advance(DAY_MS + 600_000)
    assert stage.shard.groups == {}


def test_clients_of_old_set_the_expiry_themselves(stage: ShardStage) -> None:
    stage.commit("g", 1, version=4, retention_ms=1000)
    assert stage.reloaded().offsets.get("g", "t", 0).expire_ms != -1
    stage.advance(600_000)
    assert stage.fetch("g") == -1


def test_offsets_that_a_transaction_may_change_do_not_expire() -> None:
    short = dataclasses.replace(GroupShardSettings(), offset_retention_ms=1000)
    stage = ShardStage(short)
    stage.commit("g", 1)
    stage.commit_in_transaction("g", 2, producer_id=1)
    stage.advance(600_001)
    assert stage.fetch("g") == 1
    stage.end_transaction(1, committed=True)
    stage.advance(600_001)
    assert stage.shard.groups == {}


# --- what tools see -----------------------------------------------------------------------------


def test_groups_are_listed_by_state_and_kind(stage: ShardStage) -> None:
    stage.commit("simple", 1)
    stage.join("joined")

    def listed(*states: str, kinds: tuple[str, ...] = ()) -> list[tuple[str, str, str, str]]:
        found = at_once(stage.shard.list_groups(frozenset(states), frozenset(kinds)))
        return [(g.group_id, g.protocol_type, g.group_state, g.group_type) for g in found]

    simple = ("simple", "", "Empty", "classic")
    joined = ("joined", "consumer", "Stable", "classic")
    assert listed() == [simple, joined]
    assert listed("stable") == [joined]
    assert listed("empty", "stable", kinds=("classic",)) == [simple, joined]
    assert listed(kinds=("consumer",)) == []


def test_a_group_that_is_not_there_is_dead_or_not_found(stage: ShardStage) -> None:
    old = describe(stage.shard, "g", 5)
    assert (old.error_code, old.group_state) == (0, "Dead")
    new = describe(stage.shard, "g", 6)
    assert new.error_code == ErrorCode.GROUP_ID_NOT_FOUND
    stage.join("g")
    assert describe(stage.shard, "g", 6).group_state == "Stable"


# --- loading ------------------------------------------------------------------------------------


class ShardMachine(RuleBasedStateMachine):
    """Whatever happens, a shard loaded from the log is what the live one is."""

    groups = st.sampled_from(["a", "b"])
    topics = st.sampled_from(["t", "u"])
    producers = st.sampled_from([1, 2])
    partitions = st.integers(0, 2)

    def __init__(self) -> None:
        super().__init__()
        self.stage = ShardStage()
        self.model: dict[tuple[str, str, int], int] = {}

    @rule(group=groups, topic=topics, partition=partitions, offset=st.integers(0, 99))
    def commit(self, group: str, topic: str, partition: int, offset: int) -> None:
        if self.stage.commit(group, offset, topic=topic, partition=partition) is ErrorCode.NONE:
            assert self.stage.fetch(group, topic=topic, partition=partition) == offset

    @rule(
        group=groups, topic=topics, partition=partitions, offset=st.integers(0, 99), who=producers
    )
    def commit_in_transaction(
        self, group: str, topic: str, partition: int, offset: int, who: int
    ) -> None:
        before = self.stage.fetch(group, topic=topic, partition=partition)
        self.stage.commit_in_transaction(group, offset, who, topic=topic, partition=partition)
        assert self.stage.fetch(group, topic=topic, partition=partition) == before

    @rule(who=producers, committed=st.booleans())
    def end_transaction(self, who: int, committed: bool) -> None:
        self.stage.end_transaction(who, committed=committed)

    @rule(group=groups, topic=topics, partition=partitions)
    def delete_offset(self, group: str, topic: str, partition: int) -> None:
        if self.stage.delete_offset(group, topic, partition) is ErrorCode.NONE:
            assert self.stage.fetch(group, topic=topic, partition=partition) == -1

    @rule(group=groups)
    def delete_group(self, group: str) -> None:
        self.stage.delete_group(group)

    @rule(group=groups)
    def join(self, group: str) -> None:
        found = self.stage.shard.groups.get(group)
        if found is None or found.is_empty:
            self.stage.join(group, subscribed_to("t"))

    @rule(topic=topics)
    def delete_topic(self, topic: str) -> None:
        self.stage.topic_deleted(topic)
        assert all(topic not in self.stage.shard.offsets.group(g) for g in ("a", "b"))

    @rule(ms=st.sampled_from([1, 20_000, 600_000, DAY_MS, 8 * DAY_MS]))
    def wait(self, ms: int) -> None:
        self.stage.advance(ms)

    @invariant()
    def loading_gives_the_same(self) -> None:
        live, loaded = self.stage.shard, self.stage.reloaded()
        assert durable(loaded) == durable(live)

    @invariant()
    def all_offsets_have_a_group(self) -> None:
        for group in ("a", "b"):
            if self.stage.shard.offsets.group(group):
                assert group in self.stage.shard.groups


def durable(shard: GroupShard) -> object:
    """What must survive: groups, and offsets with their order made comparable."""
    offsets = {
        (group, topic, partition): one[:6]
        for group in ("a", "b")
        for topic, found in shard.offsets.group(group).items()
        for partition, one in found.items()
    }
    pending = {
        (group, place): shard.offsets.is_pending(group, *place)
        for group in ("a", "b")
        for place in shard.offsets.pending_of(group)
    }
    return set(shard.groups), offsets, pending


ShardMachine.TestCase.settings = hypothesis_settings(
    max_examples=60, stateful_step_count=30, deadline=None
)
test_a_shard_loaded_from_its_log_is_the_same = ShardMachine.TestCase
