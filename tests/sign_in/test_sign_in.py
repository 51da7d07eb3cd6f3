"""Clients sign in at a broker process: the order of requests, refusals, bounds, and the log."""

from __future__ import annotations

import os
import socket
import struct
import time
from collections.abc import Iterator
from typing import Any

import pytest
from bench.brokers import HOST

from broker_wire import Wire
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.api_versions import ApiVersionsRequest
from ottla.protocol.messages.describe_cluster import DescribeClusterRequest
from ottla.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from ottla.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from ottla.protocol.messages.sasl_handshake import SaslHandshakeRequest
from sasl_broker import USERS, SaslBroker, SaslWire, sasl_options
from tls_broker import TlsFolder, TlsWire

pytestmark = pytest.mark.ottla_only

RECEIVE_MAX = 20_000
VERSIONS = ApiVersionsRequest(client_software_name="wire", client_software_version="1")
METADATA = MetadataRequest(topics=[MetadataRequestTopic(name="t")])


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> TlsFolder:
    return TlsFolder(tmp_path_factory.mktemp("tls"))


@pytest.fixture(scope="module")
def broker(files: TlsFolder, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SaslBroker]:
    protocols = ("SASL_PLAINTEXT", "SASL_SSL")
    broker = SaslBroker(
        tmp_path_factory.mktemp("broker"),
        files.options(client_auth="required")
        | sasl_options(
            "SCRAM-SHA-512",
            "PLAIN",
            listeners=protocols,
            sasl_server_max_receive_size=str(RECEIVE_MAX),
        ),
        protocols,
    )
    try:
        broker.start()
        yield broker
        assert broker.stop() == 0
        log = broker.tail(1_000_000)
        for password in (*USERS.values(), "wrong-password"):
            assert password not in log
    finally:
        broker.remove()


@pytest.fixture
def wire(broker: SaslBroker) -> Iterator[SaslWire]:
    wire = SaslWire(broker.ports["SASL_PLAINTEXT"])
    yield wire
    wire.close()


@pytest.mark.parametrize("version", [0, 1, 2])
def test_a_client_that_signed_in_is_served(wire: SaslWire, version: int) -> None:
    assert wire.ask(VERSIONS, 3).error_code == 0
    told = wire.handshake("PLAIN")
    assert (told.error_code, told.mechanisms) == (0, ["SCRAM-SHA-512", "PLAIN"])
    answer = wire.authenticate(f"\0bob\0{USERS['bob']}".encode(), version)
    assert (answer.error_code, answer.auth_bytes, answer.session_lifetime_ms) == (0, b"", 0)
    assert wire.ask(DescribeClusterRequest(), 1).brokers
    assert wire.ask(VERSIONS, 3).error_code == 0  # again, as any request


def test_requests_sent_with_the_last_token_are_served(wire: SaslWire) -> None:
    token = SaslAuthenticateRequest(auth_bytes=b"alice\0alice\0alice-secret")
    frames = [
        (SaslHandshakeRequest(mechanism="PLAIN"), 1),
        (token, 2),
        (VERSIONS, 3),
        (METADATA, 9),
    ]
    wire.send_bytes(b"".join(wire.frame(request, version) for request, version in frames))
    answers = [wire.receive(request, version) for request, version in frames]
    assert [answer.error_code for answer in answers[:3]] == [0, 0, 0]


def test_bytes_may_come_one_by_one(wire: SaslWire) -> None:
    token = SaslAuthenticateRequest(auth_bytes=b"\0alice\0alice-secret")
    sent = wire.frame(SaslHandshakeRequest(mechanism="PLAIN"), 1) + wire.frame(token, 2)
    for byte in sent:
        wire.send_bytes(bytes([byte]))
    assert wire.receive(SaslHandshakeRequest(), 1).error_code == 0
    assert wire.receive(token, 2).error_code == 0
    assert wire.ask(VERSIONS, 3).error_code == 0


def test_tokens_after_the_first_handshake_come_raw(wire: SaslWire) -> None:
    assert wire.handshake("PLAIN", version=0).error_code == 0
    token = b"\0alice\0alice-secret"
    wire.send_bytes(struct.pack(">i", len(token)) + token)
    assert wire._exactly(4) == bytes(4)
    assert wire.ask(DescribeClusterRequest(), 1).brokers


def test_a_wrong_raw_token_closes_the_connection(wire: SaslWire) -> None:
    assert wire.handshake("PLAIN", version=0).error_code == 0
    wire.send_bytes(struct.pack(">i", 6) + b"\0alice")
    assert wire.is_closed()


REFUSED = "Authentication failed: Invalid username or password"


@pytest.mark.parametrize(
    ("token", "message"),
    [
        (b"\0alice\0wrong-password", REFUSED),
        (b"\0nobody\0wrong-password", REFUSED),
        (b"\0alice\0alice-secretx", REFUSED),
        (b"bob\0alice\0alice-secret", "Authentication failed: Client requested an authorization "
         "id that is different from username"),
        (b"\0\0x", "Authentication failed: username not specified"),
        (b"\0alice\0", "Authentication failed: password not specified"),
        (b"", "Invalid SASL/PLAIN response: expected 3 tokens, got 1"),
        (b"alice", "Invalid SASL/PLAIN response: expected 3 tokens, got 1"),
        (b"\0\0\0", "Invalid SASL/PLAIN response: expected 3 tokens, got 4"),
        (b"\0" * 10_000, "Invalid SASL/PLAIN response: expected 3 tokens, got 4"),
    ],
)  # fmt: skip
def test_what_is_refused_is_told_after_a_delay(wire: SaslWire, token: bytes, message: str) -> None:
    assert wire.handshake("PLAIN").error_code == 0
    began = time.monotonic()
    answer = wire.authenticate(token)
    assert answer.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
    assert answer.error_message == message
    assert wire.is_closed()
    assert time.monotonic() - began > 0.09


def test_a_mechanism_that_is_not_enabled_is_refused_with_those_that_are(wire: SaslWire) -> None:
    began = time.monotonic()
    told = wire.handshake("GSSAPI")
    assert told.error_code == ErrorCode.UNSUPPORTED_SASL_MECHANISM
    assert told.mechanisms == ["SCRAM-SHA-512", "PLAIN"]
    assert wire.is_closed()
    assert time.monotonic() - began > 0.09


def test_other_requests_before_the_handshake_close_the_connection(wire: SaslWire) -> None:
    wire.send(METADATA, 9)
    assert wire.is_closed()


def test_other_requests_during_the_exchange_are_told_that_it_is_out_of_order(
    wire: SaslWire,
) -> None:
    assert wire.handshake("PLAIN").error_code == 0
    answer = wire.ask(DescribeClusterRequest(), 1)
    assert answer.error_code == ErrorCode.ILLEGAL_SASL_STATE
    assert wire.is_closed()


def test_a_second_question_for_versions_closes_the_connection(wire: SaslWire) -> None:
    assert wire.ask(VERSIONS, 3).error_code == 0
    wire.send(VERSIONS, 3)
    assert wire.is_closed()


def test_versions_may_be_asked_again_if_the_first_version_is_not_known(wire: SaslWire) -> None:
    frame = bytearray(wire.frame(VERSIONS, 3))
    frame[6:8] = struct.pack(">h", 99)
    wire.send_bytes(bytes(frame))
    assert wire.receive(VERSIONS, 0).error_code == ErrorCode.UNSUPPORTED_VERSION
    assert wire.ask(VERSIONS, 3).error_code == 0
    assert wire.plain("alice", "alice-secret").error_code == 0


@pytest.mark.parametrize(
    "garbage",
    [
        struct.pack(">i", RECEIVE_MAX + 1),
        struct.pack(">i", -1),
        struct.pack(">i", 0),
        struct.pack(">i", 3) + b"abc",
        struct.pack(">ihhih", 10, 12345, 0, 1, -1),
        struct.pack(">ihhih", 10, 17, 9, 1, -1),
        struct.pack(">ihhih", 10, 17, 1, 1, -1),
        struct.pack(">i", RECEIVE_MAX) + os.urandom(RECEIVE_MAX),
        b"GET / HTTP/1.1\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(100),
    ],
)
def test_garbage_closes_the_connection(wire: SaslWire, garbage: bytes) -> None:
    wire.send_bytes(garbage)
    assert wire.is_closed()


def test_a_listener_without_sign_in_says_so(broker: SaslBroker) -> None:
    wire = Wire(broker)
    answer = wire.ask(SaslHandshakeRequest(mechanism="PLAIN"), 1)
    assert (answer.error_code, answer.mechanisms) == (ErrorCode.ILLEGAL_SASL_STATE, [])
    answer = wire.ask(SaslAuthenticateRequest(), 2)
    assert answer.error_code == ErrorCode.ILLEGAL_SASL_STATE
    assert wire.ask(VERSIONS, 3).error_code == 0  # the connection stays
    wire.close()


def test_one_does_not_sign_in_twice(wire: SaslWire) -> None:
    assert wire.plain("alice", "alice-secret").error_code == 0
    assert wire.handshake("PLAIN").error_code == ErrorCode.ILLEGAL_SASL_STATE
    assert wire.ask(VERSIONS, 3).error_code == 0


def test_signing_in_over_tls_needs_no_certificate(broker: SaslBroker, files: TlsFolder) -> None:
    """As in Kafka, `ssl.client.auth` counts there only under the listener's own name."""
    wire: Any = TlsWire(broker.ports["SASL_SSL"], files.client_context())
    assert wire.ask(SaslHandshakeRequest(mechanism="PLAIN"), 1).error_code == 0
    token = SaslAuthenticateRequest(auth_bytes=b"\0alice\0alice-secret")
    frames = [(token, 2), (VERSIONS, 3), (METADATA, 9)]
    wire.send_bytes(b"".join(wire.frame(request, version) for request, version in frames))
    answers = [wire.receive(request, version) for request, version in frames]
    assert [answer.error_code for answer in answers[:2]] == [0, 0]
    wire.close()


def test_failures_are_logged_with_who_and_why(broker: SaslBroker) -> None:
    time.sleep(1.1)  # so that the bound on such lines is not reached
    wire = SaslWire(broker.ports["SASL_PLAINTEXT"])
    host, port = wire.socket.getsockname()
    wire.plain("mallory\nline", "wrong-password")
    wire.close()
    (line,) = [line for line in broker.tail(1_000_000).splitlines() if str(port) in line]
    for part in ("a client could not sign in", host, "SASL_PLAINTEXT", "PLAIN", "mallory", REFUSED):
        assert part in line


def test_a_client_with_another_protocol_is_told_of_in_the_log(broker: SaslBroker) -> None:
    time.sleep(1.1)  # so that the bound on such lines is not reached
    hello = bytes.fromhex("16030100f0010000ec0303") + bytes(300)
    for send, said in (
        (lambda wire: wire.send_bytes(hello), "a TLS handshake on a listener without TLS"),
        (lambda wire: wire.send(METADATA, 9), "Unexpected Kafka request of type METADATA"),
    ):
        wire = SaslWire(broker.ports["SASL_PLAINTEXT"])
        _, port = wire.socket.getsockname()
        send(wire)
        assert wire.is_closed()
        wire.close()
        (line,) = [line for line in broker.tail(1_000_000).splitlines() if str(port) in line]
        assert said in line
        assert "security.protocol must be SASL_PLAINTEXT" in line


def test_a_hundred_refused_clients_delay_no_other(broker: SaslBroker) -> None:
    bad = [SaslWire(broker.ports["SASL_PLAINTEXT"]) for _ in range(100)]
    for one in bad:
        one.send(SaslHandshakeRequest(mechanism="PLAIN"), 1)
        one.send(SaslAuthenticateRequest(auth_bytes=b"\0x\0wrong-password"), 2)
    began = time.monotonic()
    good = SaslWire(broker.ports["SASL_PLAINTEXT"])
    assert good.plain("alice", "alice-secret").error_code == 0
    assert time.monotonic() - began < 0.09  # less than the delay of a single refusal
    for one in (*bad, good):
        one.close()


def test_a_client_that_leaves_in_the_middle_is_forgotten(broker: SaslBroker) -> None:
    for _ in range(20):
        with socket.create_connection((HOST, broker.ports["SASL_PLAINTEXT"])) as leaving:
            leaving.sendall(b"\0\0")
    wire = SaslWire(broker.ports["SASL_PLAINTEXT"])
    assert wire.plain("alice", "alice-secret").error_code == 0
    wire.close()
