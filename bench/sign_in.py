"""Sign-ins per second with SCRAM-SHA-512, and what each costs the broker.

The client keeps the salted password, as clients may: what is measured is the connection, three
requests, and the broker's check of a proof.
"""

from __future__ import annotations

import hashlib
import hmac
import itertools
import time
from base64 import b64decode, b64encode
from collections.abc import Mapping

from confluent_kafka.admin import (
    AdminClient,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from bench import wire
from bench.brokers import HOST, Broker, free_port
from bench.results import Reading
from bench.sides import Bench

MECHANISM = "SCRAM-SHA-512"
HASH = "sha512"
USER, PASSWORD = "bench", "bench-secret"
ITERATIONS = 4096
LISTENER = "SASL_PLAINTEXT"
OPTIONS: Mapping[str, str] = {
    "sasl.enabled.mechanisms": MECHANISM,
    f"listener.name.{LISTENER.lower()}.{MECHANISM.lower()}.sasl.jaas.config": (
        "org.apache.kafka.common.security.scram.ScramLoginModule required;"
    ),
    # Kafka's default of 200 would count the bench's own connections, too.
    "max.connections.per.ip": "2147483647",
}
SASL_HANDSHAKE, SASL_AUTHENTICATE = 17, 36
SEEN_WITHIN_S = 20.0
_nonces = itertools.count(1)


def run(bench: Bench) -> None:
    count = bench.pick(2_000, 10_000)
    brokers = []
    try:
        for side in bench.sides:
            broker = side.fresh(OPTIONS)
            port = free_port()
            broker.more_listeners.append(f"{LISTENER}://{HOST}:{port}")
            broker.start()
            _add_user(broker, port)
            brokers.append((side.name, broker, port))
        for number in range(1 + bench.pick(1, 3)):
            for name, broker, port in brokers[:: 1 if number % 2 else -1]:
                bench.say(f"sign-ins: {name}, " + (f"round {number}" if number else "warm-up"))
                readings = _round(broker, port, count)
                if number:
                    bench.results.add(name, readings)
    finally:
        for _, broker, _ in brokers:
            broker.remove()


def _add_user(broker: Broker, port: int) -> None:
    admin = AdminClient({"bootstrap.servers": broker.address})
    info = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, ITERATIONS)
    change = UserScramCredentialUpsertion(USER, info, PASSWORD.encode())
    for done in admin.alter_user_scram_credentials([change]).values():
        done.result(30)
    deadline = time.monotonic() + SEEN_WITHIN_S
    while True:
        try:
            return _sign_in(port, {})
        except (RuntimeError, OSError):
            if time.monotonic() > deadline:
                raise
            time.sleep(0.1)


def _round(broker: Broker, port: int, count: int) -> list[Reading]:
    salted: dict[bytes, bytes] = {}
    cpu, started = broker.cpu_s(), time.monotonic()
    for _ in range(count):
        _sign_in(port, salted)
    taken, used = time.monotonic() - started, broker.cpu_s() - cpu
    name = f"sign-in with {MECHANISM}"
    return [
        Reading(f"{name}: one client after the other", count / taken, "/s", less_is_better=False),
        Reading(f"{name}: broker CPU", used / count * 1e6, "us"),
    ]


def _sign_in(port: int, salted: dict[bytes, bytes]) -> None:
    """Connect, sign in and close; `salted` keeps the salted password by its salt."""
    with wire.Peer(port) as peer:
        body = len(MECHANISM).to_bytes(2, "big") + MECHANISM.encode()
        answer = peer.ask(wire.frame(SASL_HANDSHAKE, 1, body, flexible=False))
        if answer[4:6] != b"\0\0":
            raise RuntimeError(f"SaslHandshake was answered {answer.hex()}")
        nonce = f"{next(_nonces):020d}"
        first_bare = f"n={USER},r={nonce}"
        server_first = _token(peer, f"n,,{first_bare}")
        fields = dict(part.split("=", 1) for part in server_first.split(","))
        salt = b64decode(fields["s"])
        if salt not in salted:
            password = PASSWORD.encode()
            salted[salt] = hashlib.pbkdf2_hmac(HASH, password, salt, int(fields["i"]))
        without_proof = f"c=biws,r={fields['r']}"
        signed = f"{first_bare},{server_first},{without_proof}".encode()
        client_key = hmac.digest(salted[salt], b"Client Key", HASH)
        signature = hmac.digest(hashlib.sha512(client_key).digest(), signed, HASH)
        proof = bytes(one ^ other for one, other in zip(client_key, signature, strict=True))
        final = _token(peer, f"{without_proof},p={b64encode(proof).decode()}")
        if not final.startswith("v="):
            raise RuntimeError(f"the sign-in ended with {final!r}")


def _token(peer: wire.Peer, text: str) -> str:
    """Send a token by SaslAuthenticate v1 and return the one in the answer."""
    body = len(text).to_bytes(4, "big") + text.encode()
    reader = wire.Reader(peer.ask(wire.frame(SASL_AUTHENTICATE, 1, body, flexible=False)), 4)
    error = reader.take(">h")
    if error:
        raise RuntimeError(f"SaslAuthenticate was answered with error {error}")
    message_size = reader.take(">h")
    reader.position += max(message_size, 0)
    size = reader.take(">i")
    return reader.data[reader.position : reader.position + size].decode()
