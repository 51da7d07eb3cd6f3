"""Unmodified clients of all kinds at three nodes with TLS, SASL and ACLs, while a node is killed
and started again. `test_clients_tls.py` and `test_clients_sasl.py` try a single broker."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from secured_nodes import Door, SecuredNodes

pytestmark = [pytest.mark.ottla_only, pytest.mark.timeout(180)]

DOORS = (
    Door("confluent", "SASL_SSL", "OAUTHBEARER"),
    Door("kafka-python", "SSL"),
    Door("aiokafka", "SASL_SSL", "SCRAM-SHA-256"),
    Door("kafkajs", "SSL"),
    Door("platformatic", "SASL_SSL", "SCRAM-SHA-512"),
    Door("java", "SASL_PLAINTEXT", "OAUTHBEARER"),
)


@pytest.fixture
def nodes(tmp_path: Path) -> Iterator[SecuredNodes]:
    with SecuredNodes(tmp_path) as running:
        yield running


def test_every_client_survives_a_kill_and_may_do_only_what_acls_allow(
    nodes: SecuredNodes, node_program: str, kafka_libs: Path
) -> None:
    clients = [
        nodes.begin(door, node_program=node_program, kafka_libs=kafka_libs) for door in DOORS
    ]
    try:
        for client in clients:
            client.await_ready()
        for client in clients:
            client.proceed()
        time.sleep(0.4)
        nodes.nodes[1].kill()
        time.sleep(0.5)
        nodes.start(1)
        for client in clients:
            read, refused = client.outcome()
            assert read == client.door.everything, client.door
            assert "authoriz" in refused.lower(), client.door
    finally:
        for client in clients:
            client.end()
    for node in nodes.nodes.values():
        assert "-secret" not in node.output
        assert "Traceback" not in node.output
