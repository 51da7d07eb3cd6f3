"""An identity provider with a private authority: brokers read its keys, clients get its tokens."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import confluent_kafka
import pytest
from bench.brokers import run_java

from identity_provider import AUDIENCE, ISSUER, SECRET, Answer, IdentityProvider
from ottla.blocking import Admin, Producer
from ottla.client.errors import AuthenticationFailed, BadSetting, Unreachable
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from sasl_broker import SaslBroker, SaslWire
from tls_files import Authority

pytestmark = pytest.mark.ottla_only

PACKAGE = "org.apache.kafka.common.security.oauthbearer"
LINE = "listener.name.sasl_plaintext.oauthbearer.sasl.jaas.config"


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="module")
def provider(authority: Authority) -> Iterator[IdentityProvider]:
    own = authority.sign("provider", "DNS:localhost")
    with IdentityProvider(authority.server_context(own)) as provider:
        yield provider


def options(provider: IdentityProvider, authority: Authority, **changes: str) -> dict[str, str]:
    jwks = {name.replace("_", "."): value for name, value in changes.items()}
    return {
        "sasl.enabled.mechanisms": "OAUTHBEARER",
        "sasl.oauthbearer.jwks.endpoint.url": provider.keys_url,
        "sasl.oauthbearer.expected.issuer": ISSUER,
        "sasl.oauthbearer.expected.audience": AUDIENCE,
        LINE: (
            f"{PACKAGE}.OAuthBearerLoginModule required "
            f'ssl.truststore.location="{authority.certificate}";'
        ),
    } | {f"sasl.oauthbearer.jwks.endpoint.{name}": value for name, value in jwks.items()}


@pytest.fixture(scope="module")
def broker(
    provider: IdentityProvider, authority: Authority, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[SaslBroker]:
    broker = SaslBroker(tmp_path_factory.mktemp("broker"), options(provider, authority))
    try:
        broker.start()
        await_true(lambda: outcome(broker, provider.token("ann")) == 0)
        yield broker
        assert broker.stop() == 0
        assert "Traceback" not in broker.output
        assert "eyJ" not in broker.output
    finally:
        broker.remove()


def await_true(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 30
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def outcome(broker: SaslBroker, token: str) -> int | None:
    """The error code of a sign-in; None if the broker closes the connection instead."""
    wire = SaslWire(broker.ports["SASL_PLAINTEXT"])
    try:
        assert wire.handshake("OAUTHBEARER").error_code == 0
        request = SaslAuthenticateRequest(auth_bytes=f"n,,\x01auth=Bearer {token}\x01\x01".encode())
        wire.send(request, 2)
        if wire.socket.recv(1, socket.MSG_PEEK) == b"":
            return None
        answer = wire.receive(request, 2)
        if answer.auth_bytes:
            answer = wire.authenticate(b"\x01")
        return int(answer.error_code)
    except ConnectionError:
        return None
    finally:
        wire.close()


def settings(broker: SaslBroker, provider: IdentityProvider, authority: Authority) -> Any:
    return {
        "bootstrap_servers": broker.secured_address(),
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": "OAUTHBEARER",
        "sasl_oauthbearer_token_endpoint_url": provider.token_url,
        "sasl_oauthbearer_client_credentials_client_id": "ann",
        "sasl_oauthbearer_client_credentials_client_secret": SECRET,
        "sasl_oauthbearer_ssl_cafile": str(authority.certificate),
    }


def test_our_clients_sign_in_and_stay_while_tokens_are_replaced(
    broker: SaslBroker, provider: IdentityProvider, authority: Authority
) -> None:
    provider.lifetime_s = 2
    before = len(provider.asked)
    given = settings(broker, provider, authority)
    try:
        # Of its own: clients of one process share tokens, and others here live longer.
        given["sasl_oauthbearer_client_credentials_client_id"] = "stays"
        with Producer(**given, sasl_oauthbearer_extensions="team=blue") as producer:
            ends_at = time.monotonic() + 4
            while time.monotonic() < ends_at:
                producer.send_and_wait("provided", b"ours")
                time.sleep(0.1)
    finally:
        provider.lifetime_s = 60
    assert 2 <= len(provider.asked) - before < 15


def test_a_client_that_the_provider_refuses_gives_up(
    broker: SaslBroker, provider: IdentityProvider, authority: Authority
) -> None:
    given = settings(broker, provider, authority)
    wrong = {"sasl_oauthbearer_client_credentials_client_secret": "wrong-secret"}
    with pytest.raises(AuthenticationFailed, match="invalid_client") as caught:
        Admin(**given | wrong).start()
    assert "wrong-secret" not in str(caught.value)
    unknown = {"sasl_oauthbearer_ssl_cafile": None, "sasl_login_retry_backoff_max_ms": 0}
    with pytest.raises(Unreachable, match="certificate verify failed"):
        Admin(**given | unknown, default_api_timeout_ms=2000).start()
    with pytest.raises(BadSetting, match="client_id: must be set"):
        Admin(**given | {"sasl_oauthbearer_client_credentials_client_id": " "}).start()


def java_file(
    path: Path, broker: SaslBroker, provider: IdentityProvider, authority: Authority
) -> Path:
    properties = {
        "bootstrap.servers": broker.secured_address(),
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.login.callback.handler.class": f"{PACKAGE}.OAuthBearerLoginCallbackHandler",
        "sasl.oauthbearer.token.endpoint.url": provider.token_url,
        "sasl.jaas.config": (
            f'{PACKAGE}.OAuthBearerLoginModule required clientId="ann" clientSecret="{SECRET}" '
            f'extension_team="blue" ssl.truststore.type="PEM" '
            f'ssl.truststore.location="{authority.certificate}";'
        ),
    }
    path.write_text("".join(f"{name}={value}\n" for name, value in properties.items()))
    return path


def test_a_file_for_javas_clients_is_good_for_ours_and_for_theirs(
    broker: SaslBroker,
    provider: IdentityProvider,
    authority: Authority,
    kafka_libs: Path,
    tmp_path: Path,
) -> None:
    file = java_file(tmp_path / "client.properties", broker, provider, authority)
    line = ("topics", "create", "from-tools", "--command-config", str(file))
    subprocess.run([sys.executable, "-m", "ottla", *line], check=True, timeout=60)
    listed = run_java(
        kafka_libs,
        f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls={provider.token_url}",
        "org.apache.kafka.tools.TopicCommand",
        *("--bootstrap-server", broker.secured_address(), "--command-config", str(file), "--list"),
    )
    assert "from-tools" in listed.stdout.split()


def test_librdkafka_signs_in_with_tokens_of_the_provider(
    broker: SaslBroker, provider: IdentityProvider, authority: Authority
) -> None:
    theirs = confluent_kafka.Producer(
        {
            "bootstrap.servers": broker.secured_address(),
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "OAUTHBEARER",
            "sasl.oauthbearer.method": "oidc",
            "sasl.oauthbearer.token.endpoint.url": provider.token_url,
            "sasl.oauthbearer.client.id": "ann",
            "sasl.oauthbearer.client.secret": SECRET,
            "sasl.oauthbearer.extensions": "team=blue",
            "https.ca.location": str(authority.certificate),
        }
    )
    failures: list[Any] = []
    theirs.produce("provided", b"x", on_delivery=lambda error, _: failures.append(error))
    assert theirs.flush(30) == 0
    assert failures == [None]


def test_a_flood_of_unknown_keys_is_no_flood_for_the_provider(
    broker: SaslBroker, provider: IdentityProvider
) -> None:
    before, start = provider.keys_asked, time.monotonic()
    for number in range(20):
        token = provider.token("ann", kid=f"unknown-{number}")
        assert outcome(broker, token) == ErrorCode.SASL_AUTHENTICATION_FAILED
    assert provider.keys_asked - before <= 1 + (time.monotonic() - start) / 10


def test_a_provider_that_is_down_or_hostile_keeps_nobody_from_coming_later(
    authority: Authority, tmp_path: Path
) -> None:
    own = authority.sign("provider", "DNS:localhost")
    with IdentityProvider(authority.server_context(own)) as provider:
        answers = [
            Answer("", 503),
            Answer("x" * 2_000_000),
            Answer('{"keys": 7}'),
            Answer("[" * 500_000),
            Answer(json.dumps({"keys": [{"kty": "RSA", "n": "AQAB", "e": "x" * 9000}] * 50})),
            Answer("", 302, location="file:///etc/passwd"),
        ]
        asked = len(answers)
        provider.answer_keys = lambda: answers.pop(0) if answers else Answer("no", 500)
        given = options(
            provider, authority, refresh_ms="300", retry_backoff_ms="20", retry_backoff_max_ms="50"
        )
        broker = SaslBroker(tmp_path / "broker", given)
        try:
            broker.start()
            # Before the keys are known, nobody can tell: a refusal would be final.
            assert outcome(broker, provider.token("ann")) is None
            await_true(lambda: provider.keys_asked > asked)
            assert outcome(broker, provider.token("ann")) is None
            provider.answer_keys = None
            await_true(lambda: outcome(broker, provider.token("ann")) == 0)
            # Good keys stay when the provider fails.
            provider.answer_keys = lambda: Answer("", 500)
            before = provider.keys_asked
            await_true(lambda: provider.keys_asked > before + 3)
            assert outcome(broker, provider.token("ann")) == 0
            # Keys that the provider no longer has are forgotten, without a restart.
            old = provider.token("ann")
            provider.answer_keys = None
            provider.keys.clear()
            provider.publish("second")
            provider.current = "second"
            await_true(lambda: outcome(broker, provider.token("ann")) == 0)
            await_true(lambda: outcome(broker, old) == ErrorCode.SASL_AUTHENTICATION_FAILED)
            assert "cannot read the keys of the identity provider" in broker.output
            assert "Traceback" not in broker.output
        finally:
            broker.remove()
