"""GSSAPI: clients with keytabs and tickets, ours and Java's, and what is refused."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from aiokafka import AIOKafkaProducer
from bench.brokers import HOST, run_java
from kafka import KafkaProducer

from kerberos_kdc import REALM, Kdc, skip_without_kerberos
from ottla.blocking import Admin, Producer
from ottla.client.errors import AuthenticationFailed, BadSetting, Unreachable
from ottla.protocol.errors import ErrorCode
from sasl_broker import SaslBroker, SaslWire

pytestmark = pytest.mark.ottla_only
skip_without_kerberos()

MODULE = "com.sun.security.auth.module.Krb5LoginModule"
LINE = "listener.name.sasl_plaintext.gssapi.sasl.jaas.config"
REAUTH_MS = 2_000


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
def alice(kdc: Kdc) -> str:
    return kdc.keytab("alice")


class KerberosBroker(SaslBroker):
    """Its clients call it by the name that its principal has."""

    def command(self) -> list[str]:
        return [
            one.replace(f"SASL_PLAINTEXT://{HOST}", "SASL_PLAINTEXT://localhost")
            for one in super().command()
        ]

    def secured_address(self, protocol: str = "SASL_PLAINTEXT") -> str:
        return f"localhost:{self.ports[protocol]}"


def options(keytab: str, **changes: str) -> dict[str, str]:
    return {
        "sasl.enabled.mechanisms": "GSSAPI",
        "sasl.kerberos.service.name": "kafka",
        "sasl.kerberos.principal.to.local.rules": (
            f"RULE:[2:$1](never),RULE:[1:$1@$0](alice@{REALM})s/@.*/-ann/U,DEFAULT"
        ),
        "delegation.token.secret.key": "key",
        LINE: (
            f"{MODULE} required useKeyTab=true storeKey=true "
            f'keyTab="{keytab}" principal="kafka/localhost@{REALM}";'
        ),
    } | changes


@pytest.fixture(scope="module")
def broker(kdc: Kdc, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SaslBroker]:
    given = options(kdc.keytab("kafka/localhost"))
    given["listener.name.sasl_plaintext.gssapi.connections.max.reauth.ms"] = str(REAUTH_MS)
    broker = KerberosBroker(tmp_path_factory.mktemp("broker"), given)
    try:
        broker.start()
        yield broker
        assert broker.stop() == 0
        assert "Traceback" not in broker.output
    finally:
        broker.remove()


def settings(broker: SaslBroker, **changes: Any) -> dict[str, Any]:
    return {
        "bootstrap_servers": broker.secured_address(),
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": "GSSAPI",
        "sasl_kerberos_service_name": "kafka",
    } | changes


def user_of(given: dict[str, Any]) -> str:
    """As whom the broker knows the client: it owns the tokens that it makes."""
    with Admin(**given) as admin:
        return admin.create_delegation_token().owner


def test_a_keytab_or_a_ticket_signs_in_as_the_user_that_the_rules_name(
    broker: SaslBroker, kdc: Kdc, alice: str
) -> None:
    assert user_of(settings(broker, sasl_kerberos_keytab=alice)) == "User:ALICE-ANN"
    kdc.kinit("bob", kdc.keytab("bob"))
    assert user_of(settings(broker)) == "User:bob"
    both = kdc.keytab("carol/host", "dan")
    given = settings(broker, sasl_kerberos_keytab=both, sasl_kerberos_principal="carol/host")
    assert user_of(given) == "User:carol"


def test_clients_stay_for_many_sessions(broker: SaslBroker, alice: str) -> None:
    with Producer(**settings(broker, sasl_kerberos_keytab=alice)) as producer:
        ends_at = time.monotonic() + 2.5 * REAUTH_MS / 1000
        while time.monotonic() < ends_at:
            producer.send_and_wait("kerberized", b"x")
            time.sleep(0.05)


def test_a_file_for_javas_clients_is_good_for_ours_and_for_theirs(
    broker: SaslBroker, kdc: Kdc, alice: str, kafka_libs: Path, tmp_path: Path
) -> None:
    properties = {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "GSSAPI",
        "sasl.kerberos.service.name": "kafka",
        "sasl.jaas.config": (
            f'{MODULE} required useKeyTab=true storeKey=true keyTab="{alice}" '
            f'principal="alice@{REALM}";'
        ),
    }
    file = tmp_path / "client.properties"
    file.write_text("".join(f"{name}={value}\n" for name, value in properties.items()))
    address = ("--bootstrap", broker.secured_address())
    line = ("topics", "create", "from-tools", *address, "--command-config", str(file))
    subprocess.run([sys.executable, "-m", "ottla", *line], check=True, timeout=60)
    listed = run_java(
        kafka_libs,
        f"-Djava.security.krb5.conf={kdc.config}",
        "org.apache.kafka.tools.TopicCommand",
        *("--bootstrap-server", broker.secured_address(), "--command-config", str(file), "--list"),
    )
    assert "from-tools" in listed.stdout.split()


def test_other_python_clients_sign_in_with_a_ticket(
    broker: SaslBroker, kdc: Kdc, alice: str
) -> None:
    kdc.kinit("alice", alice)
    given: dict[str, Any] = {
        "bootstrap_servers": broker.secured_address(),
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": "GSSAPI",
        "sasl_kerberos_service_name": "kafka",
    }
    theirs = KafkaProducer(**given, sasl_kerberos_name="kafka@localhost")
    theirs.send("kerberized", b"kafka-python").get(30)
    theirs.close()

    async def send() -> None:
        producer = AIOKafkaProducer(**given, sasl_kerberos_domain_name="localhost")
        await producer.start()
        await producer.send_and_wait("kerberized", b"aiokafka")
        await producer.stop()

    asyncio.run(asyncio.wait_for(send(), 30))


def test_what_kerberos_refuses_is_told_in_its_words(
    broker: SaslBroker, kdc: Kdc, alice: str, tmp_path: Path
) -> None:
    own: dict[str, Any] = {"sasl_kerberos_keytab": alice, "default_api_timeout_ms": 1500}
    for changes, error, part in (
        ({"service_name": "nobody"}, Unreachable, "not found in Kerberos database"),
        ({"keytab": str(tmp_path / "none.keytab")}, Unreachable, "Kerberos"),
        ({"service_name": None}, BadSetting, "sasl_kerberos_service_name: GSSAPI needs it"),
    ):
        wrong = {f"sasl_kerberos_{name}": value for name, value in changes.items()}
        with pytest.raises(error, match=part):
            Admin(**settings(broker, **own | wrong)).start()
    # A ticket for the broker that it has no key for any more.
    stale = kdc.keytab("kafka/localhost-stale")
    other = KerberosBroker(tmp_path / "other", options(stale))
    other.options[LINE] = other.options[LINE].replace("kafka/localhost@", "kafka/localhost-stale@")
    try:
        other.start()
        with pytest.raises(AuthenticationFailed, match="invalid credentials with SASL mechanism"):
            Admin(**settings(other, **own)).start()
        assert "a client could not sign in" in other.output
    finally:
        other.remove()


@pytest.mark.parametrize(
    "tokens",
    [
        [b""],
        [b"garbage"],
        [b"\x60\x82\x02\x26" + bytes(546)],
        [b"\x60" + bytes(70_000)],
    ],
)
def test_garbage_is_refused(broker: SaslBroker, tokens: list[bytes]) -> None:
    wire = SaslWire(broker.ports["SASL_PLAINTEXT"])
    assert wire.handshake("GSSAPI").error_code == 0
    for token in tokens:
        answer = wire.authenticate(token)
    assert answer.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
    assert answer.error_message == (
        "Authentication failed during authentication due to invalid credentials with SASL "
        "mechanism GSSAPI"
    )
    assert wire.is_closed()
    wire.close()


def test_a_client_must_agree_to_have_no_security_layer(broker: SaslBroker, alice: str) -> None:
    from ottla.runtime.kerberos import initiate

    for last in (bytes([4, 0, 16, 0]), b"", bytes([1])):
        wire = SaslWire(broker.ports["SASL_PLAINTEXT"])
        context = initiate("kafka", "localhost", None, alice)
        assert wire.handshake("GSSAPI").error_code == 0
        context.step(wire.authenticate(context.step(None)).auth_bytes)
        assert context.is_complete
        offered = context.unwrap(wire.authenticate(b"").auth_bytes)
        assert offered == bytes([1, 0, 0, 0])
        answer = wire.authenticate(context.wrap(last))
        assert answer.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
        wire.close()


def test_a_listener_without_its_keytab_does_not_open(kdc: Kdc, tmp_path: Path) -> None:
    broker = KerberosBroker(tmp_path / "broker", options(str(tmp_path / "none.keytab")))
    try:
        with pytest.raises(Exception, match="nobody could sign in by GSSAPI"):
            broker.start()
        assert "none.keytab" in broker.output
    finally:
        broker.remove()


def test_the_start_without_kerberos_does_not_import_it() -> None:
    line = "import sys, ottla.node, ottla; print('gssapi' in sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", line], capture_output=True, text=True, env=dict(os.environ)
    )
    assert done.stdout == "False\n"
