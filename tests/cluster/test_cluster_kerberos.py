"""Three nodes that sign in to each other by Kerberos, as processes."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest
from signing_nodes import running

from kerberos_kdc import REALM, Kdc, skip_without_kerberos
from ottla.blocking import Admin, Producer

pytestmark = pytest.mark.ottla_only
skip_without_kerberos()


def test_nodes_sign_in_by_kerberos_again_and_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kdc = Kdc(tmp_path)
    for name, value in kdc.environment.items():
        monkeypatch.setenv(name, value)
    try:
        line = (
            "com.sun.security.auth.module.Krb5LoginModule required useKeyTab=true storeKey=true "
            f'keyTab="{kdc.keytab("kafka/localhost")}" principal="kafka/localhost@{REALM}";'
        )
        options = {
            "sasl.kerberos.service.name": "kafka",
            "connections.max.reauth.ms": "2000",
            "listener.name.sasl_plaintext.gssapi.sasl.jaas.config": line,
            "listener.name.controller.gssapi.sasl.jaas.config": line,
        }
        client: dict[str, Any] = {
            "security_protocol": "SASL_PLAINTEXT",
            "sasl_mechanism": "GSSAPI",
            "sasl_kerberos_service_name": "kafka",
            "sasl_kerberos_keytab": kdc.keytab("admin"),
        }
        with running(tmp_path, "GSSAPI", options, "localhost") as cluster:
            cluster.await_ready()
            client["bootstrap_servers"] = cluster.bootstrap
            with Admin(**client) as admin:
                admin.create_topic("replicated", partitions=3, replication_factor=3)
            with Producer(acks="all", **client) as producer:
                ends_at = time.monotonic() + 5
                while time.monotonic() < ends_at:
                    producer.send_and_wait("replicated", b"x")
                    time.sleep(0.1)
            output = "".join(node.output for node in cluster.nodes)
            assert "cannot sign in" not in output
            assert "could not sign in" not in output
    finally:
        kdc.close()
