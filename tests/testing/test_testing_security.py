"""Secured clusters in tests: users, ACLs and TLS."""

from __future__ import annotations

import asyncio
from pathlib import Path

import aiokafka
import pytest
from bench.brokers import run_java
from confluent_kafka import Consumer as OtherConsumer
from confluent_kafka import KafkaException
from confluent_kafka import Producer as OtherProducer
from kafka import KafkaProducer

import ottla.testing
from ottla import Acl, AclOperation, AclResourceType
from ottla.blocking import Admin, Producer
from ottla.protocol.errors import ErrorCode, KafkaError

MAY_WRITE = [
    Acl(AclResourceType.TOPIC, "orders", "User:alice", AclOperation.WRITE),
    Acl(AclResourceType.TOPIC, "orders", "User:alice", AclOperation.CREATE),
]
MAY_READ = [
    Acl(AclResourceType.TOPIC, "orders", "User:bob", AclOperation.READ),
    Acl(AclResourceType.GROUP, "shop", "User:bob", AclOperation.READ),
]
SECURITY = ottla.testing.Security(users=["alice", "bob"], acls=[*MAY_WRITE, *MAY_READ])


@pytest.mark.parametrize("nodes", [1, 3])
@pytest.mark.parametrize("tls", [False, True])
def test_users_do_what_their_acls_allow_and_nothing_else(nodes: int, tls: bool) -> None:
    security = ottla.testing.Security(users=SECURITY.users, acls=SECURITY.acls, tls=tls)
    with ottla.testing.cluster(nodes, security=security) as cluster:
        with Producer(**cluster.options("alice")) as producer:
            assert producer.send("orders", b"1").result().offset == 0
            with pytest.raises(KafkaError) as refused:
                producer.send("payments", b"1").result()
            assert refused.value.code is ErrorCode.TOPIC_AUTHORIZATION_FAILED
        with Admin(**cluster.options()) as admin:
            assert set(admin.describe_acls()) == set(SECURITY.acls)
        assert _read(cluster.client_settings("bob"), "shop") == b"1"
        with pytest.raises(KafkaException, match="GROUP_AUTHORIZATION_FAILED"):
            _read(cluster.client_settings("bob"), "other")


def test_other_libraries_connect_with_the_settings_that_they_are_given(
    kafka_libs: Path, tmp_path: Path
) -> None:
    security = ottla.testing.Security(users=SECURITY.users, acls=SECURITY.acls, tls=True)
    with ottla.testing.cluster(1, security=security) as cluster:
        writer = KafkaProducer(**cluster.client_settings("alice", library="kafka-python"))
        assert writer.send("orders", b"1").get(20).offset == 0
        writer.close()

        async def write() -> int:
            options = cluster.client_settings("alice", library="aiokafka")
            async with aiokafka.AIOKafkaProducer(**options) as producer:
                return (await producer.send_and_wait("orders", b"2")).offset

        assert asyncio.run(write()) == 1

        settings = cluster.client_settings("bob", "java")
        file = tmp_path / "client.properties"
        file.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
        read = run_java(
            kafka_libs,
            "org.apache.kafka.tools.consumer.ConsoleConsumer",
            *("--bootstrap-server", cluster.bootstrap_servers, "--topic", "orders"),
            *("--group", "shop", "--from-beginning", "--max-messages", "2"),
            *("--timeout-ms", "30000", "--command-config", str(file)),
        )
        assert read.stdout.split() == ["1", "2"]
        with pytest.raises(ValueError, match="'kcat' is none of librdkafka, java"):
            cluster.client_settings(library="kcat")  # type: ignore[call-overload]
    with ottla.testing.cluster(1) as cluster:
        for library in ("kafka-python", "aiokafka"):
            assert cluster.client_settings(library=library) == cluster.options()


def test_a_stranger_is_told_that_the_password_is_wrong() -> None:
    with ottla.testing.cluster(1, security=SECURITY) as cluster:
        wrong = cluster.client_settings("alice") | {"sasl.password": "guess"}
        told: list[str] = []
        producer = OtherProducer(wrong | {"error_cb": lambda error: told.append(str(error))})
        for _ in range(50):
            producer.poll(0.1)
            if told:
                break
        assert "Invalid username or password" in told[0]


def test_nodes_of_a_secured_cluster_survive_a_kill() -> None:
    with (
        ottla.testing.cluster(3, security=SECURITY) as cluster,
        Producer(**cluster.options("alice")) as producer,
    ):
        producer.send("orders", b"1").result()
        cluster.kill(1)
        producer.send("orders", b"2").result()
        cluster.start(1)
        cluster.wait_in_sync()
        producer.send("orders", b"3").result()


def test_users_that_are_not_there_are_refused() -> None:
    with ottla.testing.cluster(1, security=SECURITY) as cluster:
        for name in ("carol", "node"):
            with pytest.raises(ValueError, match=f"no user '{name}'"):
                cluster.client_settings(name)
    with ottla.testing.cluster(1) as cluster:
        assert cluster.client_settings() == {"bootstrap.servers": cluster.bootstrap_servers}
        with pytest.raises(ValueError, match="security=Security"):
            cluster.client_settings("alice")
    with pytest.raises(ValueError, match="super_users"):
        ottla.testing.Security(super_users=())


def _read(settings: dict[str, str], group: str) -> bytes | None:
    consumer = OtherConsumer(settings | {"group.id": group, "auto.offset.reset": "earliest"})
    try:
        consumer.subscribe(["orders"])
        message = consumer.poll(20)
        assert message is not None
        if message.error():
            raise KafkaException(message.error())
        value = message.value()
        return value if isinstance(value, bytes) else None
    finally:
        consumer.close()
