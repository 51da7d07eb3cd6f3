"""The same sign-ins at Apache Kafka and at Ottla, byte for byte: answers, and who closes when."""

from __future__ import annotations

import asyncio
import json
import struct
import time
from base64 import b64encode, urlsafe_b64encode
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from bench.brokers import HOST, Kafka, Ottla, free_port

import ottla as ottla_clients
from ottla.client.admin.users import ScramMechanism, ScramUpsertion
from ottla.network.scram import ScramClient
from ottla.protocol.codec import decoder, encoder
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.api_versions import ApiVersionsRequest
from ottla.protocol.messages.create_delegation_token import (
    CreateDelegationTokenRequest,
    CreateDelegationTokenResponse,
)
from ottla.protocol.messages.describe_cluster import DescribeClusterRequest
from ottla.protocol.messages.metadata import MetadataRequest
from ottla.protocol.messages.sasl_authenticate import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
)
from ottla.protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from ottla.security.scram import SCRAM_MECHANISMS
from sasl_broker import SaslWire, plain_users

pytestmark = [pytest.mark.ottla_only, pytest.mark.timeout(300)]

FAST_JVM = ("-Xmx400m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto")
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule required;"
REAUTH_MS = 5_000
OPTIONS = {
    **Kafka.SINGLE_NODE,
    "listener.security.protocol.map": (
        "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,SASL_PLAINTEXT:SASL_PLAINTEXT"
    ),
    "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512,OAUTHBEARER",
    "listener.name.sasl_plaintext.plain.sasl.jaas.config": plain_users(
        {"alice": "secret", "bob": "b"}
    ),
    "listener.name.sasl_plaintext.oauthbearer.sasl.jaas.config": (
        "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required "
        'unsecuredLoginStringClaim_sub="admin" unsecuredValidatorRequiredScope="read";'
    ),
    "listener.name.sasl_plaintext.scram-sha-256.sasl.jaas.config": SCRAM,
    "listener.name.sasl_plaintext.scram-sha-512.sasl.jaas.config": SCRAM,
    "listener.name.sasl_plaintext.scram-sha-512.connections.max.reauth.ms": str(REAUTH_MS),
    "sasl.server.max.receive.size": "5000",
    "delegation.token.secret.key": "key",
}
QUIET_S = 1.5
"""A broker that says nothing for so long waits for more."""


class Both(NamedTuple):
    kafka: int
    ottla: int


@pytest.fixture(scope="module")
def both(kafka_libs: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Both]:
    folder = tmp_path_factory.mktemp("sign-in")
    kafka = Kafka(folder / "kafka", OPTIONS, libs=kafka_libs)
    kafka.JVM = FAST_JVM
    ours = Ottla(folder / "ottla", OPTIONS)
    brokers = (kafka, ours)
    ports = []
    try:
        for broker in brokers:
            ports.append(free_port())
            broker.more_listeners.append(f"SASL_PLAINTEXT://{HOST}:{ports[-1]}")
            broker.start()
            asyncio.run(add_users(broker.port))
        yield Both(*ports)
    finally:
        for broker in brokers:
            broker.remove()


async def add_users(port: int) -> None:
    async with ottla_clients.Admin(bootstrap_servers=f"{HOST}:{port}") as admin:
        for mechanism in ScramMechanism:
            for user in ("alice", "bob"):
                changes = [ScramUpsertion(user, f"{user}-scram", mechanism)]
                assert await admin.alter_user_scram_credentials(changes) == {user: None}


class Heard(NamedTuple):
    answers: tuple[bytes, ...]
    is_closed: bool
    is_delayed: bool
    """True if the end came as late as that of a failed sign-in."""


class Talk:
    """One connection; notes what it hears."""

    def __init__(self, port: int) -> None:
        self.wire = SaslWire(port)
        self.answers: list[bytes] = []

    def send(self, frame: bytes) -> bytes | None:
        """Send, and return the next frame; None if there is none."""
        self.wire.send_bytes(frame)
        return self.read()

    def ask(self, request: Any, version: int) -> bytes | None:
        return self.send(self.wire.frame(request, version))

    def read(self) -> bytes | None:
        self.wire.socket.settimeout(QUIET_S)
        try:
            head = self._exactly(4)
            frame = head and self._exactly(int.from_bytes(head, "big"))
        except TimeoutError:
            return None
        if frame is not None:
            self.answers.append(frame)
        return frame

    def _exactly(self, size: int) -> bytes | None:
        data = b""
        while len(data) < size:
            try:
                piece = self.wire.socket.recv(size - len(data))
            except ConnectionError:
                return None
            if not piece:
                return None
            data += piece
        return data

    def heard(self, began: float) -> Heard:
        try:
            self.wire.socket.settimeout(QUIET_S)
            is_closed = self.wire.socket.recv(1) == b""
        except TimeoutError:
            is_closed = False
        except ConnectionError:
            is_closed = True
        delayed = is_closed and time.monotonic() - began > 0.09
        self.wire.close()
        return Heard(tuple(self.answers), is_closed, delayed)


Script = Callable[[Talk], object]


def compare(both: Both, script: Script) -> tuple[Heard, Heard]:
    heard = []
    for port in both:
        talk = Talk(port)
        began = time.monotonic()
        script(talk)
        heard.append(talk.heard(began))
    return heard[0], heard[1]


def handshake(mechanism: str, version: int = 1) -> Script:
    """SaslHandshake. Kafka lists the mechanisms in the order of a hash table."""

    def ask(talk: Talk) -> None:
        answer = talk.ask(SaslHandshakeRequest(mechanism=mechanism), version)
        if answer is not None and len(answer) > 20:
            told = decoder(SaslHandshakeResponse, version)(answer, 4)[0]
            told.mechanisms.sort()
            talk.answers[-1] = b"".join(encoder(SaslHandshakeResponse, version)(told))  # type: ignore[arg-type]

    return ask


def token(auth_bytes: bytes, version: int = 2) -> Script:
    return lambda talk: talk.ask(SaslAuthenticateRequest(auth_bytes=auth_bytes), version)


def raw(auth_bytes: bytes) -> Script:
    return lambda talk: talk.send(struct.pack(">i", len(auth_bytes)) + auth_bytes)


def request(message: Any, version: int) -> Script:
    return lambda talk: talk.ask(message, version)


def bytes_(data: bytes) -> Script:
    return lambda talk: talk.send(data)


def versions(version: int = 3, name: str = "wire") -> Script:
    """ApiVersions; of its answer, which names other APIs, only the error counts."""

    def ask(talk: Talk) -> None:
        message = ApiVersionsRequest(client_software_name=name, client_software_version="1")
        frame = bytearray(talk.wire.frame(message, min(version, 4)))
        frame[6:8] = struct.pack(">h", version)
        if talk.send(bytes(frame)) is not None:
            talk.answers[-1] = talk.answers[-1][:6]

    return ask


CLUSTER = request(DescribeClusterRequest(), 1)
RIGHT = b"\0alice\0secret"
SCRIPTS: dict[str, list[Script]] = {
    "plain v0": [handshake("PLAIN"), token(RIGHT, 0), versions()],
    "plain v1": [handshake("PLAIN"), token(RIGHT, 1), versions()],
    "plain v2": [versions(), handshake("PLAIN"), token(RIGHT, 2), versions(), versions()],
    "plain, own id": [handshake("PLAIN"), token(b"alice" + RIGHT), versions()],
    "wrong password": [handshake("PLAIN"), token(b"\0alice\0wrong")],
    "wrong password, v0": [handshake("PLAIN"), token(b"\0alice\0wrong", 0)],
    "unknown user": [handshake("PLAIN"), token(b"\0nobody\0secret")],
    "another id": [handshake("PLAIN"), token(b"bob" + RIGHT)],
    "no user": [handshake("PLAIN"), token(b"\0\0secret")],
    "no password": [handshake("PLAIN"), token(b"\0alice\0")],
    "two parts": [handshake("PLAIN"), token(b"alice\0secret")],
    "four parts": [handshake("PLAIN"), token(RIGHT + b"\0x")],
    "empty token": [handshake("PLAIN"), token(b"")],
    "not utf-8": [handshake("PLAIN"), token(b"\0al\xffice\0secret")],
    "raw": [handshake("PLAIN", 0), raw(RIGHT), versions()],
    "raw, after versions": [versions(), handshake("PLAIN", 0), raw(RIGHT), versions()],
    "raw, wrong": [handshake("PLAIN", 0), raw(b"\0alice\0wrong")],
    "raw, bad": [handshake("PLAIN", 0), raw(b"alice")],
    "raw, empty": [handshake("PLAIN", 0), raw(b"")],
    "framed after v0": [handshake("PLAIN", 0), token(RIGHT)],
    "not enabled": [handshake("OAUTH")],
    "not enabled, v0": [handshake("GSSAPI", 0)],
    "no such mechanism": [handshake("")],
    "lower case": [handshake("plain")],
    "handshake twice": [handshake("PLAIN"), handshake("PLAIN")],
    "versions twice": [versions(), versions()],
    "versions between": [handshake("PLAIN"), versions()],
    "versions that are not served": [versions(99), versions(), handshake("PLAIN"), token(RIGHT)],
    "versions with a bad name": [versions(3, "-"), versions(), handshake("PLAIN")],
    "versions v0": [versions(0), handshake("PLAIN"), token(RIGHT)],
    "token first": [token(RIGHT)],
    "token after versions": [versions(), token(RIGHT)],
    "metadata first": [request(MetadataRequest(topics=[]), 9)],
    "metadata after versions": [versions(), request(MetadataRequest(topics=[]), 9)],
    "another request between": [handshake("PLAIN"), CLUSTER],
    "signed in twice": [handshake("PLAIN"), token(RIGHT), handshake("PLAIN"), versions()],
    "token twice": [handshake("PLAIN"), token(RIGHT), token(RIGHT), versions()],
    "too large": [bytes_(struct.pack(">i", 5001))],
    "too large later": [handshake("PLAIN"), bytes_(struct.pack(">i", 5001))],
    "negative": [bytes_(struct.pack(">i", -1))],
    "empty frame": [bytes_(bytes(4))],
    "garbage": [raw(b"garbage")],
    "garbage later": [versions(), raw(b"garbage")],
    "garbage as token": [handshake("PLAIN"), raw(b"garbage")],
    "gssapi": [raw(b"\x60\x82\x02\x26" + bytes(60))],
    "unknown api": [raw(struct.pack(">hhih", 12345, 0, 1, -1))],
    "unknown api later": [versions(), raw(struct.pack(">hhih", 12345, 0, 1, -1))],
    "unknown api as token": [handshake("PLAIN"), raw(struct.pack(">hhih", 12345, 0, 1, -1))],
    "handshake of the future": [raw(struct.pack(">hhih", 17, 9, 1, -1) + b"\0\5PLAIN")],
    "handshake of the future later": [
        versions(),
        raw(struct.pack(">hhih", 17, 9, 1, -1) + b"\0\5PLAIN"),
    ],
    "token of the future": [handshake("PLAIN"), raw(struct.pack(">hhih", 36, 9, 1, -1))],
    "handshake cut short": [raw(struct.pack(">hhih", 17, 1, 1, -1) + b"\0\5PL")],
    "handshake cut short later": [
        versions(),
        raw(struct.pack(">hhih", 17, 1, 1, -1) + b"\0\5PL"),
    ],
    "scram, bad first": [handshake("SCRAM-SHA-256"), token(b"n,,n=alice")],
    "scram, binding": [handshake("SCRAM-SHA-256"), token(b"p=tls-unique,,n=alice,r=c")],
    "scram, another id": [handshake("SCRAM-SHA-256"), token(b"n,a=bob,n=alice,r=c")],
    "scram, empty": [handshake("SCRAM-SHA-512"), token(b"")],
    "scram, raw and bad": [handshake("SCRAM-SHA-512", 0), raw(b"n,,x")],
}  # fmt: skip


def decoded(answer: bytes | None) -> SaslAuthenticateResponse | None:
    if answer is None:
        return None
    told: SaslAuthenticateResponse = decoder(SaslAuthenticateResponse, 2)(answer, 5)[0]
    return told


def scram(
    user: str,
    password: str,
    mechanism: str = "SCRAM-SHA-256",
    lie: Callable[[bytes], bytes] = lambda final: final,
    *,
    by_token: bool = False,
) -> Script:
    """A whole exchange; its tokens, which are random, are checked and left out."""

    def exchange(talk: Talk) -> None:
        handshake(mechanism)(talk)
        kind = SCRAM_MECHANISMS[mechanism]
        client = ScramClient(kind, user, password, "ours", by_token=by_token)
        message = client.first()
        for reply in (lambda told: lie(client.final(told)), client.check):
            told = decoded(talk.ask(SaslAuthenticateRequest(auth_bytes=message), 2))
            if told is None:
                return
            talk.answers.pop()
            if told.error_code:
                talk.answers.append(f"{told.error_code} {told.error_message}".encode())
                return
            message = reply(told.auth_bytes) or b""
        talk.answers.append(f"{told.error_message!r} {told.session_lifetime_ms}".encode())

    return exchange


SHA_512 = "SCRAM-SHA-512"
# Not here: a proof of the wrong length, at which Kafka closes without an answer, and extensions in
# the final message, which Kafka leaves out of what is signed.
WITH_SCRAM: dict[str, list[Script]] = {
    "sha 256": [scram("alice", "alice-scram"), versions()],
    "sha 512": [scram("alice", "alice-scram", SHA_512), versions()],
    "wrong password": [scram("alice", "wrong")],
    "changed nonce": [
        scram("alice", "alice-scram", lie=lambda final: final.replace(b"r=ours", b"r=hers"))
    ],
    "no proof": [scram("alice", "alice-scram", lie=lambda final: b"")],
    "channel": [
        scram("alice", "alice-scram", lie=lambda final: final.replace(b"c=biws", b"c=eSws"))
    ],
    "again": [scram("alice", "alice-scram", SHA_512)] * 2 + [versions()],
    "again, too soon": [scram("alice", "alice-scram", SHA_512)] * 2
    + [handshake(SHA_512), versions()],
    "again, wrong password": [
        scram("alice", "alice-scram", SHA_512),
        scram("alice", "wrong", SHA_512),
    ],
    "again, as another": [
        scram("alice", "alice-scram", SHA_512),
        scram("bob", "bob-scram", SHA_512),
    ],
    "again, otherwise": [
        scram("alice", "alice-scram", SHA_512),
        handshake("PLAIN"),
        token(RIGHT),
    ],
    "again, not enabled": [scram("alice", "alice-scram", SHA_512), handshake("GSSAPI")],
    "again, out of order": [scram("alice", "alice-scram", SHA_512), handshake(SHA_512), CLUSTER],
    "again, not again": [scram("alice", "alice-scram"), handshake("SCRAM-SHA-256"), versions()],
}


@pytest.mark.parametrize("name", WITH_SCRAM)
def test_scram_and_signing_in_again_end_the_same_way(both: Both, name: str) -> None:
    def script(talk: Talk) -> None:
        for step in WITH_SCRAM[name]:
            step(talk)

    kafka, ottla = compare(both, script)
    assert ottla == kafka


def test_users_that_do_not_exist_are_refused_alike_but_one_step_later(both: Both) -> None:
    kafka, ottla = compare(both, scram("nobody", "x"))
    assert ottla == kafka


def bearer(token: str, authorization_id: str = "") -> bytes:
    return f"n,{authorization_id},\x01auth=Bearer {token}\x01\x01".encode()


def unsecured(header: Any = None, **changes: Any) -> str:
    claims: dict[str, Any] = {"sub": "alice", "scope": ["read"], "exp": 4_000_000_000} | changes
    claims = {name: value for name, value in claims.items() if value is not None}
    parts = [json.dumps(one).encode() for one in (header or {"alg": "none"}, claims)]
    return ".".join(urlsafe_b64encode(part).decode().rstrip("=") for part in parts) + "."


KICK = token(b"\x01")
# Not here: a scheme other than Bearer, at which Kafka closes without an answer.
WITH_TOKENS: dict[str, bytes] = {
    "another id": bearer(unsecured(), "a=bob"),
    "expired": bearer(unsecured(exp=1_000_000_000)),
    "no expiry": bearer(unsecured(exp=None)),
    "no user": bearer(unsecured(sub=None)),
    "no scope": bearer(unsecured(scope=None)),
    "other scope": bearer(unsecured(scope="write")),
    "signed": bearer(unsecured({"alg": "HS256"})),
    "unreadable": bearer("a.b."),
    "no auth": b"n,,\x01host=x\x01\x01",
    "garbage": b"garbage",
    "kick": b"\x01",
}


@pytest.mark.parametrize("name", WITH_TOKENS)
def test_tokens_are_refused_alike(both: Both, name: str) -> None:
    def script(talk: Talk) -> None:
        for step in (handshake("OAUTHBEARER"), token(WITH_TOKENS[name]), KICK):
            step(talk)

    kafka, ottla = compare(both, script)
    assert ottla == kafka


def test_a_token_is_accepted_alike(both: Both) -> None:
    def script(talk: Talk) -> None:
        for step in (handshake("OAUTHBEARER"), token(bearer(unsecured()), 0), versions()):
            step(talk)

    kafka, ottla = compare(both, script)
    assert ottla == kafka


@pytest.mark.parametrize("name", SCRIPTS)
def test_both_answer_the_same_and_close_alike(both: Both, name: str) -> None:
    def script(talk: Talk) -> None:
        for step in SCRIPTS[name]:
            step(talk)

    kafka, ottla = compare(both, script)
    assert ottla == kafka


def by_password_and_token(port: int) -> list[Any]:
    """Sign in with a password, then on the same connection with tokens and the password again;
    return what each gave, and whether a token could then be made."""
    said: list[Any] = []
    talk = Talk(port)
    other = Talk(port)

    def make(talk: Talk) -> CreateDelegationTokenResponse:
        answer = talk.ask(CreateDelegationTokenRequest(max_lifetime_ms=-1), 3)
        assert answer is not None
        made: CreateDelegationTokenResponse = decoder(CreateDelegationTokenResponse, 3)(answer, 5)[
            0
        ]
        talk.answers.pop()
        return made

    def sign_in(talk: Talk, *who: str, by_token: bool = False) -> None:
        time.sleep(1.1)  # both refuse to begin again within a second
        scram(*who, SHA_512, by_token=by_token)(talk)

    scram("alice", "alice-scram", SHA_512)(talk)
    scram("bob", "bob-scram", SHA_512)(other)
    tokens = []
    for one in (talk, other):
        made = make(one)
        said.append(ErrorCode(made.error_code).name)
        tokens.append((made.token_id, b64encode(made.hmac).decode()))
    mine, theirs = tokens
    sign_in(talk, *mine, by_token=True)
    said.append(ErrorCode(make(talk).error_code).name)
    sign_in(talk, "alice", "alice-scram")
    said.append(ErrorCode(make(talk).error_code).name)
    sign_in(talk, *theirs, by_token=True)
    said += talk.answers
    return said


def test_tokens_and_passwords_of_one_user_follow_each_other_alike(both: Both) -> None:
    kafka, ours = map(by_password_and_token, both)
    assert ours == kafka
    assert kafka[:4] == ["NONE", "NONE", "DELEGATION_TOKEN_REQUEST_NOT_ALLOWED", "NONE"]
    assert b"Cannot change principals" in kafka[-1]
