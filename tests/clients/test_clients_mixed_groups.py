"""Our consumer and those of others in one group: each partition has one owner, each record one
reader, whoever leads.

The first to join a classic group leads it, and shares out the partitions for all.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from itertools import chain

import pytest
from bench.brokers import Broker
from confluent_kafka.admin import AdminClient, NewPartitions
from group_processes import NEW, OURS_NEW, WAIT_S, Join, Member, has_read, shared, until

from ottla.client.consumer.assignors.assignor import Subscription
from ottla.client.consumer.assignors.named import KNOWN
from ottla.client.network.metadata import Broker as Node
from ottla.client.network.metadata import ClusterView, Partition, Topic

Send = Callable[..., list[str]]

MIXES = [
    ("confluent", "range"),
    ("confluent", "roundrobin"),
    ("confluent", "cooperative-sticky"),
    ("kafka-python", "range"),
    ("kafka-python", "roundrobin"),
    ("kafka-python", "sticky"),
]


@pytest.fixture
def bootstrap(group_broker: Broker) -> str:
    return group_broker.address


def in_order(ours_leads: bool, join: Join, other: str, strategy: str) -> tuple[Member, Member]:
    """The leader and the follower; which of them is ours, the test says."""
    names = ("ottla", other) if ours_leads else (other, "ottla")
    members = []
    for name in names:
        members.append(join(name, partition_assignment_strategy=strategy))
        # The second one comes when the first has settled: so the first leads.
        until(lambda: members[0].assigned is not None, *members)
        if len(members) == 1:
            until(lambda: members[0].assigned == [0, 1, 2, 3], *members)
    return members[0], members[1]


def by_ottla(strategy: str, topic: str, partitions: int, members: list[str]) -> list[list[int]]:
    """What our assignor, which the golden answers have shown to be Kafka's, gives to each."""
    view = ClusterView(
        None,
        0,
        {0: Node(0, "host", 9092)},
        {topic: Topic(topic, bytes(16), False, tuple(_partition(n) for n in range(partitions)))},
    )
    given = KNOWN[strategy]().assign(view, {one: Subscription([topic]) for one in members})
    return [sorted(one.partition for one in given[member].partitions) for member in members]


def _partition(index: int) -> Partition:
    return Partition(index, 0, 0, (0,), (0,), ())


@pytest.mark.parametrize("ours_leads", [True, False], ids=["ours leads", "ours follows"])
@pytest.mark.parametrize(("other", "strategy"), MIXES)
def test_a_mixed_group_shares_its_partitions_and_reads_every_record_once(
    other: str,
    strategy: str,
    ours_leads: bool,
    join: Join,
    send: Send,
    admin: AdminClient,
    topic: str,
) -> None:
    values = send(20)
    leader, follower = in_order(ours_leads, join, other, strategy)
    until(shared(leader, follower), leader, follower)
    assert sorted(len(one.assigned or ()) for one in (leader, follower)) == [2, 2]
    values += send(40)
    until(lambda: leader.committed + follower.committed >= 60, leader, follower)
    described = admin.describe_consumer_groups([f"group.{topic}"])[f"group.{topic}"].result(WAIT_S)
    assert described.partition_assignor == strategy
    if strategy in ("range", "roundrobin"):
        ids = sorted(one.member_id for one in described.members)
        owned = {
            one.member_id: sorted(p.partition for p in one.assignment.topic_partitions)
            for one in described.members
        }
        assert [owned[one] for one in ids] == by_ottla(strategy, topic, 4, ids)
    follower.leave()
    until(lambda: leader.assigned == [0, 1, 2, 3], leader)
    values += send(20)
    until(lambda: leader.committed + follower.committed >= 80, leader)
    assert Counter(leader.values + follower.values) == Counter(values)


@pytest.mark.parametrize("other", ["confluent", "kafka-python"])
def test_another_member_takes_over_when_the_leader_goes(other: str, join: Join, send: Send) -> None:
    values = send(8)
    first, second = in_order(True, join, other, "range")
    until(shared(first, second), first, second)
    third = join("ottla", partition_assignment_strategy="range")
    until(shared(first, second, third), first, second, third)
    first.leave()
    until(shared(second, third), second, third)
    second.leave()
    until(lambda: third.assigned == [0, 1, 2, 3], third)
    values += send(16)
    everyone = (first, second, third)
    until(lambda: sum(one.committed for one in everyone) >= 24, *everyone)
    assert Counter(chain(*(one.values for one in everyone))) == Counter(values)


def test_four_libraries_share_a_group_in_turn(join: Join, send: Send) -> None:
    """All have the round robin, and every one of them is asked to leave in its turn.

    Every partition has a committed offset before the second member comes: librdkafka may apply the
    answer to "where is the beginning" after it has lost the partition and got it back, and reads
    it all again (from Kafka as well).
    """
    values = send(20)
    members = [join("ottla", partition_assignment_strategy="roundrobin")]
    until(has_read(members[0], values), *members)
    members += [
        join("confluent", partition_assignment_strategy="roundrobin"),
        join("kafka-python", partition_assignment_strategy="roundrobin"),
        join("aiokafka"),
    ]
    for remaining in range(4, 0, -1):
        active = members[-remaining:]
        until(shared(*active), *active)
        values.extend(send(20))
        until(lambda: sum(one.committed for one in members) >= len(values), *members)
        active[0].leave()
    assert Counter(chain(*(one.values for one in members))) == Counter(values)


@pytest.mark.parametrize("killed", ["ottla", "confluent"])
def test_the_survivor_of_a_mixed_group_skips_nothing(killed: str, join: Join, send: Send) -> None:
    other = {"ottla": "confluent", "confluent": "ottla"}[killed]
    victim = join(killed, partition_assignment_strategy="range")
    survivor = join(other, partition_assignment_strategy="range")
    until(shared(victim, survivor), victim, survivor)
    values = send(40)
    victim.kill()
    values += send(40)
    until(lambda: set(values) <= {*victim.values, *survivor.values}, survivor)
    until(lambda: survivor.assigned == [0, 1, 2, 3], survivor)


def test_a_mixed_group_sees_new_partitions_with_ours_leading(
    join: Join, send: Send, admin: AdminClient, topic: str
) -> None:
    leader, follower = in_order(True, join, "confluent", "range")
    until(shared(leader, follower), leader, follower)
    admin.create_partitions([NewPartitions(topic, 6)])[topic].result(WAIT_S)
    both = (leader, follower)
    until(lambda: sorted(chain(*(one.assigned or () for one in both))) == [*range(6)], *both)
    values = send(12, partitions=6)
    until(lambda: set(values) <= {*leader.values, *follower.values}, *both)


def test_static_members_of_two_libraries_bounce_without_a_rebalance(join: Join, send: Send) -> None:
    send(8)
    slow = {"session_timeout_ms": "20000", "partition_assignment_strategy": "range"}
    ours = join("ottla", group_instance_id="one", **slow)
    until(lambda: ours.assigned == [0, 1, 2, 3], ours)
    theirs = join("confluent", group_instance_id="two", **slow)
    until(shared(ours, theirs), ours, theirs)
    owned, times = ours.assigned, theirs.assignments
    ours.leave()
    again = join("ottla", group_instance_id="one", **slow)
    until(lambda: again.assigned == owned, again, theirs)
    assert theirs.assignments == times
    values = send(8)
    until(lambda: set(values) <= {*again.values, *theirs.values}, again, theirs)


@pytest.mark.parametrize(("first", "second"), [(OURS_NEW, NEW), (NEW, OURS_NEW)])
def test_members_of_the_new_protocol_share_a_mixed_group(
    first: str, second: str, join: Join, send: Send
) -> None:
    values = send(20)
    early = join(first)
    until(lambda: early.assigned == [0, 1, 2, 3], early)
    late = join(second)
    until(shared(early, late), early, late)
    values += send(40)
    until(lambda: early.committed + late.committed >= 60, early, late)
    early.leave()
    until(lambda: late.assigned == [0, 1, 2, 3], late)
    values += send(20)
    until(lambda: early.committed + late.committed >= 80, early, late)
    assert Counter(early.values + late.values) == Counter(values)


def test_a_group_of_confluent_changes_to_the_new_protocol_of_ours_and_back(
    join: Join, send: Send
) -> None:
    old = join("confluent", partition_assignment_strategy="range")
    until(lambda: old.assigned == [0, 1, 2, 3], old)
    values = send(12)
    until(lambda: old.committed >= 12, old)
    new = join(OURS_NEW)
    until(shared(old, new), old, new)
    values += send(24)
    until(lambda: old.committed + new.committed >= 36, old, new)
    old.leave()
    until(lambda: new.assigned == [0, 1, 2, 3], new)
    back = join("ottla", partition_assignment_strategy="range")
    until(shared(new, back), new, back)
    new.leave()
    until(lambda: back.assigned == [0, 1, 2, 3], back)
    values += send(12)
    everyone = (old, new, back)
    until(lambda: sum(one.committed for one in everyone) >= 48, *everyone)
    assert Counter(chain(*(one.values for one in everyone))) == Counter(values)
