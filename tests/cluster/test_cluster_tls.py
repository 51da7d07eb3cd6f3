"""Three nodes whose listeners all have TLS, as processes."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from bench.brokers import HOST, free_port
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient, NewTopic
from formatted_node import FormattedNode

from tls_broker import TlsFolder

pytestmark = pytest.mark.ottla_only


@pytest.fixture
def nodes(tmp_path: Path) -> Iterator[tuple[TlsFolder, list[int]]]:
    files = TlsFolder(tmp_path / "tls")
    ports = [(free_port(), free_port()) for _ in range(3)]
    common = files.options(client_auth="required") | {
        "process.roles": "broker,controller",
        "controller.listener.names": "CONTROLLER",
        "listener.security.protocol.map": "SSL:SSL,CONTROLLER:SSL",
        "security.inter.broker.protocol": "SSL",
        "controller.quorum.voters": ",".join(
            f"{number}@{HOST}:{own}" for number, (_, own) in enumerate(ports, 1)
        ),
        "default.replication.factor": "3",
        "offsets.topic.replication.factor": "3",
    }
    made = []
    for number, (port, controller) in enumerate(ports, 1):
        listeners = f"SSL://{HOST}:{port},CONTROLLER://{HOST}:{controller}"
        own = {"node.id": str(number), "listeners": listeners}
        made.append(FormattedNode(tmp_path / f"node-{number}", common | own))
    try:
        for node in made:
            node.start()
        for node in made:
            node.await_ready()
        yield files, [port for port, _ in ports]
        assert not any("Traceback" in node.output for node in made)
    finally:
        for node in made:
            node.remove()


def test_records_are_replicated_between_nodes_that_only_have_tls(
    nodes: tuple[TlsFolder, list[int]],
) -> None:
    files, ports = nodes
    settings: dict[str, Any] = {
        "bootstrap.servers": ",".join(f"{HOST}:{port}" for port in ports),
        "security.protocol": "SSL",
        "ssl.ca.location": files.ca,
        "ssl.certificate.location": str(files.client.certificate),
        "ssl.key.location": str(files.client.key),
    }
    admin = AdminClient(settings)
    topic = NewTopic("replicated", 3, 3, config={"min.insync.replicas": "3"})
    admin.create_topics([topic])["replicated"].result(60)
    producer = Producer(settings | {"acks": "all"})
    failures: list[Any] = []
    for number in range(300):
        producer.produce(
            "replicated",
            str(number).encode(),
            on_delivery=lambda error, _: failures.append(error) if error else None,
        )
    assert producer.flush(60) == 0
    assert not failures
    consumer = Consumer(settings | {"group.id": "g", "auto.offset.reset": "earliest"})
    consumer.subscribe(["replicated"])
    received: set[int] = set()
    deadline = time.monotonic() + 60
    while len(received) < 300 and time.monotonic() < deadline:
        message = consumer.poll(1.0)
        if message is not None and message.error() is None:
            received.add(int(message.value() or b"-1"))
    consumer.close()
    assert received == set(range(300))
