"""Delegation tokens at a broker process."""

from __future__ import annotations

import json
import re
import time
from base64 import b64decode, b64encode
from collections.abc import Iterator
from typing import Any

import pytest
from typer.testing import CliRunner

from ottla.blocking import Admin
from ottla.broker.metadata.security_image import DelegationToken
from ottla.broker.server.sign_in import token_credentials
from ottla.broker.server.sign_in.mechanisms import InvalidCredentials
from ottla.broker.server.sign_in.token_credentials import TokenCredentials
from ottla.cli.root import app
from ottla.client.errors import AuthenticationFailed
from ottla.network.scram import ScramClient
from ottla.protocol.apis import api
from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.messages.create_delegation_token import (
    CreatableRenewers,
    CreateDelegationTokenRequest,
    CreateDelegationTokenResponse,
)
from ottla.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from ottla.protocol.messages.describe_delegation_token import (
    DescribedDelegationToken,
    DescribeDelegationTokenRequest,
)
from ottla.protocol.messages.expire_delegation_token import ExpireDelegationTokenRequest
from ottla.protocol.messages.renew_delegation_token import RenewDelegationTokenRequest
from ottla.security.scram import SCRAM_MECHANISMS, ScramHash
from ottla.security.token_hmac import token_hmac
from sasl_broker import USERS, SaslBroker, SaslWire, sasl_options

pytestmark = pytest.mark.ottla_only

SECRET = "cluster-wide-secret"
CHECK_MS = 300


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SaslBroker]:
    options = {
        **sasl_options("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"),
        "delegation.token.secret.key": SECRET,
        "delegation.token.expiry.check.interval.ms": str(CHECK_MS),
    }
    broker = SaslBroker(tmp_path_factory.mktemp("broker"), options)
    try:
        broker.start()
        yield broker
        assert broker.stop() == 0
        assert SECRET not in broker.tail(1_000_000)
    finally:
        broker.remove()


def signed_in(broker: SaslBroker, user: str = "alice") -> SaslWire:
    wire = SaslWire(broker.ports["SASL_PLAINTEXT"])
    assert wire.plain(user, USERS[user]).error_code == 0
    return wire


@pytest.fixture
def alice(broker: SaslBroker) -> Iterator[SaslWire]:
    wire = signed_in(broker)
    yield wire
    wire.close()


def ask(wire: SaslWire, request: Any) -> Any:
    return wire.ask(request, api(request.API_KEY).latest_stable)


def create(wire: SaslWire, *renewers: str, lifetime_ms: int = -1) -> CreateDelegationTokenResponse:
    named = [CreatableRenewers(principal_type="User", principal_name=name) for name in renewers]
    made: CreateDelegationTokenResponse = ask(
        wire, CreateDelegationTokenRequest(max_lifetime_ms=lifetime_ms, renewers=named)
    )
    assert made.error_code == 0
    return made


def tokens(wire: SaslWire) -> dict[str, DescribedDelegationToken]:
    told = ask(wire, DescribeDelegationTokenRequest(owners=None))
    assert told.error_code == 0
    return {token.token_id: token for token in told.tokens}


def test_a_token_is_made_shown_renewed_and_expired(broker: SaslBroker, alice: SaslWire) -> None:
    made = create(alice, "bob")
    assert made.hmac == token_hmac(SECRET.encode(), made.token_id)
    shown = tokens(alice)[made.token_id]
    assert (shown.hmac, shown.expiry_timestamp) == (made.hmac, made.expiry_timestamp_ms)
    bob = signed_in(broker, "bob")
    told = ask(bob, RenewDelegationTokenRequest(hmac=made.hmac, renew_period_ms=60_000))
    assert told.error_code == 0
    assert tokens(bob)[made.token_id].expiry_timestamp == told.expiry_timestamp_ms
    told = ask(bob, ExpireDelegationTokenRequest(hmac=made.hmac, expiry_time_period_ms=-1))
    assert told.error_code == 0
    assert made.token_id not in tokens(alice)
    bob.close()


@pytest.mark.parametrize("version", [1, 2, 3])
def test_every_version_is_served(alice: SaslWire, version: int) -> None:
    made = alice.ask(CreateDelegationTokenRequest(max_lifetime_ms=-1), version)
    assert (made.error_code, made.principal_name) == (0, "alice")
    told = alice.ask(DescribeDelegationTokenRequest(owners=None), version)
    assert made.token_id in {token.token_id for token in told.tokens}
    renewal = RenewDelegationTokenRequest(hmac=made.hmac, renew_period_ms=-1)
    assert alice.ask(renewal, min(version, 2)).error_code == 0
    removal = ExpireDelegationTokenRequest(hmac=made.hmac, expiry_time_period_ms=-1)
    assert alice.ask(removal, min(version, 2)).error_code == 0


@pytest.mark.parametrize("version", [1, 2, 3])
def test_a_client_that_did_not_sign_in_gets_no_token(broker: SaslBroker, version: int) -> None:
    wire = SaslWire(broker.port)
    told = wire.ask(CreateDelegationTokenRequest(max_lifetime_ms=-1), version)
    assert told.error_code == ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
    wire.close()


def test_expired_tokens_are_removed(alice: SaslWire) -> None:
    made = create(alice, lifetime_ms=1)
    deadline = time.monotonic() + 20
    while made.token_id in tokens(alice):
        assert time.monotonic() < deadline
        time.sleep(CHECK_MS / 10_000)


def test_the_secret_key_is_not_shown(alice: SaslWire) -> None:
    key = "delegation.token.secret.key"
    node = DescribeConfigsResource(resource_type=4, resource_name="1", configuration_keys=[key])
    (result,) = ask(alice, DescribeConfigsRequest(resources=[node])).results
    (config,) = result.configs
    assert (config.name, config.value, config.is_sensitive) == (key, None, True)


# --- signing in with a token --------------------------------------------------------------------


def scram(
    broker: SaslBroker, token_id: str, hmac: bytes, mechanism: str = "SCRAM-SHA-256"
) -> tuple[SaslWire, Any]:
    """Sign in; return the connection and the last answer."""
    wire = SaslWire(broker.ports["SASL_PLAINTEXT"])
    assert wire.handshake(mechanism).error_code == 0
    password = b64encode(hmac).decode()
    client = ScramClient(SCRAM_MECHANISMS[mechanism], token_id, password, "ours", by_token=True)
    first = wire.authenticate(client.first())
    if first.error_code:
        return wire, first
    last = wire.authenticate(client.final(first.auth_bytes))
    if not last.error_code:
        client.check(last.auth_bytes)
    return wire, last


@pytest.mark.parametrize("mechanism", SCRAM_MECHANISMS)
def test_a_token_signs_in_for_its_lifetime(
    broker: SaslBroker, alice: SaslWire, mechanism: str
) -> None:
    made = create(alice, lifetime_ms=60_000)
    wire, last = scram(broker, made.token_id, made.hmac, mechanism)
    assert last.error_code == 0
    assert 0 < last.session_lifetime_ms <= 60_000
    told = ask(wire, CreateDelegationTokenRequest(max_lifetime_ms=-1))
    assert told.error_code == ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
    assert (told.principal_type, told.principal_name) == ("User", "alice")
    wire.close()


def test_what_is_no_token_is_refused_after_a_wrong_password(
    broker: SaslBroker, alice: SaslWire
) -> None:
    made = create(alice)
    for token_id, hmac in ((made.token_id, b"wrong"), ("no such token", made.hmac)):
        wire, last = scram(broker, token_id, hmac)
        assert last.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
        assert "invalid credentials with SASL mechanism" in last.error_message
        assert wire.is_closed()
        wire.close()


def test_a_removed_token_signs_in_no_more(broker: SaslBroker, alice: SaslWire) -> None:
    made = create(alice)
    wire, last = scram(broker, made.token_id, made.hmac)
    assert last.error_code == 0
    removal = ExpireDelegationTokenRequest(hmac=made.hmac, expiry_time_period_ms=-1)
    assert ask(alice, removal).error_code == 0
    assert scram(broker, made.token_id, made.hmac)[1].error_code
    wire.close()


def test_a_connection_does_not_outlive_its_token(broker: SaslBroker, alice: SaslWire) -> None:
    made = create(alice, lifetime_ms=1_000)
    wire, last = scram(broker, made.token_id, made.hmac)
    assert last.error_code == 0
    time.sleep(1.1)
    with pytest.raises((AssertionError, OSError)):
        ask(wire, DescribeDelegationTokenRequest(owners=None))
    wire.close()


def client(broker: SaslBroker, token_id: str, hmac: bytes) -> Admin:
    return Admin(
        bootstrap_servers=broker.secured_address(),
        security_protocol="SASL_PLAINTEXT",
        sasl_mechanism="SCRAM-SHA-512",
        sasl_username=token_id,
        sasl_password=b64encode(hmac).decode(),
        sasl_token_auth=True,
    )


def test_our_clients_sign_in_with_tokens(broker: SaslBroker, alice: SaslWire) -> None:
    made = create(alice)
    with client(broker, made.token_id, made.hmac) as admin:
        assert admin.describe_cluster().brokers
    with pytest.raises(AuthenticationFailed), client(broker, made.token_id, b"x") as admin:
        admin.describe_cluster()


@pytest.mark.parametrize("hashed", SCRAM_MECHANISMS.values())
def test_nothing_shows_whether_a_token_exists(hashed: ScramHash) -> None:
    found = TokenCredentials()
    tokens = {"there": DelegationToken("User:ann", "User:ann", (), 0, 9, 9)}
    before = found.find({}, b"secret", "there", hashed, 5)
    there = found.find(tokens, b"secret", "there", hashed, 5)
    assert (before.owner, there.owner, there.expires_at_ms) == (None, "ann", 9)
    assert before.credential.salt == there.credential.salt
    assert before.credential.iterations == there.credential.iterations
    other = found.find({}, b"secret", "elsewhere", hashed, 5)
    assert other.credential.salt != there.credential.salt
    assert len(other.credential.salt) == len(there.credential.salt)
    with pytest.raises(InvalidCredentials):
        found.find(tokens, b"secret", "there", hashed, 10)


def test_derived_credentials_are_remembered_within_a_bound(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(token_credentials, "REMEMBERED_MAX", 2)
    hashed = SCRAM_MECHANISMS["SCRAM-SHA-256"]
    tokens = dict.fromkeys("abc", DelegationToken("User:ann", "User:ann", (), 0, 9, 9))
    known = TokenCredentials()

    def derived(token_id: str) -> Any:
        return known.find(tokens, b"secret", token_id, hashed, 5).credential

    first, second = derived("a"), derived("b")
    assert derived("a") is first
    derived("c")
    assert derived("a") is first
    assert derived("b") is not second
    assert derived("b") == second


# --- Admin and the command line -----------------------------------------------------------------

LATER_MS = 3_600_000


def admin_of(broker: SaslBroker, user: str) -> Admin:
    return Admin(
        bootstrap_servers=broker.secured_address(),
        security_protocol="SASL_PLAINTEXT",
        sasl_username=user,
        sasl_password=USERS[user],
    )


def test_admin_makes_renews_and_expires_tokens(broker: SaslBroker) -> None:
    with admin_of(broker, "alice") as alice, admin_of(broker, "bob") as bob:
        made = alice.create_delegation_token(renewers=["User:bob"], max_lifetime_ms=2 * LATER_MS)
        assert (made.owner, made.requester, made.renewers) == (
            *("User:alice", "User:alice"),
            ("User:bob",),
        )
        assert made.max_timestamp_ms == made.issue_timestamp_ms + 2 * LATER_MS
        assert made.password not in repr(made)
        assert made in bob.describe_delegation_token()
        assert made in alice.describe_delegation_token(["User:alice"])
        assert alice.describe_delegation_token([]) == []
        soon = bob.renew_delegation_token(made.hmac, period_ms=LATER_MS)
        assert soon < bob.renew_delegation_token(made.hmac) == made.max_timestamp_ms
        sooner = bob.expire_delegation_token(made.hmac, period_ms=5_000)
        assert sooner < soon
        assert alice.expire_delegation_token(made.hmac) <= sooner
        assert made.token_id not in {one.token_id for one in alice.describe_delegation_token()}
        with pytest.raises(KafkaError) as gone:
            alice.renew_delegation_token(made.hmac)
        assert gone.value.code is ErrorCode.DELEGATION_TOKEN_NOT_FOUND
        # Without an authorizer everybody may make tokens for everybody.
        assert alice.create_delegation_token(owner="User:carol").owner == "User:carol"


def run(broker: SaslBroker, *arguments: str, code: int = 0) -> str:
    settings = {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.username": "alice",
        "sasl.password": USERS["alice"],
    }
    named = [word for pair in settings.items() for word in ("-X", "=".join(pair))]
    words = ["tokens", *arguments, "--bootstrap", broker.secured_address(), *named]
    done = CliRunner().invoke(app, words)
    assert done.exit_code == code, done.output
    return done.output


def test_the_command_line_in_its_own_words(broker: SaslBroker) -> None:
    made = json.loads(run(broker, "create", "--renewer", "User:bob", "--json"))
    assert b64decode(made["hmac"]) == token_hmac(SECRET.encode(), made["token"])
    table = run(broker, "list")
    assert made["token"] in table
    assert made["hmac"] not in table
    (listed,) = (
        one for one in json.loads(run(broker, "list", "--json")) if one["token"] == made["token"]
    )
    assert listed == {name: value for name, value in made.items() if name != "hmac"}
    assert "The token expires at" in run(broker, "renew", made["hmac"], "--period", "1h")
    assert "--yes" in run(broker, "expire", made["hmac"], code=2)
    assert run(broker, "expire", made["hmac"], "--yes") == "Removed the token.\n"
    assert "no such delegation token" in run(broker, "renew", made["hmac"], code=1)
    assert "it is not Base64" in run(broker, "renew", "?", code=2)
    assert "User:alice" in run(broker, "create", "--owner", "alice", code=2)


def test_the_command_line_in_the_words_of_kafkas_tool(broker: SaslBroker) -> None:
    period = str(LATER_MS)
    told = run(
        *(broker, "--create", "--max-life-time-period", period, "--renewer-principal", "User:bob")
    )
    (hmac,) = re.findall(r"HMAC: +(\S+)", told)
    (token,) = re.findall(r"Token: +(\S+)", told)
    assert token in run(broker, "--describe", "--owner-principal", "User:bob")
    assert "The token expires at" in run(
        broker, "--renew", "--hmac", hmac, "--renew-time-period", "-1"
    )
    removed = run(broker, "--expire", "--hmac", hmac, "--expiry-time-period", "-1")
    assert removed == "Removed the token.\n"
