"""Assignors: their promises on groups of any shape, what they tell each other, and your own."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import pytest
from bench.brokers import Broker
from consumer_tools import create_topic, run
from group_tools import crew, until
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.client.consumer.assignors.assignor import (
    Assignment,
    RebalanceProtocol,
    StatelessAssignor,
    Subscription,
)
from ottla.client.consumer.assignors.consumer_protocol import (
    read_assignment,
    read_subscription,
    write_assignment,
    write_subscription,
)
from ottla.client.consumer.assignors.named import KNOWN, assignors_of, protocol_of
from ottla.client.consumer.assignors.sticky_claims import Claim
from ottla.client.consumer.assignors.user_data import read_previous, write_previous
from ottla.client.consumer.groups.classic.leader import refuse_moving
from ottla.client.errors import BadSetting, IllegalState
from ottla.client.network.metadata import Broker as Node
from ottla.client.network.metadata import ClusterView, Partition, Topic
from ottla.client.values import GroupMetadata, TopicPartition
from ottla.protocol.errors import MalformedMessage

NAMES = sorted(KNOWN)


def view_of(sizes: Mapping[str, int], racks: int = 0) -> ClusterView:
    brokers = {n: Node(n, "host", 1, f"r{n % racks}" if racks else None) for n in range(4)}
    topics = {
        name: Topic(name, bytes(16), False, tuple(_partition(index) for index in range(size)))
        for name, size in sizes.items()
    }
    return ClusterView(None, 0, brokers, topics)


def _partition(index: int) -> Partition:
    replicas = (index % 4, (index + 1) % 4)
    return Partition(index, replicas[0], 0, replicas, replicas, ())


topics = st.dictionaries(st.sampled_from("abcd"), st.integers(1, 9), min_size=1)


@st.composite
def groups(draw: Any) -> tuple[dict[str, int], dict[str, Subscription]]:
    sizes = draw(topics)
    wanted = st.lists(st.sampled_from([*sizes, "missing"]), unique=True, min_size=1)
    racks = st.sampled_from([None, "r0", "r1", "r9"])
    members = draw(st.dictionaries(st.sampled_from("stuvwxyz"), st.tuples(wanted, racks)))
    return sizes, {
        one: Subscription(topics=names, rack=rack) for one, (names, rack) in members.items()
    }


@pytest.mark.parametrize("name", NAMES)
@given(group=groups(), racks=st.integers(0, 3))
def test_every_partition_that_somebody_wants_goes_to_one_who_wants_it(
    name: str, group: tuple[dict[str, int], dict[str, Subscription]], racks: int
) -> None:
    sizes, members = group
    if not members:
        return
    assigned = KNOWN[name]().assign(view_of(sizes, racks), members)
    assert assigned.keys() == members.keys()
    given_out = [one for assignment in assigned.values() for one in assignment.partitions]
    wanted = {topic for member in members.values() for topic in member.topics} & sizes.keys()
    assert sorted(given_out) == sorted(
        TopicPartition(topic, index) for topic in wanted for index in range(sizes[topic])
    )
    for one, assignment in assigned.items():
        assert {partition.topic for partition in assignment.partitions} <= set(members[one].topics)


@pytest.mark.parametrize("name", ["sticky", "cooperative-sticky"])
@settings(max_examples=60)
@given(
    sizes=topics,
    comings=st.lists(st.frozensets(st.sampled_from("stuvwxyz"), min_size=1), max_size=5),
)
def test_sticky_groups_stay_even_and_move_no_more_than_they_must(
    name: str, sizes: dict[str, int], comings: list[frozenset[str]]
) -> None:
    view = view_of(sizes)
    total = sum(sizes.values())
    owned: dict[str, Collection[TopicPartition]] = {}
    for generation, present in enumerate(comings, 1):
        owned = {one: part for one, part in owned.items() if one in present}
        before = {partition: one for one, part in owned.items() for partition in part}
        rounds = 0
        while True:
            assigned = _round(name, view, sizes, present, owned, generation)
            settled = {one: set(part) for one, part in owned.items()} == assigned
            owned = {one: sorted(part) for one, part in assigned.items()}
            rounds += 1
            if settled or name == "sticky":
                break
        assert rounds <= 3, "a cooperative group settles in two rounds"
        counts = sorted(len(part) for part in owned.values())
        assert sum(counts) == total
        assert counts[-1] - counts[0] <= 1
        kept = sum(before.get(one) == owner for owner, part in owned.items() for one in part)
        # At most: what exceeds the new even share, or had no owner any more, moves.
        share = -(-total // len(present))
        had = [sum(owner == one for owner in before.values()) for one in present]
        assert kept >= sum(min(count, share - 1) for count in had)


def _round(
    name: str,
    view: ClusterView,
    sizes: dict[str, int],
    present: frozenset[str],
    owned: Mapping[str, Collection[TopicPartition]],
    generation: int,
) -> dict[str, set[TopicPartition]]:
    members = {}
    for one in present:
        mine = KNOWN[name]()
        had = sorted(owned.get(one, ()))
        if one in owned:
            mine.on_assignment(Assignment(had), GroupMetadata("g", generation, one))
        data = mine.subscription_userdata(frozenset(sizes), had)
        eager = name == "sticky"
        members[one] = Subscription(
            sorted(sizes), data, () if eager else had, generation if one in owned else -1
        )
    assigned = KNOWN[name]().assign(view, members)
    return {one: set(assignment.partitions) for one, assignment in assigned.items()}


def test_members_of_a_rack_get_what_lies_there() -> None:
    members = {one: Subscription(["a"], rack=f"r{one}") for one in "01"}
    brokers = {n: Node(n, "host", 1, f"r{n}") for n in range(2)}
    partitions = tuple(Partition(n, n % 2, 0, (n % 2,), (n % 2,), ()) for n in range(6))
    view = ClusterView(None, 0, brokers, {"a": Topic("a", bytes(16), False, partitions)})
    for name in ("range", "sticky", "cooperative-sticky"):
        assigned = KNOWN[name]().assign(view, members)
        for one, assignment in assigned.items():
            assert {partition.partition % 2 for partition in assignment.partitions} == {int(one)}


# What is packed


partitions = st.builds(TopicPartition, st.text(max_size=8), st.integers(0, 2**31 - 1))


@given(
    st.lists(st.text(max_size=8), unique=True),
    st.none() | st.binary(max_size=20),
    st.lists(partitions, unique=True),
    st.integers(-1, 2**31 - 1),
    st.none() | st.text(min_size=1, max_size=5),
)
def test_subscriptions_and_assignments_come_back_as_they_were(
    names: list[str],
    data: bytes | None,
    owned: list[TopicPartition],
    generation: int,
    rack: str | None,
) -> None:
    one = Subscription(tuple(sorted(names)), data, tuple(sorted(owned)), generation, rack)
    assert read_subscription(write_subscription(one)) == one
    given_out = Assignment(tuple(sorted(owned)), data)
    assert read_assignment(write_assignment(given_out)) == given_out


@given(st.binary(max_size=60))
def test_bytes_of_others_are_read_or_refused_never_worse(data: bytes) -> None:
    for read in (read_subscription, read_assignment):
        try:
            read(data)
        except MalformedMessage:
            pass
    read_previous(data)


@given(st.lists(partitions, unique=True), st.integers(-1, 2**31 - 1))
def test_what_a_sticky_member_tells_of_the_past_comes_back(
    owned: list[TopicPartition], generation: int
) -> None:
    claim = read_previous(write_previous(Claim(tuple(sorted(owned)), generation)))
    assert claim is not None
    assert (set(claim.partitions), claim.generation) == (set(owned), generation)


# Which one


def test_the_rebalance_protocol_is_the_best_that_all_assignors_have() -> None:
    def chosen(*names: str) -> RebalanceProtocol:
        return protocol_of(assignors_of(names).values())

    assert chosen("cooperative-sticky") is RebalanceProtocol.COOPERATIVE
    assert chosen("range", "cooperative-sticky") is RebalanceProtocol.EAGER
    assert chosen("range", "sticky") is RebalanceProtocol.EAGER


@pytest.mark.parametrize(
    ("strategy", "problem"),
    [
        ([], "not a list of assignors"),
        ("range", "not a list of assignors"),
        (["rang"], "'rang' is none of: range, roundrobin, sticky, cooperative-sticky"),
        (["range", "range"], "'range' is there twice"),
    ],
)
def test_a_strategy_that_makes_no_sense_is_refused(strategy: Any, problem: str) -> None:
    with pytest.raises(BadSetting, match=problem):
        assignors_of(strategy)


def test_a_cooperative_assignor_must_not_give_away_what_somebody_has() -> None:
    place = TopicPartition("t", 0)
    members = {"a": Subscription(["t"], owned=[place]), "b": Subscription(["t"])}
    moved = {"a": Assignment([]), "b": Assignment([place])}
    with pytest.raises(IllegalState, match="'mine' says it is cooperative, but gives t-0"):
        refuse_moving("mine", members, moved)
    refuse_moving("mine", members, {"a": Assignment([]), "b": Assignment([])})


class Favourite(StatelessAssignor):
    """Everything to the member whose user data say so."""

    name = "favourite"

    def __init__(self, wish: bytes) -> None:
        self.wish = wish
        self.got: list[Assignment] = []

    def subscription_userdata(self, topics: Any, owned: Any) -> bytes:
        return self.wish

    def assign(
        self, view: ClusterView, members: Mapping[str, Subscription]
    ) -> dict[str, Assignment]:
        all_of = {topic for one in members.values() for topic in one.topics}
        everything = [
            TopicPartition(topic, one.index)
            for topic in sorted(all_of)
            for one in view.topics[topic].partitions
        ]
        chosen = max(members, key=lambda one: members[one].user_data or b"")
        return {one: Assignment(everything if one == chosen else [], b"hi") for one in members}

    def on_assignment(self, assignment: Assignment, metadata: GroupMetadata) -> None:
        self.got.append(assignment)


def test_an_assignor_of_your_own_shares_out_as_it_likes(group_broker: Broker, topic: str) -> None:
    create_topic(group_broker.address, topic, 3)
    modest, greedy = Favourite(b"0"), Favourite(b"9")

    async def main() -> None:
        async with crew(group_broker.address, topic) as group:
            first = await group.join(partition_assignment_strategy=[modest])
            await until(lambda: first.owned == [0, 1, 2])
            second = await group.join(partition_assignment_strategy=[greedy])
            await until(lambda: (first.owned, second.owned) == ([], [0, 1, 2]))

    run(main)
    assert len(greedy.got[-1].partitions) == 3
    assert greedy.got[-1].user_data == b"hi"
