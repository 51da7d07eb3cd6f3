"""Delegation tokens: the same requests to Apache Kafka and to Ottla, and each one's tools and
clients at the other."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from bench.brokers import HOST, Kafka, free_port, run_java

from ottla.blocking import Admin
from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.messages.create_delegation_token import (
    CreatableRenewers,
    CreateDelegationTokenRequest,
)
from ottla.protocol.messages.describe_delegation_token import (
    DescribeDelegationTokenOwner,
    DescribeDelegationTokenRequest,
)
from ottla.protocol.messages.expire_delegation_token import ExpireDelegationTokenRequest
from ottla.protocol.messages.renew_delegation_token import RenewDelegationTokenRequest
from sasl_broker import USERS, SaslBroker, SaslWire, plain_users, sasl_options

pytestmark = [pytest.mark.ottla_only, pytest.mark.timeout(180)]

MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
SCRAM_LINE = "org.apache.kafka.common.security.scram.ScramLoginModule required"
OPTIONS = {
    "delegation.token.secret.key": "the same everywhere",
    "delegation.token.max.lifetime.ms": "100000000",
    "delegation.token.expiry.time.ms": "50000000",
}


class Sides(NamedTuple):
    kafka: int
    """The port at which clients sign in."""
    ottla: int
    plaintext: tuple[int, int]


@pytest.fixture(scope="module")
def sides(kafka_libs: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sides]:
    folder = tmp_path_factory.mktemp("tokens")
    kafka = Kafka(folder / "kafka", OPTIONS, libs=kafka_libs)
    kafka.JVM = ("-Xmx400m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto")
    kafka.port, kafka._controller_port, signed = free_port(), free_port(), free_port()
    kafka.options |= {
        "listeners": f"PLAINTEXT://{HOST}:{kafka.port},SASL_PLAINTEXT://{HOST}:{signed},"
        f"CONTROLLER://{HOST}:{kafka._controller_port}",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,SASL_PLAINTEXT:SASL_PLAINTEXT,"
        "CONTROLLER:PLAINTEXT",
        "inter.broker.listener.name": "PLAINTEXT",
        "sasl.enabled.mechanisms": ",".join(MECHANISMS),
        "listener.name.sasl_plaintext.plain.sasl.jaas.config": plain_users(
            {"alice": USERS["alice"], "bob": "b"}
        ),
    }
    for mechanism in MECHANISMS[1:]:
        name = f"listener.name.sasl_plaintext.{mechanism.lower()}.sasl.jaas.config"
        kafka.options[name] = f"{SCRAM_LINE};"
    options = {**sasl_options(*MECHANISMS), **OPTIONS}
    jaas = "listener.name.sasl_plaintext.plain.sasl.jaas.config"
    options[jaas] = kafka.options[jaas]
    ottla = SaslBroker(folder / "ottla", options)
    try:
        kafka.start()
        ottla.start()
        yield Sides(signed, ottla.ports["SASL_PLAINTEXT"], (kafka.port, ottla.port))
    finally:
        kafka.remove()
        ottla.remove()


def signed_in(port: int, user: str = "alice") -> SaslWire:
    wire = SaslWire(port)
    assert wire.plain(user, USERS[user] if user == "alice" else "b").error_code == 0
    return wire


# --- the same requests to both ------------------------------------------------------------------


def create(lifetime_ms: int = -1, **fields: Any) -> CreateDelegationTokenRequest:
    return CreateDelegationTokenRequest(max_lifetime_ms=lifetime_ms, **fields)


def principals(*names: str, kind: str = "User") -> list[CreatableRenewers]:
    return [CreatableRenewers(principal_type=kind, principal_name=name) for name in names]


def owners(*names: str) -> DescribeDelegationTokenRequest:
    return DescribeDelegationTokenRequest(
        owners=[
            DescribeDelegationTokenOwner(principal_type="User", principal_name=n) for n in names
        ]
    )


def told(response: Any, now_ms: float) -> Any:
    """What a response says, but for what differs from token to token; times in units that are long
    enough for a busy machine."""
    said: dict[str, Any] = {}
    for declared in response.FIELDS:
        value = getattr(response, declared.name)
        if declared.name in ("token_id", "hmac"):
            value = len(value)
        elif "timestamp" in declared.name and value > 0:
            value = round((value - now_ms) / 300_000)
        elif declared.name == "tokens":
            value = sorted(str(told(token, now_ms)) for token in value)
        elif declared.name == "renewers":
            value = [(one.principal_type, one.principal_name) for one in value]
        said[declared.name] = value
    return said


CREATED = 9


def all_answers(port: int, plaintext: int) -> list[Any]:
    now_ms = time.time() * 1000
    alice, bob, nobody = signed_in(port), signed_in(port, "bob"), SaslWire(plaintext)
    said: list[Any] = []

    def ask(wire: SaslWire, request: Any, version: int) -> Any:
        response = wire.ask(request, version)
        said.append((type(request).__name__, version, told(response, now_ms)))
        return response

    def until(wire: SaslWire, fits: Callable[[dict[bytes, int]], bool]) -> None:
        """Kafka shows a change a moment after it was made."""
        deadline = time.monotonic() + 20
        request = DescribeDelegationTokenRequest(owners=None)
        while not fits({t.hmac: t.expiry_timestamp for t in wire.ask(request, 3).tokens}):
            assert time.monotonic() < deadline
            time.sleep(0.02)

    made = [ask(alice, create(), version) for version in (1, 2, 3)]
    ask(alice, create(10_000_000), 3)
    ask(alice, create(10**15, renewers=principals("bob", "carol")), 3)
    shared = ask(alice, create(0, renewers=principals("bob")), 3)
    ask(alice, create(owner_principal_type="User", owner_principal_name="dan"), 3)
    ask(alice, create(owner_principal_type="Group", owner_principal_name="dan"), 3)
    ask(alice, create(owner_principal_type="Group", owner_principal_name=""), 3)
    ask(alice, create(owner_principal_type=None, owner_principal_name="dan"), 3)
    ask(alice, create(renewers=principals("x", kind="Group")), 3)
    token = made[-1].hmac
    until(alice, lambda seen: len(seen) == CREATED)
    for version in (1, 2, 3):
        ask(alice, DescribeDelegationTokenRequest(owners=None), version)
    for request in (owners(), owners("alice"), owners("bob"), owners("carol", "eve")):
        ask(alice, request, 3)
        ask(bob, request, 3)
    for version in (1, 2):
        for period_ms in (-1, 0, 20_000_000, 10**15):
            ask(alice, RenewDelegationTokenRequest(hmac=token, renew_period_ms=period_ms), version)
    ask(bob, RenewDelegationTokenRequest(hmac=shared.hmac, renew_period_ms=-1), 2)
    for hmac in (b"", b"no such token"):
        ask(alice, RenewDelegationTokenRequest(hmac=hmac, renew_period_ms=-1), 2)
        ask(alice, ExpireDelegationTokenRequest(hmac=hmac, expiry_time_period_ms=-1), 2)
    # Without an authorizer bob sees the tokens of alice, but he may not change them.
    ask(bob, RenewDelegationTokenRequest(hmac=token, renew_period_ms=-1), 2)
    ask(bob, ExpireDelegationTokenRequest(hmac=token, expiry_time_period_ms=-1), 2)
    ask(alice, ExpireDelegationTokenRequest(hmac=token, expiry_time_period_ms=30_000_000), 1)
    ask(alice, ExpireDelegationTokenRequest(hmac=token, expiry_time_period_ms=2**63 - 1), 2)
    ends_ms = ask(alice, ExpireDelegationTokenRequest(hmac=token), 2).expiry_timestamp_ms
    until(alice, lambda seen: seen[token] == ends_ms)
    time.sleep(0.01)
    ask(alice, RenewDelegationTokenRequest(hmac=token, renew_period_ms=-1), 2)
    ask(alice, ExpireDelegationTokenRequest(hmac=token, expiry_time_period_ms=5), 2)
    ask(alice, ExpireDelegationTokenRequest(hmac=token, expiry_time_period_ms=-7), 2)
    until(alice, lambda seen: token not in seen)
    ask(alice, ExpireDelegationTokenRequest(hmac=token, expiry_time_period_ms=-1), 2)
    for version in (1, 2, 3):
        ask(nobody, create(), version)
        ask(nobody, DescribeDelegationTokenRequest(owners=None), version)
    for version in (1, 2):
        ask(nobody, RenewDelegationTokenRequest(hmac=token), version)
        ask(nobody, ExpireDelegationTokenRequest(hmac=token), version)
    for wire in (alice, bob, nobody):
        wire.close()
    return said


def test_the_answers_are_those_of_kafka(sides: Sides) -> None:
    kafka, ottla = map(all_answers, (sides.kafka, sides.ottla), sides.plaintext)
    for theirs, ours in zip(kafka, ottla, strict=True):
        assert ours == theirs
    assert len({answer["error_code"] for _, _, answer in kafka}) == 7


# --- tools and clients --------------------------------------------------------------------------


def test_our_client_signs_in_to_kafka_with_its_token(sides: Sides) -> None:
    plain = {"sasl_mechanism": "PLAIN", "sasl_username": "alice", "sasl_password": USERS["alice"]}
    place = {"bootstrap_servers": f"{HOST}:{sides.kafka}", "security_protocol": "SASL_PLAINTEXT"}
    with Admin(**place, **plain) as admin:
        token = admin.create_delegation_token()
        deadline = time.monotonic() + 20
        while token not in admin.describe_delegation_token():
            assert time.monotonic() < deadline
        time.sleep(0.2)
    settings = {**place, "sasl_username": token.token_id, "sasl_password": token.password}
    for mechanism in MECHANISMS[1:]:
        with Admin(**settings, sasl_mechanism=mechanism, sasl_token_auth=True) as admin:
            assert admin.describe_cluster().brokers
            with pytest.raises(KafkaError) as refused:
                admin.create_delegation_token()
            code = ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
            assert refused.value.code is code


def test_kafkas_tool_and_client_work_with_our_tokens(
    sides: Sides, kafka_libs: Path, tmp_path: Path
) -> None:
    def config(name: str, mechanism: str, jaas: str) -> str:
        file = tmp_path / name
        file.write_text(
            "security.protocol=SASL_PLAINTEXT\n"
            f"sasl.mechanism={mechanism}\n"
            f"sasl.jaas.config=org.apache.kafka.common.security.{jaas};\n"
        )
        return str(file)

    module = f'plain.PlainLoginModule required username="alice" password="{USERS["alice"]}"'
    place = ("--bootstrap-server", f"{HOST}:{sides.ottla}", "--command-config")
    tool = "org.apache.kafka.tools.DelegationTokenCommand"
    asked = (*place, config("plain", "PLAIN", module))
    made = run_java(kafka_libs, tool, "--create", "--max-life-time-period", "-1", *asked).stdout
    token_id, hmac = made.strip().splitlines()[-1].split()[:2]

    module = (
        f'scram.ScramLoginModule required username="{token_id}" password="{hmac}" tokenauth="true"'
    )
    asked_by_token = (*place, config("token", "SCRAM-SHA-512", module))
    topic = ("--create", "--topic", "by-token")
    done = run_java(kafka_libs, "org.apache.kafka.tools.TopicCommand", *topic, *asked_by_token)
    assert "Created topic by-token" in done.stdout

    period = ("--expiry-time-period", "-1")
    done = run_java(kafka_libs, tool, "--expire", "--hmac", hmac, *period, *asked)
    assert "Completed expire operation" in done.stdout
