"""Clients must sign in again before their session ends (KIP-368)."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import Producer

import ottla
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.api_versions import ApiVersionsRequest
from ottla.protocol.messages.describe_cluster import DescribeClusterRequest
from ottla.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from ottla.protocol.messages.sasl_handshake import SaslHandshakeRequest
from sasl_broker import USERS, SaslBroker, SaslWire, sasl_options

pytestmark = pytest.mark.ottla_only

LIFETIME_MS = 1_500
VERSIONS = ApiVersionsRequest(client_software_name="wire", client_software_version="1")


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SaslBroker]:
    options = sasl_options("PLAIN", "SCRAM-SHA-256") | {
        "listener.name.sasl_plaintext.plain.connections.max.reauth.ms": str(LIFETIME_MS),
        "connections.max.reauth.ms": "3600000",
    }
    broker = SaslBroker(tmp_path_factory.mktemp("broker"), options)
    try:
        broker.start()
        yield broker
        assert broker.stop() == 0
        assert "Traceback" not in broker.output
    finally:
        broker.remove()


@pytest.fixture
def wire(broker: SaslBroker) -> Iterator[SaslWire]:
    wire = SaslWire(broker.ports["SASL_PLAINTEXT"])
    answer = wire.plain("alice", USERS["alice"])
    assert (answer.error_code, answer.session_lifetime_ms) == (0, LIFETIME_MS)
    yield wire
    wire.close()


def test_a_request_after_the_session_closes_the_connection(wire: SaslWire) -> None:
    assert wire.ask(VERSIONS, 3).error_code == 0
    time.sleep(LIFETIME_MS / 1000 + 0.2)
    wire.send(VERSIONS, 3)
    assert wire.is_closed()


def test_a_client_that_signs_in_again_is_served_on(wire: SaslWire) -> None:
    for _ in range(2):
        time.sleep(LIFETIME_MS / 1000 - 0.4)
        answer = wire.plain("alice", USERS["alice"])
        assert (answer.error_code, answer.session_lifetime_ms) == (0, LIFETIME_MS)
        assert wire.ask(DescribeClusterRequest(), 1).brokers
    time.sleep(LIFETIME_MS / 1000 + 0.2)
    assert wire.plain("alice", USERS["alice"]).error_code == 0  # even now
    assert wire.ask(VERSIONS, 3).error_code == 0


def test_answers_from_before_leave_first(wire: SaslWire) -> None:
    token = SaslAuthenticateRequest(auth_bytes=b"\0alice\0" + USERS["alice"].encode())
    handshake = SaslHandshakeRequest(mechanism="PLAIN")
    frames = [(VERSIONS, 3), (handshake, 1), (token, 2), (VERSIONS, 3)]
    wire.send_bytes(b"".join(wire.frame(request, version) for request, version in frames))
    assert [wire.receive(request, version).error_code for request, version in frames] == [0] * 4


def test_signing_in_again_at_once_is_out_of_order(wire: SaslWire) -> None:
    assert wire.plain("alice", USERS["alice"]).error_code == 0
    assert wire.handshake("PLAIN").error_code == ErrorCode.ILLEGAL_SASL_STATE
    assert wire.ask(VERSIONS, 3).error_code == 0


def test_nobody_becomes_somebody_else(wire: SaslWire) -> None:
    answer = wire.plain("bob", USERS["bob"])
    assert answer.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
    assert answer.error_message == (
        "Cannot change principals during re-authentication from User.alice: User.bob"
    )
    assert wire.is_closed()


def test_a_wrong_password_closes_the_connection_after_a_delay(wire: SaslWire) -> None:
    began = time.monotonic()
    answer = wire.plain("alice", "wrong")
    assert answer.error_message == "Authentication failed: Invalid username or password"
    assert wire.is_closed()
    assert time.monotonic() - began > 0.09


def test_another_mechanism_is_refused(wire: SaslWire) -> None:
    assert wire.handshake("SCRAM-SHA-256").error_code == 0
    wire.send(SaslAuthenticateRequest(auth_bytes=b"n,,n=alice,r=c"), 2)
    assert wire.is_closed()


def test_a_mechanism_that_is_not_enabled_is_refused(wire: SaslWire) -> None:
    wire.send(SaslHandshakeRequest(mechanism="GSSAPI"), 1)
    assert wire.is_closed()


def test_other_requests_while_signing_in_again_close_the_connection(wire: SaslWire) -> None:
    assert wire.handshake("PLAIN").error_code == 0
    assert wire.ask(DescribeClusterRequest(), 1).error_code == ErrorCode.ILLEGAL_SASL_STATE
    assert wire.is_closed()


def test_clients_stay_for_many_sessions(broker: SaslBroker) -> None:
    """Ours and librdkafka's: no record is lost, and hardly a connection."""
    seconds = 3 * LIFETIME_MS / 1000
    settings: dict[str, Any] = {
        "bootstrap_servers": broker.secured_address(),
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": "PLAIN",
        "sasl_username": "alice",
        "sasl_password": USERS["alice"],
    }
    theirs = Producer(
        {
            "bootstrap.servers": broker.secured_address(),
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "PLAIN",
            "sasl.username": "alice",
            "sasl.password": USERS["alice"],
        }
    )
    failures: list[Any] = []

    async def main() -> int:
        sent = 0
        async with ottla.Producer(**settings) as ours:
            end = time.monotonic() + seconds
            while time.monotonic() < end:
                await ours.send("sessions", b"x")
                theirs.produce(
                    "sessions", b"y", on_delivery=lambda error, _: failures.append(error)
                )
                theirs.poll(0)
                sent += 1
                await asyncio.sleep(0.02)
            await ours.flush()
        return sent

    sent = asyncio.run(asyncio.wait_for(main(), 60))
    assert theirs.flush(30) == 0
    assert failures == [None] * sent
