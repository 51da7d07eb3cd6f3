"""Groups that change their protocol while they work, there and back."""

from dataclasses import replace

import pytest
from consumer_actors import ClassicConsumer, Consumer
from consumer_stage import GROUP, SETTINGS, Stage, beating, joining, told
from hypothesis import Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from ottla.broker.coordinator.classic.client import Client
from ottla.broker.coordinator.classic.group import ClassicGroup
from ottla.broker.coordinator.classic.state import GroupState
from ottla.broker.coordinator.consumer.group import ConsumerGroup
from ottla.broker.coordinator.consumer.states import ConsumerGroupState
from ottla.protocol.consumer_protocol import write
from ottla.protocol.embedded.consumer_protocol_subscription import ConsumerProtocolSubscription
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol

STATIC = Client("static", "/127.0.0.1", 9)


def settle(stage: Stage, *members: Consumer | ClassicConsumer, rounds: int = 30) -> None:
    for _ in range(rounds):
        for member in members:
            if isinstance(member, Consumer):
                member.beat(stage)
                member.take_up()
                member.let_go()
            else:
                member.step(stage)
        stage.advance(1_000)


@pytest.fixture
def stage() -> Stage:
    stage = Stage()
    stage.topics.create("orders", 6)
    return stage


@pytest.fixture
def classics(stage: Stage) -> list[ClassicConsumer]:
    """A classic group of two, at work."""
    members = [ClassicConsumer("one"), ClassicConsumer("two")]
    for member in members:
        member.start(["orders"])
    settle(stage, *members)
    assert stage.classic.state is GroupState.STABLE
    assert sorted(len(member.owned) for member in members) == [3, 3]
    return members


def test_a_group_goes_over_with_its_first_member_of_the_new_protocol_and_back_with_its_last(
    stage: Stage, classics: list[ClassicConsumer]
) -> None:
    generation = stage.classic.generation
    new = Consumer("new", static=False)
    new.start(["orders"], "")
    new.beat(stage)
    assert stage.group.epoch == generation + 1, "epochs go on from generations"
    assert {id_ for id_, member in stage.group.members.items() if member.uses_classic} == {
        member.member_id for member in classics
    }
    settle(stage, new, *classics)
    assert stage.group.state is ConsumerGroupState.STABLE
    assert [len(member.owned) for member in (new, *classics)] == [2, 2, 2]
    assert stage.reloaded().durable() == stage.durable()

    new.leave(stage, for_good=True)
    assert stage.classic.state is GroupState.PREPARING_REBALANCE
    settle(stage, *classics)
    assert stage.classic.state is GroupState.STABLE
    assert [len(member.owned) for member in classics] == [3, 3]
    assert isinstance(stage.reloaded().groups[GROUP], ClassicGroup)


def test_classic_members_keep_what_they_have_until_they_are_asked(
    stage: Stage, classics: list[ClassicConsumer]
) -> None:
    held = {member.member_id: set(member.owned) for member in classics}
    assert told(stage.heartbeat(joining("new"))) == set()
    for member_id, owned in held.items():
        assigned = stage.group.members[member_id].assigned
        assert {(topic, index) for topic, part in assigned.items() for index in part} == owned


def test_one_by_one_all_members_can_go_over(stage: Stage, classics: list[ClassicConsumer]) -> None:
    news = [Consumer("n1", static=False), Consumer("n2", static=False)]
    living: list[Consumer | ClassicConsumer] = list(classics)
    for old, new in zip(classics, news, strict=True):
        new.start(["orders"], "")
        living.append(new)
        settle(stage, *living)
        old.leave(stage)
        living.remove(old)
        settle(stage, *living)
    assert [len(new.owned) for new in news] == [3, 3]
    assert not any(member.uses_classic for member in stage.group.members.values())


def test_a_silent_last_member_of_the_new_protocol_takes_the_group_back(
    stage: Stage, classics: list[ClassicConsumer]
) -> None:
    new = Consumer("new", static=False)
    new.start(["orders"], "")
    settle(stage, new, *classics)
    settle(stage, *classics, rounds=60)
    assert stage.classic.state is GroupState.STABLE
    assert [len(member.owned) for member in classics] == [3, 3]


@pytest.mark.parametrize("policy", ["disabled", "downgrade"])
def test_a_group_stays_as_it_is_where_the_policy_says_so(
    stage: Stage, classics: list[ClassicConsumer], policy: str
) -> None:
    stage.settings = replace(SETTINGS, migration_policy=policy)
    response = stage.heartbeat(joining("new"))
    assert response.error_code == ErrorCode.GROUP_ID_NOT_FOUND
    assert stage.classic.state is GroupState.STABLE


def test_a_group_of_no_consumers_stays_as_it_is(stage: Stage) -> None:
    request = JoinGroupRequest(
        group_id=GROUP,
        session_timeout_ms=30_000,
        rebalance_timeout_ms=30_000,
        protocol_type="connect",
        protocols=[JoinGroupRequestProtocol(name="compatible", metadata=b"")],
    )
    stage.serve(request, Client("connect", "/127.0.0.1", 3))
    assert stage.heartbeat(joining("new")).error_code == ErrorCode.GROUP_ID_NOT_FOUND
    assert isinstance(stage.groups[GROUP], ClassicGroup)


def test_an_empty_group_takes_the_protocol_of_whoever_comes(stage: Stage) -> None:
    stage.heartbeat(joining("new"))
    stage.heartbeat(joining("new", member_epoch=-1))
    classic = ClassicConsumer("old")
    classic.start(["orders"])
    settle(stage, classic)
    assert stage.classic.state is GroupState.STABLE
    classic.leave(stage)
    settle(stage)
    assert stage.heartbeat(joining("new")).member_epoch == 2
    assert isinstance(stage.reloaded().groups[GROUP], ConsumerGroup)


def static_join() -> JoinGroupRequest:
    subscription = ConsumerProtocolSubscription(topics=["orders"])
    return JoinGroupRequest(
        group_id=GROUP,
        group_instance_id="s",
        session_timeout_ms=30_000,
        rebalance_timeout_ms=30_000,
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name="range", metadata=write(subscription, 1))],
    )


def test_an_expression_of_a_loaded_group_matches_no_more_before_its_member_says_what_it_may(
    stage: Stage,
) -> None:
    visible = {"orders", "orders-archive"}
    stage.may_describe = visible.__contains__
    stage.heartbeat(joining("new", subscribed_topic_regex="order.*"))
    stage.topics.create("orders-secret", 1)
    stage.topics.create("orders-archive", 1)
    stage = stage.reloaded()
    stage.serve(static_join(), STATIC)
    assert len(stage.group.members) == 2
    assert stage.group.subscribed_topics() == {"orders"}
    stage.may_describe = visible.__contains__
    stage.heartbeat(beating("new", stage.group.members["new"].epoch))
    assert stage.group.subscribed_topics() == visible


def test_a_static_member_changes_its_protocol_and_keeps_its_place(stage: Stage) -> None:
    stage.heartbeat(joining("n1", instance_id="s"))
    stage.heartbeat(joining("n1", instance_id="s", member_epoch=-2))
    answer = stage.serve(static_join(), STATIC)
    assert answer.error_code == ErrorCode.NONE
    assert stage.classic.state is GroupState.STABLE, "the only member speaks the classic protocol"
    assert answer.generation_id == stage.classic.generation
    again = stage.heartbeat(joining("n2", instance_id="s"))
    assert again.error_code == ErrorCode.NONE
    assert stage.group.members.keys() == {"n2"}
    assert len(told(again) or ()) == 6


class MigrationMachine(RuleBasedStateMachine):
    """Members of both protocols come and go in any order."""

    def __init__(self) -> None:
        super().__init__()
        self.stage = Stage()
        self.news = [Consumer(f"n{number}", static=False) for number in range(2)]
        self.olds = [ClassicConsumer(f"o{number}") for number in range(3)]

    @initialize()
    def topics(self) -> None:
        self.stage.topics.create("red", 4)
        self.stage.topics.create("green", 3)

    @rule(which=st.integers(0, 1), topics=st.sampled_from([["red"], ["red", "green"]]))
    def start_new(self, which: int, topics: list[str]) -> None:
        if not self.news[which].is_alive:
            self.news[which].start(topics, "")
            self.beat(which)

    @rule(which=st.integers(0, 2), topics=st.sampled_from([["red"], ["red", "green"]]))
    def start_old(self, which: int, topics: list[str]) -> None:
        if not self.olds[which].is_alive:
            self.olds[which].start(topics)

    @rule(which=st.integers(0, 1))
    def beat(self, which: int) -> None:
        if self.news[which].is_alive:
            self.news[which].beat(self.stage)
            self.news[which].take_up()

    @rule(which=st.integers(0, 1))
    def let_go(self, which: int) -> None:
        self.news[which].let_go()

    @rule(which=st.integers(0, 2))
    def step(self, which: int) -> None:
        if self.olds[which].is_alive:
            self.olds[which].step(self.stage)

    @rule()
    def all_step(self) -> None:
        for which in range(3):
            self.step(which)

    @rule(which=st.integers(0, 4))
    def crash(self, which: int) -> None:
        [*self.news, *self.olds][which].crash()

    @rule(which=st.integers(0, 1))
    def leave_new(self, which: int) -> None:
        if self.news[which].is_alive:
            self.news[which].leave(self.stage, for_good=True)

    @rule(which=st.integers(0, 2))
    def leave_old(self, which: int) -> None:
        if self.olds[which].is_alive and GROUP in self.stage.groups:
            self.olds[which].leave(self.stage)

    @rule(ms=st.sampled_from([100, 3_000, 20_000, 70_000]))
    def pass_time(self, ms: int) -> None:
        self.stage.advance(ms)

    @rule()
    def restart_coordinator(self) -> None:
        before = self.stage
        self.stage = before.reloaded()
        assert self.stage.durable() == before.durable()
        for old in self.olds:
            old.disconnected()

    @precondition(lambda self: any(one.is_alive for one in [*self.news, *self.olds]))
    @rule()
    def calm_down(self) -> None:
        living = [one for one in [*self.news, *self.olds] if one.is_alive]
        settle(self.stage, *living, rounds=150)
        group = self.stage.groups[GROUP]
        assert isinstance(group, ConsumerGroup) == any(new.is_alive for new in self.news)
        assert group.state in (ConsumerGroupState.STABLE, GroupState.STABLE)
        wanted = {name for one in living for name in one.topics}
        read = [partition for one in living for partition in one.owned]
        assert sorted(read) == sorted(
            (topic.id, index)
            for name, topic in self.stage.image.topics.items()
            if name in wanted
            for index in topic.partitions
        )

    @invariant()
    def nothing_is_read_twice(self) -> None:
        members = [one for one in [*self.news, *self.olds] if one.is_member(self.stage)]
        read = [partition for one in members for partition in one.owned]
        assert len(read) == len(set(read))


TestMigrationMachine = MigrationMachine.TestCase
TestMigrationMachine.settings = settings(
    max_examples=60,
    stateful_step_count=30,
    deadline=None,
    phases=(Phase.explicit, Phase.reuse, Phase.generate),
)
