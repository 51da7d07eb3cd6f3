"""GSSAPI beside Apache Kafka: our clients sign in there, and both refuse alike."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from bench.brokers import Kafka, Ottla, free_port

from kerberos_kdc import REALM, Kdc, skip_without_kerberos
from ottla.blocking import Admin
from sasl_broker import SaslWire

pytestmark = [pytest.mark.ottla_only, pytest.mark.timeout(180)]
skip_without_kerberos()

LINE = "listener.name.sasl_plaintext.gssapi.sasl.jaas.config"
RULES = f"RULE:[1:$1@$0](al.*@{REALM})s/@.*/-ann/U,RULE:[2:$2.$1]/L,DEFAULT"


class Both(NamedTuple):
    kafka: int
    ottla: int


@pytest.fixture(scope="module")
def kdc(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kdc]:
    kdc = Kdc(tmp_path_factory.mktemp("kdc"))
    with pytest.MonkeyPatch.context() as patch:
        for name, value in kdc.environment.items():
            patch.setenv(name, value)
        try:
            yield kdc
        finally:
            kdc.close()


@pytest.fixture(scope="module")
def both(kdc: Kdc, kafka_libs: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Both]:
    folder = tmp_path_factory.mktemp("kerberos")
    options = {
        **Kafka.SINGLE_NODE,
        "listener.security.protocol.map": (
            "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,SASL_PLAINTEXT:SASL_PLAINTEXT"
        ),
        "sasl.enabled.mechanisms": "GSSAPI",
        "sasl.kerberos.service.name": "kafka",
        "sasl.kerberos.principal.to.local.rules": RULES,
        "delegation.token.secret.key": "key",
        LINE: (
            "com.sun.security.auth.module.Krb5LoginModule required useKeyTab=true storeKey=true "
            f'keyTab="{kdc.keytab("kafka/localhost")}" principal="kafka/localhost@{REALM}";'
        ),
    }
    kafka = Kafka(folder / "kafka", options, libs=kafka_libs)
    kafka.JVM = (
        *("-Xmx400m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto"),
        f"-Djava.security.krb5.conf={kdc.config}",
    )
    brokers = (kafka, Ottla(folder / "ottla", options))
    ports = []
    try:
        for broker in brokers:
            ports.append(free_port())
            broker.more_listeners.append(f"SASL_PLAINTEXT://localhost:{ports[-1]}")
            broker.start()
        yield Both(*ports)
    finally:
        for broker in brokers:
            broker.remove()


def test_principals_become_the_same_users(both: Both, kdc: Kdc) -> None:
    principals = ("alice", "bob", "app/HOST.example", "Alan")
    keytab = kdc.keytab(*principals)
    owners: list[dict[str, str]] = []
    for port in both:
        found = {}
        for principal in principals:
            client: dict[str, Any] = {
                "bootstrap_servers": f"localhost:{port}",
                "security_protocol": "SASL_PLAINTEXT",
                "sasl_mechanism": "GSSAPI",
                "sasl_kerberos_service_name": "kafka",
                "sasl_kerberos_principal": principal,
                "sasl_kerberos_keytab": keytab,
            }
            with Admin(**client) as admin:
                found[principal] = admin.create_delegation_token().owner
        owners.append(found)
    assert owners[0] == owners[1]
    assert owners[0] == {
        "alice": "User:ALICE-ANN",
        "bob": "User:bob",
        "app/HOST.example": "User:host.example.app",
        "Alan": "User:Alan",
    }


@pytest.mark.parametrize("token", [b"", b"garbage", b"\x60\x82\x02\x26" + bytes(546)])
def test_garbage_is_refused_alike(both: Both, token: bytes) -> None:
    heard = []
    for port in both:
        wire = SaslWire(port)
        assert wire.handshake("GSSAPI").error_code == 0
        answer = wire.authenticate(token)
        heard.append((answer.error_code, answer.error_message, wire.is_closed()))
        wire.close()
    assert heard[0] == heard[1]
