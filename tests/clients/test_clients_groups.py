"""Consumer groups as clients use them: join, share, commit, resume, leave, crash, grow, reset.

Every member is a process of its own, of any of the client libraries, and may be killed.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable
from itertools import chain
from pathlib import Path

import pytest
from bench.brokers import Broker
from confluent_kafka import (
    Consumer,
    ConsumerGroupTopicPartitions,
    KafkaException,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic
from group_processes import (
    ALL,
    CLASSIC,
    HERE,
    NEW,
    OURS_NEW,
    WAIT_S,
    Join,
    Member,
    has_read,
    shared,
    until,
)


@pytest.fixture
def bootstrap(group_broker: Broker) -> str:
    return group_broker.address


@pytest.mark.parametrize("library", ALL)
def test_a_member_that_comes_back_resumes_where_it_committed(
    library: str, join: Join, send: Callable[..., list[str]]
) -> None:
    first_values = send(40)
    first = join(library)
    until(has_read(first, first_values), first)
    assert sorted(first.values) == sorted(first_values)
    first.leave()
    later_values = send(20)
    second = join(library)
    until(has_read(second, later_values), second)
    assert sorted(second.values) == sorted(later_values)


@pytest.mark.parametrize("library", ALL)
def test_two_members_share_the_partitions_and_one_inherits_them_all(
    library: str, join: Join, send: Callable[..., list[str]]
) -> None:
    first = join(library)
    until(lambda: first.assigned == [0, 1, 2, 3], first)
    second = join(library)
    until(shared(first, second), first, second)
    values = send(40)
    until(lambda: first.committed + second.committed >= 40, first, second)
    assert Counter(first.values + second.values) == Counter(values)
    assert {partition for partition, _, _ in first.read} == set(first.assigned or ())
    first.leave()
    until(lambda: second.assigned == [0, 1, 2, 3], second)
    more = send(20)
    until(lambda: set(more) <= set(second.values), second)


@pytest.mark.parametrize("library", ALL)
def test_the_partitions_of_a_killed_member_are_read_by_the_others_with_nothing_skipped(
    library: str, join: Join, send: Callable[..., list[str]]
) -> None:
    first, second = join(library), join(library)
    until(shared(first, second), first, second)
    values = send(40)
    first.kill()
    values += send(40)
    until(lambda: set(values) <= {*first.values, *second.values}, second)
    until(lambda: second.assigned == [0, 1, 2, 3], second)


def test_members_of_different_libraries_share_a_group(
    join: Join, send: Callable[..., list[str]]
) -> None:
    # What they have in common is the round robin; kafkajs has an assignor of its own only.
    members = [join("confluent"), join("kafka-python"), join("aiokafka")]
    until(shared(*members), *members)
    values = send(60)
    until(lambda: sum(member.committed for member in members) >= 60, *members)
    assert Counter(chain(*(member.values for member in members))) == Counter(values)


@pytest.mark.parametrize("library", ["confluent", "ottla", NEW, OURS_NEW])
def test_a_member_that_falls_silent_is_replaced_and_may_come_back(
    library: str, join: Join, send: Callable[..., list[str]]
) -> None:
    first, second = join(library), join(library)
    until(shared(first, second), first, second)
    first.pause()
    until(lambda: second.assigned == [0, 1, 2, 3], second)
    values = send(20)
    until(lambda: set(values) <= set(second.values), second)
    first.go_on()
    until(shared(first, second), first, second)


@pytest.mark.parametrize("library", ["confluent", "ottla"])
def test_a_static_member_that_bounces_disturbs_nobody(
    library: str, join: Join, send: Callable[..., list[str]]
) -> None:
    send(8)
    slow = {"session_timeout_ms": "20000"}
    first = join(library, group_instance_id="one", **slow)
    second = join(library, group_instance_id="two", **slow)
    until(shared(first, second), first, second)
    owned, times = first.assigned, second.assignments
    first.kill()
    again = join(library, group_instance_id="one", **slow)
    until(lambda: again.assigned == owned, again, second)
    assert second.assignments == times
    values = send(8)
    until(lambda: set(values) <= {*again.values, *second.values}, again, second)


@pytest.mark.parametrize("library", ["confluent", "ottla", NEW, OURS_NEW])
def test_members_see_new_partitions_and_new_topics_of_their_pattern(
    library: str, join: Join, admin: AdminClient, topic: str, send: Callable[..., list[str]]
) -> None:
    member = join(library, of=f"^{topic}.*")
    until(lambda: member.assigned == [0, 1, 2, 3], member)
    admin.create_partitions([NewPartitions(topic, 6)])[topic].result(WAIT_S)
    until(lambda: member.assigned == [0, 1, 2, 3, 4, 5], member)
    values = send(12, partitions=6)
    until(lambda: set(values) <= set(member.values), member)
    other = f"{topic}.second"
    admin.create_topics([NewTopic(other, 1, 1)])[other].result(WAIT_S)
    until(lambda: member.assigned == [0, 0, 1, 2, 3, 4, 5], member)


@pytest.mark.parametrize("library", ["confluent", "ottla"])
def test_a_group_changes_to_the_new_protocol_and_back_while_it_works(
    library: str, join: Join, send: Callable[..., list[str]]
) -> None:
    old = join(library, partition_assignment_strategy="range")
    until(lambda: old.assigned == [0, 1, 2, 3], old)
    values = send(12)
    until(lambda: old.committed >= 12, old)
    new = join(f"{library}, new protocol")
    until(shared(old, new), old, new)
    values += send(24)
    until(lambda: set(values) <= {*old.values, *new.values}, old, new)
    old.leave()
    until(lambda: new.assigned == [0, 1, 2, 3], new)
    again = join(library, partition_assignment_strategy="range")
    until(shared(new, again), new, again)
    new.leave()
    until(lambda: again.assigned == [0, 1, 2, 3], again)
    more = send(12)
    until(lambda: set(more) <= set(again.values), again)
    everything = Counter(chain(old.values, new.values, again.values))
    assert everything == Counter(values + more)


@pytest.mark.parametrize("library", ["confluent", "ottla"])
def test_cooperative_members_keep_what_they_can(
    library: str, join: Join, send: Callable[..., list[str]]
) -> None:
    cooperative = {"partition_assignment_strategy": "cooperative-sticky"}
    first = join(library, **cooperative)
    until(lambda: first.assigned == [0, 1, 2, 3], first)
    second = join(library, **cooperative)
    until(shared(first, second), first, second)
    values = send(40)
    until(lambda: first.committed + second.committed >= 40, first, second)
    assert Counter(first.values + second.values) == Counter(values)


def test_offsets_are_reset_while_nobody_reads_and_not_while_somebody_does(
    join: Join, send: Callable[..., list[str]], admin: AdminClient, topic: str
) -> None:
    values = send(8)
    first = join("confluent")
    until(has_read(first, values), first)
    group = f"group.{topic}"
    to_start = ConsumerGroupTopicPartitions(
        group, [TopicPartition(topic, index, 0) for index in range(4)]
    )
    refused = admin.alter_consumer_group_offsets([to_start])[group].result(WAIT_S)
    errors = {one.error.name() for one in refused.topic_partitions}
    assert errors == {"UNKNOWN_MEMBER_ID"}
    first.leave()
    changed = admin.alter_consumer_group_offsets([to_start])[group].result(WAIT_S)
    assert [one.error for one in changed.topic_partitions] == [None] * 4
    again = join("confluent")
    until(has_read(again, values), again)
    assert sorted(again.values) == sorted(values)


def test_groups_are_listed_described_and_deleted_once_they_are_empty(
    join: Join, send: Callable[..., list[str]], admin: AdminClient, topic: str
) -> None:
    values = send(8)
    group = f"group.{topic}"
    member = join("confluent", client_id="reader")
    until(has_read(member, values), member)
    listed = {one.group_id: one for one in admin.list_consumer_groups().result(WAIT_S).valid}
    assert listed[group].state.name == "STABLE"
    described = admin.describe_consumer_groups([group])[group].result(WAIT_S)
    (one,) = described.members
    assert (described.state.name, one.client_id, one.host) == ("STABLE", "reader", "/127.0.0.1")
    assert sorted(p.partition for p in one.assignment.topic_partitions) == [0, 1, 2, 3]
    with pytest.raises(KafkaException, match="NON_EMPTY_GROUP"):
        admin.delete_consumer_groups([group])[group].result(WAIT_S)
    member.leave()
    admin.delete_consumer_groups([group])[group].result(WAIT_S)
    assert group not in {g.group_id for g in admin.list_consumer_groups().result(WAIT_S).valid}
    fresh = join("confluent")
    until(has_read(fresh, values), fresh)


def test_commits_survive_a_killed_broker_and_members_go_on(
    fresh_broker: Callable[..., Broker], tmp_path: Path
) -> None:
    quick = {"group.initial.rebalance.delay.ms": "0", "group.min.session.timeout.ms": "1000"}
    broker = fresh_broker(quick)
    producer = Producer({"bootstrap.servers": broker.address})
    admin = AdminClient({"bootstrap.servers": broker.address})
    admin.create_topics([NewTopic("t", 4, 1)])["t"].result(WAIT_S)

    def send(start: int) -> set[str]:
        values = {f"value-{number}" for number in range(start, start + 40)}
        for number, value in enumerate(sorted(values)):
            producer.produce("t", value.encode(), partition=number % 4)
        assert producer.flush(WAIT_S) == 0
        return values

    command = [sys.executable, str(HERE / "group_member.py"), "confluent"]
    member = Member([*command, broker.address, "g", "t"])
    try:
        first = send(0)
        until(lambda: member.committed >= 40, member)
        broker.kill()
        broker.start()
        consumer = Consumer({"bootstrap.servers": broker.address, "group.id": "g"})
        places = [TopicPartition("t", index) for index in range(4)]
        assert [one.offset for one in consumer.committed(places, WAIT_S)] == [10, 10, 10, 10]
        consumer.close()
        second = send(40)
        until(lambda: set(member.values) >= first | second, member)
        assert len(member.values) == 80
    finally:
        member.kill()


def test_no_member_reads_what_another_committed(
    join: Join, send: Callable[..., list[str]], topic: str
) -> None:
    """Members come and go one after the other, politely: every record is read exactly once."""
    seen: Counter[str] = Counter()
    wanted: Counter[str] = Counter()
    for library in (*CLASSIC, NEW, OURS_NEW, "confluent"):
        wanted.update(send(12))
        member = join(library)
        until(lambda member=member: member.committed >= 12, member)  # type: ignore[misc]
        member.leave()
        seen.update(member.values)
    assert seen == wanted
