"""The new group protocol with clients that speak it: librdkafka, and Kafka's own where it is there.

What all groups have in common is tested in `tests/clients`; here is what only this protocol has.
"""

from __future__ import annotations

import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient, ConsumerGroupDescription, NewTopic

from broker_harness import Broker, build, end

WAIT_S = 30.0
OPTIONS = {
    "group.consumer.min.heartbeat.interval.ms": "200",
    "group.consumer.heartbeat.interval.ms": "200",
    "group.consumer.min.session.timeout.ms": "3000",
    "group.consumer.session.timeout.ms": "3000",
    "group.consumer.assignment.interval.ms": "0",
    "group.initial.rebalance.delay.ms": "0",
}
NEW = {"group.protocol": "consumer"}
CLASSIC = {
    "partition.assignment.strategy": "cooperative-sticky",
    "session.timeout.ms": "6000",
    "heartbeat.interval.ms": "200",
}


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    one = build(tmp_path_factory.mktemp("consumer-broker"), OPTIONS)
    try:
        yield one.start()
        end(one, signal.SIGINT)
    finally:
        one.remove()


@pytest.fixture
def admin(bootstrap: str) -> AdminClient:
    return AdminClient({"bootstrap.servers": bootstrap})


@pytest.fixture
def orders(topic: str, bootstrap: str, admin: AdminClient) -> str:
    """A topic of six partitions with a hundred values each."""
    create(admin, topic, 6)
    producer = Producer({"bootstrap.servers": bootstrap})
    for number in range(600):
        producer.produce(topic, str(number), partition=number % 6)
    assert producer.flush(WAIT_S) == 0
    return topic


def create(admin: AdminClient, topic: str, partitions: int) -> None:
    admin.create_topics([NewTopic(topic, partitions, 1)])[topic].result(WAIT_S)


class Member:
    """A consumer, what it has now, and all it ever read."""

    def __init__(self, bootstrap: str, group: str, topic: str, **settings: str) -> None:
        self.read: list[tuple[str, int, int]] = []
        config = {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "auto.offset.reset": "earliest",
            "topic.metadata.refresh.interval.ms": "500",
        }
        self.consumer = Consumer({**config, **settings})
        self.consumer.subscribe([topic])

    @property
    def owned(self) -> set[tuple[str, int]]:
        return {(one.topic, one.partition) for one in self.consumer.assignment()}

    def poll(self) -> None:
        for message in self.consumer.consume(200, 0.05):
            assert message.error() is None, message.error()
            self.read.append((message.topic(), message.partition(), message.offset()))


Join = Callable[..., Member]


@pytest.fixture
def join(bootstrap: str, topic: str) -> Iterator[Join]:
    members: list[Member] = []

    def start(of: str = topic, **settings: str) -> Member:
        dotted = {key.replace("_", "."): value for key, value in settings.items()}
        members.append(Member(bootstrap, f"group.{topic}", of, **(dotted or NEW)))
        return members[-1]

    yield start
    for member in members:
        member.consumer.close()


def until(condition: Callable[[], object], *members: Member) -> None:
    deadline = time.monotonic() + WAIT_S
    while not condition():
        for member in members:
            member.poll()
        if time.monotonic() > deadline:
            pytest.fail(f"not within {WAIT_S} s: {[sorted(member.owned) for member in members]}")


def shared(members: list[Member], total: int) -> Callable[[], bool]:
    """Whether everything has exactly one owner, and all have equally much."""

    def holds() -> bool:
        owned = [member.owned for member in members]
        fair = {len(one) for one in owned} == {total // len(members)}
        return fair and len(set().union(*owned)) == total

    return holds


def described(admin: AdminClient, topic: str) -> ConsumerGroupDescription:
    group = f"group.{topic}"
    return admin.describe_consumer_groups([group])[group].result(WAIT_S)


def test_members_come_and_go_and_nothing_is_read_twice_or_skipped(
    orders: str, join: Join, admin: AdminClient
) -> None:
    members = [join()]
    until(lambda: len(members[0].owned) == 6, *members)
    for _ in range(2):
        members.append(join())
        until(shared(members, 6), *members)
    assert described(admin, orders).state.name == "STABLE"
    assert described(admin, orders).type.name == "CONSUMER"
    leaving = members.pop()
    leaving.consumer.close()
    until(shared(members, 6), *members)
    until(lambda: len({one for m in (*members, leaving) for one in m.read}) == 600, *members)


def test_an_expression_is_matched_by_the_broker_also_with_topics_yet_to_come(
    orders: str, join: Join, admin: AdminClient
) -> None:
    member = join(f"^{orders}.*")
    until(lambda: len(member.owned) == 6, member)
    create(admin, f"{orders}.more", 2)
    until(lambda: len(member.owned) == 8, member)


def test_a_group_changes_its_protocol_while_it_works_and_back(
    orders: str, join: Join, admin: AdminClient
) -> None:
    old = join(**CLASSIC)
    until(lambda: len(old.owned) == 6, old)
    assert described(admin, orders).type.name == "CLASSIC"
    new = join()
    until(shared([old, new], 6), old, new)
    new.consumer.close()
    until(lambda: len(old.owned) == 6, old)
    assert described(admin, orders).type.name == "CLASSIC"
    until(lambda: len({*old.read, *new.read}) == 600, old)


def test_a_static_member_that_is_back_soon_gets_the_same_again(orders: str, join: Join) -> None:
    static = join(group_protocol="consumer", group_instance_id="one")
    other = join(group_protocol="consumer", group_instance_id="two")
    until(shared([static, other], 6), static, other)
    before, others = static.owned, other.owned
    static.consumer.close()
    back = join(group_protocol="consumer", group_instance_id="one")
    until(lambda: back.owned == before, back, other)
    assert other.owned == others


def test_the_group_survives_a_restart_of_its_broker(
    fresh_broker: Callable[..., Broker], topic: str
) -> None:
    broker = fresh_broker(OPTIONS)
    create(AdminClient({"bootstrap.servers": broker.address}), topic, 4)
    members = [Member(broker.address, "g", topic, **NEW) for _ in range(2)]
    until(shared(members, 4), *members)
    owned = [member.owned for member in members]
    broker.kill()
    broker.start()
    deadline = time.monotonic() + 6
    while time.monotonic() < deadline:
        for member in members:
            member.consumer.consume(10, 0.05)
    assert [member.owned for member in members] == owned, "nobody had to rebalance"
    for member in members:
        member.consumer.close()


JAVA = """
import java.time.Duration;
import java.util.*;
import org.apache.kafka.clients.consumer.*;

public class Member {
    public static void main(String[] given) {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", given[0]);
        settings.put("group.id", given[1]);
        settings.put("group.protocol", "consumer");
        settings.put("auto.offset.reset", "earliest");
        String deserializer = "org.apache.kafka.common.serialization.StringDeserializer";
        settings.put("key.deserializer", deserializer);
        settings.put("value.deserializer", deserializer);
        int wanted = Integer.parseInt(given[3]);
        int count = 0;
        try (KafkaConsumer<String, String> consumer = new KafkaConsumer<>(settings)) {
            consumer.subscribe(new SubscriptionPattern(given[2]));
            while (count < wanted) {
                count += consumer.poll(Duration.ofMillis(100)).count();
            }
            consumer.commitSync();
        }
        System.out.println("read " + count);
    }
}
"""


def test_kafkas_own_consumer_reads_what_its_expression_matches(
    kafka_libs: Path, bootstrap: str, orders: str, tmp_path: Path, admin: AdminClient
) -> None:
    create(admin, f"{orders}.empty", 1)
    source = tmp_path / "Member.java"
    source.write_text(JAVA)
    command = ["java", "-Xmx128m", "-cp", f"{kafka_libs}/*", str(source)]
    arguments = [bootstrap, f"group.{orders}", f"{orders}.*", "600"]
    done = subprocess.run(
        command + arguments, capture_output=True, text=True, timeout=50, check=False
    )
    assert "read 600" in done.stdout, done.stderr[-3000:]
