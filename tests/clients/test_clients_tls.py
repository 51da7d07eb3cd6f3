"""Clients of all kinds at a TLS listener of a broker process."""

from __future__ import annotations

import asyncio
import socket
import ssl
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from bench.brokers import HOST, answers, run_java
from confluent_kafka import Consumer, Producer
from kafka import KafkaConsumer, KafkaProducer

import ottla
from broker_wire import Wire
from ottla.protocol.messages.api_versions import ApiVersionsRequest
from tls_broker import TlsBroker, TlsFolder, TlsWire

pytestmark = pytest.mark.ottla_only

LARGE = [bytes([number]) * 700_000 for number in range(30)]


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> TlsFolder:
    return TlsFolder(tmp_path_factory.mktemp("tls"))


@pytest.fixture(scope="module")
def secured(files: TlsFolder, tmp_path_factory: pytest.TempPathFactory) -> Iterator[TlsBroker]:
    broker = TlsBroker(tmp_path_factory.mktemp("broker"), files.options(client_auth="requested"))
    try:
        broker.start()
        yield broker
        assert broker.stop() == 0
    finally:
        broker.remove()


def eventually(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 30
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_confluents_client_sends_and_receives_large_records(
    secured: TlsBroker, files: TlsFolder
) -> None:
    common: dict[str, Any] = {
        "bootstrap.servers": secured.tls_address,
        "security.protocol": "SSL",
        "ssl.ca.location": files.ca,
    }
    producer = Producer(common)
    for value in LARGE:
        producer.produce("confluent", value)
    assert producer.flush(60) == 0
    consumer = Consumer(common | {"group.id": "tls", "auto.offset.reset": "earliest"})
    consumer.subscribe(["confluent"])
    received: list[bytes] = []
    deadline = time.monotonic() + 60
    while len(received) < len(LARGE) and time.monotonic() < deadline:
        message = consumer.poll(1.0)
        if message is not None and message.error() is None:
            received.append(message.value() or b"")
    consumer.close()
    assert received == LARGE


def test_kafka_python_sends_and_receives(secured: TlsBroker, files: TlsFolder) -> None:
    common: dict[str, Any] = {
        "bootstrap_servers": secured.tls_address,
        "security_protocol": "SSL",
        "ssl_cafile": files.ca,
    }
    producer = KafkaProducer(**common)
    for number in range(200):
        producer.send("kafka-python", str(number).encode())
    producer.flush(60)
    producer.close()
    consumer = KafkaConsumer(
        "kafka-python", auto_offset_reset="earliest", consumer_timeout_ms=30_000, **common
    )
    received = [next(consumer).value for _ in range(200)]
    consumer.close()
    assert received == [str(number).encode() for number in range(200)]


def test_our_own_clients_send_and_receive(secured: TlsBroker, files: TlsFolder) -> None:
    settings: dict[str, Any] = {
        "bootstrap_servers": secured.tls_address,
        "security_protocol": "SSL",
        "ssl_cafile": files.ca,
        "ssl_certfile": str(files.client.certificate),
        "ssl_keyfile": str(files.client.key),
    }

    async def main() -> list[bytes]:
        async with ottla.Producer(**settings) as producer:
            for value in LARGE:
                await producer.send("ours", value)
            await producer.flush()
        received = []
        async with ottla.Consumer("ours", auto_offset_reset="earliest", **settings) as consumer:
            async for record in consumer:
                received.append(record.value)
                if len(received) == len(LARGE):
                    break
        return received  # type: ignore[return-value]

    assert asyncio.run(asyncio.wait_for(main(), 60)) == LARGE


def test_kafkas_own_tools_send_and_receive(
    secured: TlsBroker, files: TlsFolder, kafka_libs: Path, tmp_path: Path
) -> None:
    settings = tmp_path / "client.properties"
    settings.write_text(
        "security.protocol=SSL\n"
        "ssl.truststore.type=PEM\n"
        f"ssl.truststore.location={files.ca}\n"
        "ssl.keystore.type=PEM\n"
        f"ssl.keystore.location={files.client_store}\n"
    )
    place = ("--bootstrap-server", secured.tls_address, "--topic", "java")
    tools = "org.apache.kafka.tools."
    for arguments in (
        ("TopicCommand", "--create", "--command-config", str(settings)),
        ("ConsoleProducer", "--command-config", str(settings)),
    ):
        name, *rest = arguments
        run_java(kafka_libs, tools + name, *place, *rest, stdin="one\ntwo\n")
    received = run_java(
        kafka_libs,
        tools + "consumer.ConsoleConsumer",
        *place,
        *("--from-beginning", "--max-messages", "2", "--timeout-ms", "30000"),
        *("--command-config", str(settings)),
    )
    assert received.stdout.splitlines() == ["one", "two"]


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_both_versions_of_tls_are_served(
    secured: TlsBroker, files: TlsFolder, version: ssl.TLSVersion
) -> None:
    context = files.client_context()
    context.minimum_version = context.maximum_version = version
    wire = TlsWire(secured.tls_port, context)
    for _ in range(3):
        assert wire.ask(ApiVersionsRequest(), 2).error_code == 0
    assert wire.secured.version() == version.name.replace("_", ".")
    wire.socket.close()


def test_each_wrong_protocol_leaves_a_line_that_says_so(secured: TlsBroker) -> None:
    assert not answers(secured.tls_port)
    eventually(lambda: "the client does not speak TLS" in secured.output)
    with (
        pytest.raises((ssl.SSLError, ConnectionError)),
        socket.create_connection((HOST, secured.port), timeout=20) as plain,
    ):
        ssl.create_default_context().wrap_socket(plain, server_hostname=HOST)
    eventually(lambda: "a TLS handshake on a listener without TLS" in secured.output)


def test_a_thousand_half_open_handshakes_do_not_delay_others(
    secured: TlsBroker, files: TlsFolder
) -> None:
    hello = ssl.MemoryBIO()
    beginning = files.client_context().wrap_bio(ssl.MemoryBIO(), hello, server_hostname=HOST)
    with pytest.raises(ssl.SSLWantReadError):
        beginning.do_handshake()
    first = hello.read()
    stop = threading.Event()
    slowest = 0.0

    def ask() -> None:
        nonlocal slowest
        wire = Wire(secured)
        while not stop.is_set():
            began = time.monotonic()
            assert wire.ask(ApiVersionsRequest(), 2).error_code == 0
            slowest = max(slowest, time.monotonic() - began)
            time.sleep(0.002)
        wire.socket.close()

    asking = threading.Thread(target=ask)
    asking.start()
    attackers: list[socket.socket] = []
    try:
        for number in range(1_000):
            attacker = socket.create_connection((HOST, secured.tls_port), timeout=20)
            attackers.append(attacker)
            if number % 2:
                attacker.sendall(first)
        began = time.monotonic()
        wire = TlsWire(secured.tls_port, files.client_context())
        assert wire.ask(ApiVersionsRequest(), 2).error_code == 0
        taken = time.monotonic() - began
        wire.socket.close()
    finally:
        stop.set()
        asking.join()
        for attacker in attackers:
            attacker.close()
    # Idle, these take some milliseconds; the machine may be busy with other things.
    assert slowest < 1
    assert taken < 2


def test_files_that_cannot_be_used_end_the_start_with_one_sentence(
    files: TlsFolder, tmp_path: Path
) -> None:
    for changes, code, part in (
        ({"ssl.keystore.location": "/nowhere.pem"}, 1, "ssl.keystore.location: cannot read"),
        ({"ssl.keystore.location": files.ca}, 1, "has no private key: put the key and"),
        ({"ssl.keystore.type": "JKS"}, 2, "ssl.keystore.password: must be set for"),
    ):
        broker = TlsBroker(tmp_path / "broker", files.options() | changes)
        done = subprocess.run(
            broker.command(), capture_output=True, text=True, timeout=60, env=broker.environment()
        )
        assert done.returncode == code
        assert part in done.stderr
        assert "Traceback" not in done.stderr
