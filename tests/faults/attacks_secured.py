"""A secured broker under attack by clients that may not enter, beside one that may.

The broker is that of `ottla start --secure`, with one node or three. Each attack makes `--rate`
attempts a second, or as many as the machine allows. It prints how many, and what each cost the
nodes (the normal client's requests are among that):

    python tests/faults/attacks_secured.py [--minutes 2] [--nodes 1] [--slot 10] [--rate 1000]
        [ATTACK ...]

The normal client is connected by SASL_SSL. It ends with 1 if its p99 or memory missed the goals of
`attacks.py`. `make attack-secured` runs it on one node and on three.
"""

# ruff: noqa: E402  (what is imported lies beside this file or above it)

from __future__ import annotations

import argparse
import os
import socket
import ssl
import struct
import subprocess
import sys
import tempfile
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

ROOT = Path(__file__).resolve().parents[2]
for _folder in (ROOT, ROOT / "tests" / "faults", ROOT / "tests" / "server"):
    if str(_folder) not in sys.path:
        sys.path.insert(0, str(_folder))

import attacks
from attacks import (
    GOAL_GROWTH,
    GOAL_P99_S,
    PATIENCE_S,
    SETTLE_S,
    TOPIC,
    NormalClient,
    OttlaNodes,
    Outcome,
    memory_bytes,
)
from bench import process_tree, wire
from bench.brokers import HOST
from confluent_kafka.admin import (
    AdminClient,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from ottla.config.properties import parse_properties
from ottla.network.scram import ScramClient
from ottla.security.scram import SCRAM_MECHANISMS

NOBODY: Final = "nobody"
"""A user without rights, whose password is the name. It signs in by SCRAM."""
RATE: Final = 1_000.0
LINGER_S: Final = 0.3
"""For how long an attempt stays connected: longer than the delay of a refusal."""
SASL_HANDSHAKE, SASL_AUTHENTICATE, DESCRIBE_ACLS, CREATE_TOPICS = 17, 36, 29, 19

Attack = Callable[["Target", "Attempts"], None]


class Target:
    """A secured listener, and what clients need to connect to it."""

    def __init__(self, port: int, authority: str) -> None:
        self.port = port
        self.authority = authority
        self._context = ssl.create_default_context(cafile=authority)

    def connect(self) -> socket.socket:
        plain = socket.create_connection((HOST, self.port), PATIENCE_S)
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return plain

    def secured(self) -> ssl.SSLSocket:
        return self._context.wrap_socket(self.connect(), server_hostname=HOST)


class Attempts:
    """Turns for attempts, at most `rate` a second, until the time is up. What an attempt leaves
    open is closed a moment later."""

    def __init__(self, rate: float, seconds: float) -> None:
        self._rate = rate
        self._seconds = seconds
        self._open: deque[tuple[float, socket.socket]] = deque()
        self.count = 0

    def __iter__(self) -> Iterator[int]:
        began = time.monotonic()
        while (now := time.monotonic()) < began + self._seconds:
            while self._open and self._open[0][0] <= now:
                self._open.popleft()[1].close()
            due = began + self.count / self._rate
            if due > now:
                time.sleep(min(due - now, 0.01))
                continue
            self.count += 1
            with suppress(OSError):
                yield self.count
        for _, left in self._open:
            left.close()

    def leave_open(self, connection: socket.socket) -> None:
        self._open.append((time.monotonic() + LINGER_S, connection))


def _handshake_frame(mechanism: str) -> bytes:
    body = struct.pack(">h", len(mechanism)) + mechanism.encode()
    return wire.frame(SASL_HANDSHAKE, 1, body, flexible=False)


def _token_frame(token: bytes) -> bytes:
    return wire.frame(SASL_AUTHENTICATE, 1, struct.pack(">i", len(token)) + token, flexible=False)


# --- attacks --------------------------------------------------------------------------------


def wrong_passwords(target: Target, attempts: Attempts) -> None:
    """Sign-ins by PLAIN over a TLS connection each."""
    frames = _handshake_frame("PLAIN") + _token_frame(b"\0admin\0wrong")
    for _ in attempts:
        with suppress(OSError):
            connection = target.secured()
            attempts.leave_open(connection)
            connection.sendall(frames)


def wrong_proofs(target: Target, attempts: Attempts) -> None:
    """Sign-ins by SCRAM over a TLS connection each, up to the last message."""
    for number in attempts:
        with suppress(OSError):
            connection = target.secured()
            attempts.leave_open(connection)
            first = _token_frame(b"n,,n=user%d,r=nonce" % number)
            connection.sendall(_handshake_frame("SCRAM-SHA-512") + first)
            nonce, data = b"", b""
            while b",s=" not in nonce:
                part = connection.recv(4096)
                if not part:
                    break
                data += part
                nonce = data[data.find(b"r=nonce") :]
            nonce = nonce.partition(b",")[0]
            connection.sendall(_token_frame(b"c=biws," + nonce + b",p=" + b"AAAA" * 21 + b"AA=="))


def garbage_handshakes(target: Target, attempts: Attempts) -> None:
    """What is no TLS."""
    garbage = (b"GET / HTTP/1.1\r\n\r\n", os.urandom(200), b"\x80\x2e\x01\x03\x01", b"\0" * 100)
    for number in attempts:
        with suppress(OSError):
            connection = target.connect()
            attempts.leave_open(connection)
            connection.sendall(garbage[number % len(garbage)])


def half_open_handshakes(target: Target, attempts: Attempts) -> None:
    """The first message of TLS, whose answer nobody reads."""
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    hello = ssl.create_default_context().wrap_bio(incoming, outgoing, server_hostname=HOST)
    with suppress(ssl.SSLWantReadError):
        hello.do_handshake()
    first = outgoing.read()
    for number in attempts:
        with suppress(OSError):
            connection = target.connect()
            attempts.leave_open(connection)
            connection.sendall(first if number % 2 else first[: number % len(first)])


def refused_requests(target: Target, attempts: Attempts) -> None:
    """Requests of a user without rights, one after the other on a connection."""
    anything = struct.pack(">bhbhhbb", 1, -1, 1, -1, -1, 1, 1)
    described = wire.frame(DESCRIBE_ACLS, 1, anything, flexible=False)
    created = struct.pack(">ih1sihiiib", 1, 1, b"x", 1, 1, 0, 0, 1_000, 0)
    frames = (
        wire.produce_frame(TOPIC, 0, wire.batch([b"x"])),
        wire.fetch_frame(TOPIC, 0, 0),
        wire.metadata_frame([TOPIC]),
        described,
        wire.frame(CREATE_TOPICS, 1, created, flexible=False),
    )
    peer = ScramPeer(target, NOBODY)
    for number in attempts:
        peer.send(frames[number % len(frames)])
        if peer.receive() is None:
            peer = ScramPeer(target, NOBODY)


ATTACKS: dict[str, Attack] = {
    attack.__name__: attack
    for attack in (
        wrong_passwords,
        wrong_proofs,
        garbage_handshakes,
        half_open_handshakes,
        refused_requests,
    )
}


# --- one run --------------------------------------------------------------------------------


class SecuredPeer(wire.Peer):
    """A connection over TLS that signed in by PLAIN."""

    def __init__(self, target: Target, user: str, password: str) -> None:
        self.socket = target.secured()
        self.ask(_handshake_frame("PLAIN"))
        answer = self.ask(_token_frame(f"\0{user}\0{password}".encode()))
        assert answer[4:6] == b"\0\0", f"signing in as {user} was answered {answer!r}"


class ScramPeer(wire.Peer):
    """A connection over TLS of a user whose password is the name."""

    def __init__(self, target: Target, user: str) -> None:
        self.socket = target.secured()
        mechanism = "SCRAM-SHA-512"
        self.ask(_handshake_frame(mechanism))
        client = ScramClient(SCRAM_MECHANISMS[mechanism], user, user, "nonce")
        client.check(self._told(client.final(self._told(client.first()))))

    def _told(self, token: bytes) -> bytes:
        """Send a token and return the broker's."""
        answer = wire.Reader(self.ask(_token_frame(token)), 4)
        error, message_size = answer.take(">h"), answer.take(">h")
        assert (error, message_size) == (0, 0), f"{token!r} was answered {answer.data!r}"
        size = answer.take(">i")
        return answer.data[answer.position : answer.position + size]


class SecuredNodes(OttlaNodes):
    """`ottla start --secure --nodes N`, with a user that has no rights."""

    def command(self) -> list[str]:
        return [*super().command(), "--secure", "--log-level", "info"]

    def answers(self, port: int) -> bool:
        return (self.secure_folder / "librdkafka.properties").exists()

    @property
    def secure_folder(self) -> Path:
        return self.data / "secure"

    def client_options(self) -> dict[str, Any]:
        """Return how librdkafka connects as `admin`."""
        text = (self.secure_folder / "librdkafka.properties").read_text()
        return {key: value or "" for key, value in parse_properties(text, "").items()}


def run(
    folder: Path,
    *,
    nodes: int,
    seconds: float,
    slot_s: float,
    names: list[str],
    rate: float = RATE,
    settle_s: float = SETTLE_S,
    say: Callable[[str], object] = print,
) -> Outcome:
    broker = SecuredNodes(folder, nodes)
    broker.start()
    try:
        options = broker.client_options()
        admin = AdminClient(options)
        info = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4096)
        user = UserScramCredentialUpsertion(NOBODY, info, NOBODY.encode())
        for done in admin.alter_user_scram_credentials([user]).values():
            done.result(PATIENCE_S)
        ports = attacks.prepare(admin, nodes)
        authority = str(broker.secure_folder / "ca.pem")
        target = Target(ports[0], authority)
        who, password = options["sasl.username"], options["sasl.password"]
        client = NormalClient(lambda: SecuredPeer(target, who, password))
        client.enter("warm-up")
        client.start()
        for name in names:  # code that is loaded when it is first used stays, and is no leak
            _attack(name, ports[0], authority, 1.0, rate)
        time.sleep(settle_s)
        before = [memory_bytes(pid) for pid in broker.node_pids]
        client.enter("calm")
        time.sleep(max(2.0, seconds / 10))
        phases: list[str] = []
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            name = names[len(phases) % len(names)]
            phases.append(name)
            client.enter(name)
            used_s = process_tree.cpu_s(broker.pid)
            made = _attack(name, ports[len(phases) % len(ports)], authority, slot_s, rate)
            cost_us = (process_tree.cpu_s(broker.pid) - used_s) / max(made, 1) * 1e6
            say(
                f"{attacks.line(name, client.latencies(name))}   {made / slot_s:.0f} attempts/s, "
                f"{cost_us:.0f} us of CPU each"
            )
        client.enter("afterwards")
        time.sleep(settle_s)
        client.finish()
        outcome = Outcome(client, phases)
        pids = broker.node_pids
        peaks = [memory_bytes(pid, "VmHWM") for pid in pids]
        outcome.memory = list(zip(before, peaks, map(memory_bytes, pids), strict=True))
        return outcome
    finally:
        broker.stop()


def _attack(name: str, port: int, authority: str, seconds: float, rate: float) -> int:
    """Return how many attempts were made."""
    line = [sys.executable, __file__, "--child", name, "--port", str(port), "--ca", authority]
    line += ["--seconds", str(seconds), "--rate", str(rate)]
    try:
        done = subprocess.run(
            line, stdout=subprocess.PIPE, timeout=seconds + PATIENCE_S, check=True, text=True
        )
    except subprocess.TimeoutExpired:
        return 0
    return int(done.stdout)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=2)
    parser.add_argument("--nodes", type=int, default=1)
    parser.add_argument("--slot", type=float, default=10, help="seconds of one attack")
    parser.add_argument("--rate", type=float, default=RATE, help="attempts a second")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    parser.add_argument("--port", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--ca", help=argparse.SUPPRESS)
    parser.add_argument("--seconds", type=float, help=argparse.SUPPRESS)
    parser.add_argument("attacks", nargs="*", help=", ".join(ATTACKS))
    options = parser.parse_args()
    if options.child:
        attempts = Attempts(options.rate, options.seconds)
        ATTACKS[options.child](Target(options.port, options.ca), attempts)
        print(attempts.count)
        return 0
    with tempfile.TemporaryDirectory(prefix="ottla-attack-") as folder:
        outcome = run(
            Path(folder) / "broker",
            nodes=options.nodes,
            seconds=options.minutes * 60,
            slot_s=options.slot,
            names=options.attacks or list(ATTACKS),
            rate=options.rate,
        )
    print(f"\n{options.nodes} node(s), {options.minutes:g} minutes\n{outcome.report()}")
    goals = f"goals: p99 under {GOAL_P99_S * 1000:.0f} ms, memory within {GOAL_GROWTH:.0%}"
    missed = outcome.p99_s >= GOAL_P99_S or outcome.growth > GOAL_GROWTH or bool(outcome.trouble)
    print(f"{goals}: {'missed' if missed else 'met'}")
    return int(missed)


if __name__ == "__main__":
    sys.exit(main())
