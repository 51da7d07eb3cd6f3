"""Delegation tokens at a broker process."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest

from ottla.protocol.apis import api
from ottla.protocol.errors import ErrorCode
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
