"""The assignors: every partition once, in balance, and as few of them moved as can be."""

from collections import Counter
from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.broker.coordinator.consumer.assignors import ASSIGNORS, Assignment, MemberSpec

TOPICS = [bytes([number]) * 16 for number in range(1, 5)]
A, B, C, D = TOPICS

counts_of_topics = st.fixed_dictionaries({topic: st.integers(0, 12) for topic in TOPICS})
member_ids = st.lists(st.text("abcdefgh", min_size=1, max_size=3), unique=True, max_size=8)


@st.composite
def groups(draw: st.DrawFn, same_topics: bool) -> tuple[dict[str, MemberSpec], dict[bytes, int]]:
    counts = draw(counts_of_topics)
    shared = draw(st.frozensets(st.sampled_from(TOPICS)))
    owners: dict[tuple[bytes, int], str] = {}
    ids = draw(member_ids)
    if ids:
        for topic in TOPICS:
            for index in range(draw(st.integers(0, 14))):
                owners[topic, index] = draw(st.sampled_from(["", *ids]))
    members = {}
    for member_id in ids:
        topics = shared if same_topics else draw(st.frozensets(st.sampled_from(TOPICS)))
        assigned: dict[bytes, set[int]] = {}
        for (topic, index), owner in owners.items():
            if owner == member_id:
                assigned.setdefault(topic, set()).add(index)
        members[member_id] = MemberSpec(
            topics,
            {topic: frozenset(indexes) for topic, indexes in assigned.items()},
            draw(st.none() | st.just(f"instance-{member_id}")),
        )
    return members, counts


def owners_of(assignment: Assignment) -> Counter[tuple[bytes, int]]:
    return Counter(
        (topic, index)
        for partitions in assignment.values()
        for topic, indexes in partitions.items()
        for index in indexes
    )


def load(assignment: Assignment, member_id: str) -> int:
    return sum(map(len, assignment[member_id].values()))


def check_complete(
    members: Mapping[str, MemberSpec], counts: Mapping[bytes, int], assignment: Assignment
) -> None:
    subscribed = frozenset().union(*(member.topics for member in members.values()))
    wanted = {(topic, index) for topic in subscribed for index in range(counts[topic])}
    owners = owners_of(assignment)
    assert owners.keys() == wanted
    assert all(count == 1 for count in owners.values())
    assert assignment.keys() == members.keys()
    for member_id, partitions in assignment.items():
        assert partitions.keys() <= members[member_id].topics
        assert all(partitions.values())


@pytest.mark.parametrize("name", ASSIGNORS)
@given(group=st.booleans().flatmap(groups))
def test_every_partition_of_a_subscribed_topic_goes_to_one_subscriber(
    name: str, group: tuple[dict[str, MemberSpec], dict[bytes, int]]
) -> None:
    members, counts = group
    check_complete(members, counts, ASSIGNORS[name](members, counts))


@given(group=groups(same_topics=True))
def test_uniform_differs_by_one_partition_at_most_if_all_subscribe_to_the_same(
    group: tuple[dict[str, MemberSpec], dict[bytes, int]],
) -> None:
    members, counts = group
    assignment = ASSIGNORS["uniform"](members, counts)
    loads = [load(assignment, member_id) for member_id in members]
    assert max(loads, default=0) - min(loads, default=0) <= 1


@given(group=groups(same_topics=False))
def test_uniform_leaves_no_move_that_would_even_out_two_subscribers(
    group: tuple[dict[str, MemberSpec], dict[bytes, int]],
) -> None:
    members, counts = group
    assignment = ASSIGNORS["uniform"](members, counts)
    for member_id, partitions in assignment.items():
        for topic in partitions:
            for other_id, other in members.items():
                if topic in other.topics:
                    assert load(assignment, member_id) - load(assignment, other_id) <= 1


@given(group=st.booleans().flatmap(groups))
def test_uniform_moves_nothing_when_nothing_changed(
    group: tuple[dict[str, MemberSpec], dict[bytes, int]],
) -> None:
    members, counts = group
    first = ASSIGNORS["uniform"](members, counts)
    settled = {
        member_id: member._replace(assigned=first[member_id])
        for member_id, member in members.items()
    }
    assert ASSIGNORS["uniform"](settled, counts) == first


@given(group=groups(same_topics=True))
def test_uniform_takes_from_a_member_only_what_is_beyond_its_share(
    group: tuple[dict[str, MemberSpec], dict[bytes, int]],
) -> None:
    members, counts = group
    assignment = ASSIGNORS["uniform"](members, counts)
    total = sum(map(len, (p for ps in assignment.values() for p in ps.values())))
    share = total // len(members) if members else 0
    for member_id, member in members.items():
        held = {
            (topic, index)
            for topic, indexes in member.assigned.items()
            for index in indexes
            if topic in member.topics and index < counts[topic]
        }
        kept = {p for p in held if p[1] in assignment[member_id].get(p[0], ())}
        assert len(kept) >= min(len(held), share)


def test_uniform_gives_a_newcomer_its_share_and_moves_no_more() -> None:
    topics = frozenset({A})
    before = ASSIGNORS["uniform"]({"m1": MemberSpec(topics), "m2": MemberSpec(topics)}, {A: 9})
    members = {name: MemberSpec(topics, before[name]) for name in before}
    after = ASSIGNORS["uniform"]({**members, "m3": MemberSpec(topics)}, {A: 9})
    assert [load(after, name) for name in ("m1", "m2", "m3")] == [3, 3, 3]
    assert all(after[name][A] <= before[name][A] for name in before)


def test_range_cuts_all_topics_in_the_same_places() -> None:
    topics = frozenset({A, B})
    assignment = ASSIGNORS["range"](
        {"m1": MemberSpec(topics), "m2": MemberSpec(topics)}, {A: 3, B: 3}
    )
    assert assignment == {
        "m1": {A: frozenset({0, 1}), B: frozenset({0, 1})},
        "m2": {A: frozenset({2}), B: frozenset({2})},
    }


def test_range_orders_static_members_by_their_lasting_name() -> None:
    topics = frozenset({A})
    assignment = ASSIGNORS["range"](
        {
            "a": MemberSpec(topics),
            "y": MemberSpec(topics, instance_id="two"),
            "z": MemberSpec(topics, instance_id="one"),
        },
        {A: 5},
    )
    assert assignment == {
        "z": {A: frozenset({0, 1})},
        "y": {A: frozenset({2, 3})},
        "a": {A: frozenset({4})},
    }
