"""Members of groups as processes of any client library, for the tests that name `bootstrap`."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from group_processes import HERE, NEW, OURS_NEW, WAIT_S, Join, Member


@pytest.fixture
def join(request: pytest.FixtureRequest, bootstrap: str, topic: str) -> Iterator[Join]:
    members: list[Member] = []

    def start(library: str, group: str = "", of: str = "", **settings: str) -> Member:
        arguments = [bootstrap, group or f"group.{topic}", of or topic]
        if library in (NEW, OURS_NEW):
            library = library.partition(",")[0]
            settings["group_protocol"] = "consumer"
        if library == "kafkajs":
            node = request.getfixturevalue("node_program")
            command = [node, str(HERE / "kafkajs" / "group_member.js"), *arguments]
        else:
            command = [sys.executable, str(HERE / "group_member.py"), library, *arguments]
            command += [f"{key.replace('_', '.')}={value}" for key, value in settings.items()]
        members.append(Member(command))
        return members[-1]

    yield start
    for member in members:
        member._process.kill()
        member._process.wait()


@pytest.fixture
def admin(bootstrap: str) -> AdminClient:
    return AdminClient({"bootstrap.servers": bootstrap})


@pytest.fixture
def send(bootstrap: str, topic: str, admin: AdminClient) -> Callable[..., list[str]]:
    """`send(count)` writes so many new values, over all partitions in turn."""
    sent = 0
    partitions = 4
    admin.create_topics([NewTopic(topic, partitions, 1)])[topic].result(WAIT_S)
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 0})

    def write(count: int, partitions: int = partitions) -> list[str]:
        nonlocal sent
        values = [f"value-{number}" for number in range(sent, sent + count)]
        for number, value in enumerate(values, sent):
            producer.produce(topic, value.encode(), partition=number % partitions)
        sent += count
        assert producer.flush(WAIT_S) == 0
        return values

    return write
