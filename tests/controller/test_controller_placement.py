from __future__ import annotations

from collections import Counter
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.broker.controller.placement import UsableBroker, place
from ottla.protocol.errors import ErrorCode, KafkaError

BROKERS = st.lists(
    st.builds(
        UsableBroker,
        id=st.integers(0, 40),
        rack=st.sampled_from([None, "a", "b", "c"]),
        fenced=st.booleans(),
    ),
    min_size=1,
    max_size=12,
    unique_by=lambda broker: broker.id,
).filter(lambda brokers: any(not broker.fenced for broker in brokers))


@given(BROKERS, st.integers(1, 30), st.data(), st.integers())
def test_replicas_differ_and_an_active_broker_leads(
    brokers: list[UsableBroker], partitions: int, data: st.DataObject, seed: int
):
    factor = data.draw(st.integers(1, len(brokers)))
    placed = place(brokers, partitions, factor, Random(seed))
    active = {broker.id for broker in brokers if not broker.fenced}
    assert len(placed) == partitions
    for replicas in placed:
        assert len(set(replicas)) == factor
        assert replicas[0] in active


@given(st.integers(1, 9), st.integers(1, 5), st.integers())
def test_leaders_spread_evenly_over_brokers_of_one_rack(brokers: int, rounds: int, seed: int):
    usable = [UsableBroker(i, None, False) for i in range(brokers)]
    placed = place(usable, brokers * rounds, 1, Random(seed))
    assert Counter(replicas[0] for replicas in placed) == dict.fromkeys(range(brokers), rounds)


@given(st.integers(2, 4), st.integers(1, 4), st.integers(1, 40), st.integers())
def test_replicas_visit_every_rack_before_one_twice(
    racks: int, per_rack: int, partitions: int, seed: int
):
    usable = [UsableBroker(i, f"rack{i % racks}", False) for i in range(racks * per_rack)]
    for factor in range(1, racks * per_rack + 1):
        for replicas in place(usable, partitions, factor, Random(seed)):
            per = Counter(replica % racks for replica in replicas)
            assert max(per.values()) - min(per.get(rack, 0) for rack in range(racks)) <= 1


def test_fenced_brokers_are_used_only_when_needed():
    usable = [
        UsableBroker(1, None, True),
        UsableBroker(2, None, False),
        UsableBroker(3, None, False),
    ]
    for replicas in place(usable, 20, 2, Random(1)):
        assert set(replicas) == {2, 3}
    for replicas in place(usable, 20, 3, Random(1)):
        assert set(replicas) == {1, 2, 3}
        assert replicas[0] != 1


@pytest.mark.parametrize(
    ("brokers", "factor"),
    [([], 1), ([UsableBroker(1, None, True)], 1), ([UsableBroker(1, None, False)], 2)],
)
def test_what_cannot_be_placed_is_refused(brokers: list[UsableBroker], factor: int):
    with pytest.raises(KafkaError) as refused:
        place(brokers, 1, factor, Random(1))
    assert refused.value.code is ErrorCode.INVALID_REPLICATION_FACTOR
