"""Our assignors beside Kafka's own: same input, same answer.

The answers come from Kafka's jars, see golden/AssignorGolden.java. Where Kafka's depends on the
order of a hash table, ours must be as good: valid, as even, and as sticky.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ottla.client.consumer.assignors.assignor import Assignment, Subscription
from ottla.client.consumer.assignors.consumer_protocol import read_subscription, write_subscription
from ottla.client.consumer.assignors.named import KNOWN
from ottla.client.network.metadata import Broker, ClusterView, Partition, Topic
from ottla.client.values import GroupMetadata, TopicPartition

CASES = json.loads((Path(__file__).parent / "golden" / "assignors.json").read_text())
Given = dict[str, list[TopicPartition]]


def view_of_case(case: dict[str, Any]) -> ClusterView:
    brokers = {
        node_id: Broker(node_id, "host", 9092 + node_id, rack)
        for node_id, rack in enumerate(case["racks"])
    }
    topics = {
        name: Topic(
            name,
            bytes(16),
            False,
            tuple(
                Partition(index, replicas[0], 0, tuple(replicas), tuple(replicas), ())
                for index, replicas in enumerate(partitions)
            ),
        )
        for name, partitions in case["topics"].items()
    }
    return ClusterView(None, 0, brokers, topics)


def partitions_from(pairs: list[Any]) -> list[TopicPartition]:
    return [TopicPartition(topic, index) for topic, index in pairs]


def members_of_case(case: dict[str, Any]) -> dict[str, Subscription]:
    return {
        member_id: read_subscription(bytes.fromhex(member["bytes"]), member["instance"])
        for member_id, member in case["members"].items()
    }


def answer(case: dict[str, Any]) -> Given:
    given = KNOWN[case["assignor"]]().assign(view_of_case(case), members_of_case(case))
    return {member_id: sorted(one.partitions) for member_id, one in given.items()}


def expected(case: dict[str, Any]) -> Given:
    return {member_id: partitions_from(pairs) for member_id, pairs in case["result"].items()}


def kept(case: dict[str, Any], given: Given) -> int:
    return sum(
        len(set(given[member_id]) & set(partitions_from(member["owned"])))
        for member_id, member in case["members"].items()
    )


def unevenness(given: Given) -> int:
    sizes = [len(partitions) for partitions in given.values()]
    return sum(abs(a - b) for a in sizes for b in sizes)


def named_cases(stable: bool) -> list[Any]:
    return [
        pytest.param(case, id=f"{case['assignor']}-{number}")
        for number, case in enumerate(CASES)
        if case["stable"] is stable
    ]


@pytest.mark.parametrize("case", named_cases(stable=True))
def test_the_assignment_is_kafkas(case: dict[str, Any]) -> None:
    assert answer(case) == expected(case)


@pytest.mark.parametrize("case", named_cases(stable=False))
def test_where_kafka_leaves_it_to_chance_ours_is_as_good(case: dict[str, Any]) -> None:
    ours, theirs = answer(case), expected(case)
    for member_id, partitions in ours.items():
        assert {one.topic for one in partitions} <= set(case["members"][member_id]["topics"])
        assert len(set(partitions)) == len(partitions)
    taken = [one for partitions in ours.values() for one in partitions]
    assert len(set(taken)) == len(taken), "a partition has two owners"
    if case["assignor"] != "cooperative-sticky":
        assert sorted(taken) == sorted(one for own in theirs.values() for one in own)
        assert unevenness(ours) <= unevenness(theirs)
    assert kept(case, ours) >= case["kept"]


def test_most_of_kafkas_answers_do_not_depend_on_chance() -> None:
    for name in ("range", "roundrobin"):
        assert all(case["stable"] for case in CASES if case["assignor"] == name)
    stable = sum(case["stable"] for case in CASES)
    assert stable > len(CASES) * 0.8


@pytest.mark.parametrize("case", named_cases(stable=True))
def test_a_subscription_has_kafkas_bytes(case: dict[str, Any]) -> None:
    for member in case["members"].values():
        assignor = KNOWN[case["assignor"]]()
        owned = partitions_from(member["owned"])
        if member["generation"] >= 0:
            metadata = GroupMetadata("g", member["generation"], "m")
            assignor.on_assignment(Assignment(owned), metadata)
        subscription = Subscription(
            topics=member["topics"],
            user_data=assignor.subscription_userdata(frozenset(member["topics"]), owned),
            owned=owned if case["assignor"] == "cooperative-sticky" else (),
            generation=-1 if member["silent"] else member["generation"],
            rack=member["rack"],
        )
        data = write_subscription(subscription)
        # Kafka's sticky assignor lists the topics of its user data in the order of a hash table.
        if case["assignor"] == "sticky" and len({one.topic for one in owned}) > 1:
            assert sorted(data) == sorted(bytes.fromhex(member["bytes"]))
        else:
            assert data.hex() == member["bytes"]
