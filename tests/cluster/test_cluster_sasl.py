"""Three nodes that sign in to each other, as processes."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from bench.brokers import HOST, free_port
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient, NewTopic
from formatted_node import FormattedNode

from ottla import DelegationToken
from ottla.blocking import Admin
from ottla.client.errors import AuthenticationFailed
from tls_broker import TlsFolder

pytestmark = pytest.mark.ottla_only

PLAIN_MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"
SCRAM_MODULE = "org.apache.kafka.common.security.scram.ScramLoginModule"
ADMIN = 'username="admin" password="admin-secret"'
RECORDS = 200


class Cluster:
    def __init__(self, folder: Path, protocol: str, files: TlsFolder | None) -> None:
        self.protocol = protocol
        self.ports = [(free_port(), free_port()) for _ in range(3)]
        lower = protocol.lower()
        common = {
            "process.roles": "broker,controller",
            "controller.listener.names": "CONTROLLER",
            "listener.security.protocol.map": f"{protocol}:{protocol},CONTROLLER:{protocol}",
            "security.inter.broker.protocol": protocol,
            "sasl.enabled.mechanisms": "SCRAM-SHA-512",
            "sasl.mechanism.inter.broker.protocol": "SCRAM-SHA-512",
            f"listener.name.{lower}.scram-sha-512.sasl.jaas.config": (
                f"{SCRAM_MODULE} required {ADMIN};"
            ),
            "listener.name.controller.sasl.enabled.mechanisms": "PLAIN",
            "sasl.mechanism.controller.protocol": "PLAIN",
            "listener.name.controller.plain.sasl.jaas.config": (
                f'{PLAIN_MODULE} required {ADMIN} user_admin="admin-secret";'
            ),
            "controller.quorum.voters": ",".join(
                f"{number}@{HOST}:{own}" for number, (_, own) in enumerate(self.ports, 1)
            ),
            "delegation.token.secret.key": "token-secret",
            "default.replication.factor": "3",
            "offsets.topic.replication.factor": "3",
            "broker.session.timeout.ms": "4000",
        } | (files.options() if files is not None else {})
        self.nodes = []
        for number, (port, controller) in enumerate(self.ports, 1):
            listeners = f"{protocol}://{HOST}:{port},CONTROLLER://{HOST}:{controller}"
            own = {"node.id": str(number), "listeners": listeners}
            node = FormattedNode(folder / f"node-{number}", common | own)
            node.format_options = (
                *("--add-scram", "SCRAM-SHA-512=[name=admin,password=admin-secret]"),
                *("--add-scram", "SCRAM-SHA-512=[name=alice,password=alice-secret]"),
            )
            self.nodes.append(node)
        self.settings: dict[str, Any] = {
            "bootstrap.servers": ",".join(f"{HOST}:{port}" for port, _ in self.ports),
            "security.protocol": protocol,
            "sasl.mechanism": "SCRAM-SHA-512",
            "sasl.username": "alice",
            "sasl.password": "alice-secret",
        }
        if files is not None:
            self.settings["ssl.ca.location"] = files.ca

    def admin(self, number: int, **who: Any) -> Admin:
        """Return our client, at one node first."""
        return Admin(
            bootstrap_servers=f"{HOST}:{self.ports[number][0]}",
            security_protocol=self.settings["security.protocol"],
            sasl_mechanism="SCRAM-SHA-512",
            ssl_cafile=self.settings.get("ssl.ca.location"),
            **who,
        )

    def sign_in(self, number: int, token: DelegationToken) -> None:
        """Sign in at this node with a token, as soon as the node knows it."""
        deadline = time.monotonic() + 20
        while True:
            who = {"sasl_username": token.token_id, "sasl_password": token.password}
            try:
                with self.admin(number, **who, sasl_token_auth=True) as admin:
                    assert len(admin.describe_cluster().brokers) >= 2
                    return
            except AuthenticationFailed:
                assert time.monotonic() < deadline
                time.sleep(0.05)

    def start(self) -> None:
        for node in self.nodes:
            node.start()
        for node in self.nodes:
            node.await_ready()

    def kill(self, number: int) -> None:
        self.nodes[number].stop(signal.SIGKILL)


@pytest.fixture(params=["SASL_PLAINTEXT", "SASL_SSL"])
def cluster(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Cluster]:
    files = TlsFolder(tmp_path / "tls") if request.param == "SASL_SSL" else None
    cluster = Cluster(tmp_path, request.param, files)
    try:
        cluster.start()
        yield cluster
        for node in cluster.nodes:
            assert "Traceback" not in node.output
            assert "-secret" not in node.output
    finally:
        for node in cluster.nodes:
            node.remove()


def test_nodes_that_sign_in_replicate_and_survive_kills(cluster: Cluster) -> None:
    topic = NewTopic("replicated", 3, 3, config={"min.insync.replicas": "2"})
    admin = AdminClient(cluster.settings)
    admin.create_topics([topic])["replicated"].result(60)
    producer = Producer(cluster.settings | {"acks": "all", "enable.idempotence": "true"})
    failures: list[Any] = []

    def send(start: int) -> None:
        for number in range(start, start + RECORDS):
            producer.produce(
                "replicated",
                str(number).encode(),
                on_delivery=lambda error, _: failures.append(error) if error else None,
            )
        assert producer.flush(60) == 0
        assert not failures

    send(0)
    cluster.kill(0)
    send(RECORDS)
    cluster.nodes[0].start()
    cluster.nodes[0].await_ready()
    cluster.kill(1)
    send(2 * RECORDS)
    wanted = set(range(3 * RECORDS))
    consumer = Consumer(cluster.settings | {"group.id": "g", "auto.offset.reset": "earliest"})
    consumer.subscribe(["replicated"])
    received: set[int] = set()
    deadline = time.monotonic() + 60
    while received != wanted and time.monotonic() < deadline:
        message = consumer.poll(1.0)
        if message is not None and message.error() is None:
            received.add(int(message.value() or b"-1"))
    consumer.close()
    assert received == wanted


def test_tokens_made_at_any_node_are_good_at_all_of_them(tmp_path: Path) -> None:
    cluster = Cluster(tmp_path, "SASL_PLAINTEXT", None)
    alice = {"sasl_username": "alice", "sasl_password": "alice-secret"}
    try:
        cluster.start()
        tokens = []
        for number in range(3):
            with cluster.admin(number, **alice) as admin:
                tokens.append(admin.create_delegation_token(renewers=["User:admin"]))
        for number in range(3):
            for token in tokens:
                cluster.sign_in(number, token)
        cluster.kill(0)
        with cluster.admin(1, **alice) as admin:
            assert {one.token_id for one in admin.describe_delegation_token()} == {
                token.token_id for token in tokens
            }
            admin.expire_delegation_token(tokens[2].hmac)
        cluster.nodes[0].start()
        cluster.nodes[0].await_ready()
        cluster.sign_in(0, tokens[0])
        with cluster.admin(0, **alice) as admin:
            assert len(admin.describe_delegation_token()) == 2
    finally:
        for node in cluster.nodes:
            node.remove()


def test_a_wrong_password_between_nodes_is_logged_on_both_sides(tmp_path: Path) -> None:
    cluster = Cluster(tmp_path, "SASL_PLAINTEXT", None)
    stranger = cluster.nodes[2]
    key = "listener.name.controller.plain.sasl.jaas.config"
    stranger.options[key] = stranger.options[key].replace("admin-secret", "other-secret")
    try:
        for node in cluster.nodes:
            node.start()
        for node in cluster.nodes[:2]:
            node.await_ready()
        wanted = "this node cannot sign in to another"
        deadline = time.monotonic() + 30
        while wanted not in stranger.output and time.monotonic() < deadline:
            time.sleep(0.1)
        assert wanted in stranger.output
        assert "Invalid username or password" in stranger.output
        refusing = cluster.nodes[0].output + cluster.nodes[1].output
        assert "a client could not sign in" in refusing
        assert not stranger.is_ready
        for node in cluster.nodes:
            assert "-secret" not in node.output
    finally:
        for node in cluster.nodes:
            node.remove()
