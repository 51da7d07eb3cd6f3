"""Unmodified clients of all kinds sign in, by each mechanism, with and without TLS."""

from __future__ import annotations

import asyncio
import json
import ssl
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import aiokafka
import pytest
from bench.brokers import HOST, run_java
from confluent_kafka import Consumer, Producer
from kafka import KafkaConsumer, KafkaProducer

import ottla
from ottla.client.admin.users import ScramMechanism, ScramUpsertion
from ottla.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from ottla.protocol.messages.sasl_handshake import SaslHandshakeRequest
from sasl_broker import USERS, SaslBroker, SaslWire, sasl_options
from tls_broker import TlsFolder, TlsWire

pytestmark = pytest.mark.ottla_only

PROTOCOLS = ("SASL_PLAINTEXT", "SASL_SSL")
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
EACH = [("SASL_SSL", "PLAIN"), ("SASL_PLAINTEXT", "SCRAM-SHA-256"), ("SASL_SSL", "SCRAM-SHA-512")]
ALICE = USERS["alice"]
VALUES = [str(number).encode() for number in range(50)]


class Secured(NamedTuple):
    broker: SaslBroker
    files: TlsFolder

    def address(self, protocol: str) -> str:
        return self.broker.secured_address(protocol)

    def context(self, protocol: str) -> ssl.SSLContext | None:
        return self.files.client_context() if protocol == "SASL_SSL" else None


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    files = TlsFolder(tmp_path_factory.mktemp("tls"))
    options = files.options() | sasl_options(*MECHANISMS, listeners=PROTOCOLS)
    broker = SaslBroker(tmp_path_factory.mktemp("broker"), options, PROTOCOLS)

    async def add_users() -> None:
        async with ottla.Admin(bootstrap_servers=f"{HOST}:{broker.port}") as admin:
            for mechanism in ScramMechanism:
                changes = [ScramUpsertion("alice", ALICE, mechanism)]
                assert await admin.alter_user_scram_credentials(changes) == {"alice": None}

    try:
        broker.start()
        asyncio.run(add_users())
        yield Secured(broker, files)
        assert broker.stop() == 0
        assert ALICE not in broker.output
        assert "Traceback" not in broker.output
    finally:
        broker.remove()


def topic_of(client: str, protocol: str, mechanism: str) -> str:
    return f"{client}-{protocol}-{mechanism}".lower()


@pytest.mark.parametrize(("protocol", "mechanism"), EACH)
def test_confluents_client(secured: Secured, protocol: str, mechanism: str) -> None:
    topic = topic_of("confluent", protocol, mechanism)
    common: dict[str, Any] = {
        "bootstrap.servers": secured.address(protocol),
        "security.protocol": protocol,
        "ssl.ca.location": secured.files.ca,
        "sasl.mechanism": mechanism,
        "sasl.username": "alice",
        "sasl.password": ALICE,
    }
    producer = Producer(common)
    for value in VALUES:
        producer.produce(topic, value)
    assert producer.flush(30) == 0
    consumer = Consumer(common | {"group.id": topic, "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    received: list[bytes] = []
    deadline = time.monotonic() + 30
    while len(received) < len(VALUES) and time.monotonic() < deadline:
        message = consumer.poll(1.0)
        if message is not None and message.error() is None:
            received.append(message.value() or b"")
    consumer.close()
    assert received == VALUES


@pytest.mark.parametrize(("protocol", "mechanism"), EACH)
def test_kafka_python(secured: Secured, protocol: str, mechanism: str) -> None:
    topic = topic_of("kafka-python", protocol, mechanism)
    common: dict[str, Any] = {
        "bootstrap_servers": secured.address(protocol),
        "security_protocol": protocol,
        "ssl_cafile": secured.files.ca,
        "sasl_mechanism": mechanism,
        "sasl_plain_username": "alice",
    }
    producer = KafkaProducer(**common, sasl_plain_password=ALICE)
    for value in VALUES:
        producer.send(topic, value)
    producer.flush(30)
    producer.close()
    consumer = KafkaConsumer(
        topic,
        auto_offset_reset="earliest",
        consumer_timeout_ms=30_000,
        **common,
        sasl_plain_password=ALICE,
    )
    assert [next(consumer).value for _ in VALUES] == VALUES
    consumer.close()


@pytest.mark.parametrize(("protocol", "mechanism"), EACH)
def test_aiokafka(secured: Secured, protocol: str, mechanism: str) -> None:
    topic = topic_of("aiokafka", protocol, mechanism)
    common: dict[str, Any] = {
        "bootstrap_servers": secured.address(protocol),
        "security_protocol": protocol,
        "ssl_context": secured.context(protocol),
        "sasl_mechanism": mechanism,
        "sasl_plain_username": "alice",
    }

    async def main() -> list[bytes]:
        async with aiokafka.AIOKafkaProducer(**common, sasl_plain_password=ALICE) as producer:
            for value in VALUES:
                await producer.send_and_wait(topic, value)
        consumer = aiokafka.AIOKafkaConsumer(
            topic, auto_offset_reset="earliest", **common, sasl_plain_password=ALICE
        )
        async with consumer:
            return [(await consumer.getone()).value for _ in VALUES]

    assert asyncio.run(asyncio.wait_for(main(), 60)) == VALUES


@pytest.mark.parametrize(("protocol", "mechanism"), EACH)
def test_kafkajs(secured: Secured, node_program: str, protocol: str, mechanism: str) -> None:
    topic = topic_of("kafkajs", protocol, mechanism)
    script = str(Path(__file__).parent / "kafkajs" / "sign_in.js")
    authority = [secured.files.ca] if protocol == "SASL_SSL" else []

    def run(password: str) -> Any:
        host = secured.address(protocol).replace(HOST, "localhost")
        command = [node_program, script, host, topic, mechanism.lower(), "alice", password]
        done = subprocess.run([*command, *authority], capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, done
        return json.loads(done.stdout.splitlines()[-1])

    assert run(ALICE) == {"values": ["one", "two"]}
    assert "KafkaJSSASLAuthenticationError" in run("wrong")["error"]


@pytest.mark.parametrize(("protocol", "mechanism"), EACH[2:])
def test_javas_clients(
    secured: Secured, kafka_libs: Path, tmp_path: Path, protocol: str, mechanism: str
) -> None:
    topic = topic_of("java", protocol, mechanism)
    module = "plain.Plain" if mechanism == "PLAIN" else "scram.Scram"
    properties = tmp_path / "client.properties"
    properties.write_text(
        f"security.protocol={protocol}\nsasl.mechanism={mechanism}\n"
        f"sasl.jaas.config=org.apache.kafka.common.security.{module}LoginModule required "
        f'username="alice" password="{ALICE}";\n'
        f"ssl.truststore.type=PEM\nssl.truststore.location={secured.files.ca}\n"
    )
    place = ("--bootstrap-server", secured.address(protocol), "--topic", topic)
    run_java(
        kafka_libs,
        *("org.apache.kafka.tools.ConsoleProducer", *place),
        *("--command-config", str(properties)),
        stdin="one\ntwo\n",
    )
    read = run_java(
        kafka_libs,
        *("org.apache.kafka.tools.consumer.ConsoleConsumer", *place, "--from-beginning"),
        *("--max-messages", "2", "--timeout-ms", "30000"),
        *("--command-config", str(properties)),
    )
    assert read.stdout.split() == ["one", "two"]


def test_every_refused_client_is_told_why_over_tls_too(secured: Secured) -> None:
    handshake = SaslHandshakeRequest(mechanism="PLAIN")
    token = SaslAuthenticateRequest(auth_bytes=b"\0alice\0wrong")
    for _ in range(10):
        wire = TlsWire(secured.broker.ports["SASL_SSL"], secured.files.client_context())
        assert wire.ask(handshake, 1).error_code == 0
        assert wire.ask(token, 2).error_message == (
            "Authentication failed: Invalid username or password"
        )
        assert wire.secured.recv(1) == b""
        wire.close()


def test_bad_attempts_do_not_slow_a_client_that_is_signed_in(secured: Secured) -> None:
    """A thousand attempts a second would need machines of their own; four threads do what they
    can."""
    port = secured.broker.ports["SASL_PLAINTEXT"]
    stop = threading.Event()
    attempts = [0] * 4

    def attack(number: int) -> None:
        while not stop.is_set():
            wires = [SaslWire(port) for _ in range(10)]
            for at, wire in enumerate(wires):
                if at % 2:
                    wire.send_bytes(b"\0\0\0\x10" + b"garbage garbage ")
                else:
                    wire.plain_later("alice", "wrong")
            for wire in wires:
                while not wire.is_closed():
                    pass
                wire.close()
            attempts[number] += len(wires)

    good = SaslWire(port)
    assert good.plain("alice", ALICE).error_code == 0
    threads = [threading.Thread(target=attack, args=(number,)) for number in range(4)]
    taken = []
    for thread in threads:
        thread.start()
    began = time.monotonic()
    try:
        while time.monotonic() - began < 3:
            asked = time.monotonic()
            good.ask_versions()
            taken.append(time.monotonic() - asked)
            time.sleep(0.002)
    finally:
        stop.set()
        for thread in threads:
            thread.join()
        good.close()
    taken.sort()
    p99 = taken[len(taken) * 99 // 100]
    print(f"{sum(attempts) / 3:.0f} bad attempts/s, p99 of a request {p99 * 1000:.1f} ms")
    assert p99 < 0.2
