"""Plans move as little as they can, spread replicas and leaders, and read back."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.cli.topics.reassign_plan import (
    BadPlan,
    Placement,
    as_json,
    changes,
    from_json,
    make_plan,
)
from ottla.cli.topics.reassign_work import Copied, progress_of, throttled_replicas
from ottla.client.values import TopicPartition


def places(*replicas: list[int]) -> Placement:
    return {TopicPartition("t", index): ids for index, ids in enumerate(replicas)}


def racks(*ids: int) -> dict[int, str | None]:
    return dict.fromkeys(ids)


def test_what_is_right_already_stays_as_it_is() -> None:
    current = places([1, 2], [2, 3], [3, 1])
    assert changes(current, make_plan(current, racks(1, 2, 3))) == {}


def test_a_new_broker_gets_its_share_and_nothing_else_moves() -> None:
    current = places([1, 2, 3], [2, 3, 1], [3, 1, 2], [1, 3, 2])
    plan = make_plan(current, racks(1, 2, 3, 4))
    moved = sum(len(set(new) - set(current[one])) for one, new in plan.items())
    assert Counter(b for ids in plan.values() for b in ids) == {1: 3, 2: 3, 3: 3, 4: 3}
    assert moved == 3


def test_a_retired_broker_keeps_nothing() -> None:
    current = places([1, 2, 3], [2, 3, 1], [3, 1, 2])
    plan = make_plan(current, racks(2, 3, 4))
    assert all(set(ids) == {2, 3, 4} for ids in plan.values())
    assert Counter(ids[0] for ids in plan.values()) == {2: 1, 3: 1, 4: 1}


def test_copies_go_to_other_racks() -> None:
    current = places(*([1] for _ in range(6)))
    where = {1: "a", 2: "a", 3: "b", 4: "b"}
    plan = make_plan(current, where, replication_factor=2)
    assert all({where[b] for b in ids} == {"a", "b"} for ids in plan.values())


def test_more_copies_than_brokers_cannot_be_planned() -> None:
    with pytest.raises(BadPlan, match="3 replicas"):
        make_plan(places([1, 2, 3]), racks(1, 2))


@given(
    st.lists(st.lists(st.integers(1, 6), min_size=1, max_size=3, unique=True), min_size=1),
    st.sets(st.integers(1, 8), min_size=3),
    st.one_of(st.none(), st.integers(1, 3)),
)
def test_every_plan_is_whole_and_level(
    current: list[list[int]], brokers: set[int], factor: int | None
) -> None:
    before = places(*current)
    plan = make_plan(before, racks(*brokers), factor)
    for one, ids in plan.items():
        assert len(ids) == len(set(ids)) == (factor or len(before[one]))
        assert set(ids) <= brokers
    load = Counter(dict.fromkeys(brokers, 0))
    load.update(b for ids in plan.values() for b in ids)
    assert max(load.values()) - min(load.values()) <= 1
    assert make_plan(plan, racks(*brokers)).keys() == plan.keys()


def test_plans_have_the_form_of_kafkas_tool() -> None:
    plan = places([1, 2], [2, 1])
    assert as_json(plan)["partitions"][1] == {"topic": "t", "partition": 1, "replicas": [2, 1]}
    assert from_json(as_json(plan)) == plan


@pytest.mark.parametrize("bad", [{}, {"partitions": []}, {"partitions": [{"topic": "t"}]}, []])
def test_what_is_no_plan_is_refused(bad: object) -> None:
    with pytest.raises(BadPlan):
        from_json(bad)


def test_only_what_moves_is_throttled() -> None:
    current = places([1, 2], [2, 3], [3, 1])
    plan = places([1, 2], [2, 4], [4, 1])
    moves = changes(current, plan)
    assert throttled_replicas("t", current, moves) == ("1:2,1:3,2:3,2:1", "1:4,2:4")


def test_progress_does_not_go_back_while_what_is_left_grows() -> None:
    first, second = TopicPartition("t", 0), TopicPartition("t", 1)
    seen = {first: Copied(90, 100), second: Copied(50, 100)}
    assert progress_of(seen, [first, second]) == (2, 140, 200)
    seen[second] = Copied(55, 120)  # the first has arrived, the other one is written to
    assert progress_of(seen, [second]) == (1, 155, 220)
    assert progress_of(seen, []) == (0, 220, 220)
