"""Consumer groups in any order of events, in virtual time.

Whatever happens: no partition is read by two members that the group knows, and epochs only grow.
When it is quiet again, every partition of every subscribed topic is read by exactly one member,
those that fell silent are gone, and nobody waits for anything. A coordinator that loads the log
knows the same as the one that wrote it.
"""

from dataclasses import replace

from consumer_actors import Consumer
from consumer_stage import GROUP, SETTINGS, Stage
from hypothesis import Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from ottla.broker.coordinator.consumer.states import ConsumerGroupState

TOPICS = ["red", "green", "blue"]
topic_lists = st.lists(st.sampled_from(TOPICS), unique=True, max_size=3) | st.just(["red"])
regexes = st.sampled_from(["", "", "r.*", "(red|blue)", "nothing"])
consumers = st.integers(0, 4)


class GroupMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.stage = Stage()
        # Two of them are static: they keep their name when they come back.
        self.consumers = [Consumer(f"c{number}", static=number < 2) for number in range(5)]
        self.epoch = 0

    @initialize(interval_ms=st.sampled_from([0, 1_000]), assignor=st.booleans())
    def configure(self, interval_ms: int, assignor: bool) -> None:
        self.stage.settings = replace(
            SETTINGS,
            assignment_interval_ms=interval_ms,
            assignors=("uniform", "range") if assignor else ("range", "uniform"),
        )
        for name in TOPICS[:2]:
            self.stage.topics.create(name, 3)

    # --- topics ---------------------------------------------------------------------------------

    @rule(name=st.sampled_from(TOPICS), partitions=st.integers(1, 5))
    def create_or_grow(self, name: str, partitions: int) -> None:
        topic = self.stage.image.topics.get(name)
        if topic is None:
            self.stage.topics.create(name, partitions)
        elif len(topic.partitions) < partitions:
            self.stage.topics.grow(name, partitions)

    @rule(name=st.sampled_from(TOPICS))
    def delete(self, name: str) -> None:
        if name in self.stage.image.topics:
            self.stage.topics.delete(name)

    # --- consumers ------------------------------------------------------------------------------

    @rule(which=consumers, topics=topic_lists, regex=regexes)
    def start(self, which: int, topics: list[str], regex: str) -> None:
        consumer = self.consumers[which]
        if not consumer.is_alive:
            consumer.start(topics, regex)
            self.beat(which)

    @rule(which=consumers, topics=topic_lists, regex=regexes)
    def subscribe(self, which: int, topics: list[str], regex: str) -> None:
        self.consumers[which].subscribe(topics, regex)

    @rule(which=consumers)
    def beat(self, which: int) -> None:
        if self.consumers[which].is_alive:
            self.consumers[which].beat(self.stage)
            self.consumers[which].take_up()

    @rule(which=consumers)
    def beat_in_vain(self, which: int) -> None:
        """The answer is lost."""
        if self.consumers[which].is_alive:
            self.consumers[which].beat(self.stage, answer_arrives=False)

    @rule(which=consumers)
    def let_go(self, which: int) -> None:
        self.consumers[which].let_go()

    @rule()
    def all_beat(self) -> None:
        for which in range(len(self.consumers)):
            self.beat(which)

    @rule(which=consumers)
    def crash(self, which: int) -> None:
        self.consumers[which].crash()

    @rule(which=consumers, for_good=st.booleans())
    def leave(self, which: int, for_good: bool) -> None:
        if self.consumers[which].is_alive:
            self.consumers[which].leave(self.stage, for_good)

    # --- time and the coordinator ---------------------------------------------------------------

    @rule(ms=st.sampled_from([1, 700, 5_000, 20_000, 50_000]))
    def pass_time(self, ms: int) -> None:
        self.stage.advance(ms)

    @rule(compacted=st.booleans())
    def restart_coordinator(self, compacted: bool) -> None:
        before = self.stage
        self.stage = before.reloaded(before.compacted() if compacted else None)
        assert self.stage.durable() == before.durable()

    @precondition(lambda self: any(consumer.is_alive for consumer in self.consumers))
    @rule()
    def calm_down(self) -> None:
        """Everybody does its duty for a while, longer than any time-out."""
        living = [consumer for consumer in self.consumers if consumer.is_alive]
        for _ in range(40):
            for consumer in living:
                consumer.beat(self.stage)
                consumer.take_up()
                consumer.let_go()
            self.stage.advance(5_000)
        group = self.stage.group
        assert group.state is ConsumerGroupState.STABLE
        assert group.members.keys() == {consumer.member_id for consumer in living}
        assert {consumer.epoch for consumer in living} == {group.epoch}
        self._check_everything_is_read(living)

    def _check_everything_is_read(self, living: list[Consumer]) -> None:
        subscribed = self.stage.group.subscribed_topics()
        wanted = {
            (topic.id, index)
            for name, topic in self.stage.image.topics.items()
            if name in subscribed
            for index in topic.partitions
        }
        read = [partition for consumer in living for partition in consumer.owned]
        assert sorted(read) == sorted(wanted)

    # --- always ---------------------------------------------------------------------------------

    @invariant()
    def nothing_is_read_twice(self) -> None:
        members = [one for one in self.consumers if one.is_member(self.stage)]
        read = [partition for consumer in members for partition in consumer.owned]
        assert len(read) == len(set(read))

    @invariant()
    def the_epoch_only_grows(self) -> None:
        group = self.stage.groups.get(GROUP)
        if group is not None:
            assert group.epoch >= self.epoch
            assert group.epoch >= group.assignment_epoch
            assert all(member.epoch <= group.epoch for member in group.members.values())
            self.epoch = group.epoch

    @invariant()
    def every_member_has_a_time_after_which_it_is_given_up(self) -> None:
        group = self.stage.groups.get(GROUP)
        if group is not None:
            for member_id in group.members:
                assert ("consumer", GROUP, "session", member_id) in self.stage.timers
            assert len(self.stage.timers) <= 2 * len(group.members)


TestGroupMachine = GroupMachine.TestCase
TestGroupMachine.settings = settings(
    max_examples=150,
    stateful_step_count=40,
    deadline=None,
    # Shrinking takes minutes; the steps that failed are printed as they were.
    phases=(Phase.explicit, Phase.reuse, Phase.generate),
)
