"""OAUTHBEARER: tokens that a provider has signed, unsecured ones, and forged ones."""

from __future__ import annotations

import asyncio
import json
import time
from base64 import urlsafe_b64encode
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from hypothesis import given
from hypothesis import strategies as st
from joserfc import jwt
from joserfc.jwk import ECKey, OctKey, RSAKey

import ottla
from ottla.broker.server.sign_in.mechanisms import InvalidCredentials, Refused
from ottla.broker.server.sign_in.oauth import InvalidToken, OauthServer, TokenCheck
from ottla.client.errors import AuthenticationFailed
from ottla.config.broker import BrokerConfig
from ottla.config.errors import ConfigError
from ottla.config.security.oauth import OauthSettings
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.api_versions import ApiVersionsRequest
from sasl_broker import SaslBroker, SaslWire

pytestmark = pytest.mark.ottla_only

ISSUER, AUDIENCE = "https://login.example", "kafka"
MODULE = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"
NOW_S = 1_700_000_000


def unsecured(header: Any = None, **claims: Any) -> str:
    parts = [header or {"alg": "none"}, claims]
    texts = [urlsafe_b64encode(json.dumps(one).encode()).decode().rstrip("=") for one in parts]
    return ".".join(texts) + "."


CLAIMS = {"sub": "alice", "exp": NOW_S + 60}
READERS = OauthSettings(None, clock_skew_ms=1000, required_scope=frozenset({"read"}))
CHECK = TokenCheck(READERS, None)


def test_an_unsecured_token_says_who_and_until_when() -> None:
    for scope in ("read write", ["write", "read"]):
        valid = CHECK.check(unsecured(**CLAIMS, scope=scope), NOW_S * 1000)
        assert valid == ("alice", (NOW_S + 60) * 1000)


@pytest.mark.parametrize(
    ("token", "reason"),
    [
        (unsecured(sub="alice", scope="read"), "when it expires"),
        (unsecured(**CLAIMS | {"exp": NOW_S - 1}, scope="read"), "has expired"),
        (unsecured(**CLAIMS, iat=NOW_S + 2, scope="read"), "not valid yet"),
        (unsecured(**CLAIMS, nbf=NOW_S + 2, scope="read"), "not valid yet"),
        (unsecured(**CLAIMS | {"exp": "soon"}, scope="read"), "is no time"),
        (unsecured(**CLAIMS | {"exp": True}, scope="read"), "is no time"),
        (unsecured(**CLAIMS | {"exp": 1e300}, scope="read"), "is no time"),
        (unsecured(**CLAIMS | {"sub": 7}, scope="read"), "who it is for"),
        (unsecured(**CLAIMS | {"sub": " "}, scope="read"), "who it is for"),
        (unsecured(**CLAIMS), "scope does not suffice"),
        (unsecured({"alg": "HS256"}, **CLAIMS, scope="read"), "'alg' must be 'none'"),
        (unsecured(**CLAIMS, scope="read") + "AAAA", "no unsecured token"),
        ("a.b", "no unsecured token"),
        ("a.b.", "not readable"),
        ("." * 3, "no unsecured token"),
        (urlsafe_b64encode(b"[" * 60_000).decode() + "..", "not readable"),
    ],
)
def test_an_unsecured_token_that_is_wrong_is_refused(token: str, reason: str) -> None:
    with pytest.raises(InvalidToken, match=reason):
        CHECK.check(token, NOW_S * 1000)


def server() -> OauthServer:
    return OauthServer(CHECK, lambda: NOW_S * 1000)


def test_a_refused_token_is_told_in_json_and_ends_with_the_clients_answer() -> None:
    exchange = server()
    bad = f"n,,\x01auth=Bearer {unsecured(**CLAIMS)}\x01\x01".encode()
    assert exchange.evaluate(bad) == b'{"status":"insufficient_scope", "scope":"[read]"}'
    assert not exchange.is_complete
    good = f"n,,\x01auth=Bearer {unsecured(**CLAIMS, scope='read')}\x01\x01".encode()
    for answer in (b"\x01", bad, good):  # whoever tries several has to wait in between
        with pytest.raises(Refused, match="insufficient_scope"):
            exchange.evaluate(answer)
    assert not exchange.is_complete


@given(st.binary(max_size=100) | st.text(alphabet="n,a=\x01uthBer .").map(str.encode))
def test_no_bytes_sign_in_by_themselves(message: bytes) -> None:
    exchange = server()
    try:
        exchange.evaluate(message)
    except (InvalidCredentials, Refused):
        pass
    assert not exchange.is_complete


def test_a_provider_without_issuer_or_audience_is_refused() -> None:
    given = {
        "listeners": "SASL_PLAINTEXT://127.0.0.1:0",
        "sasl.enabled.mechanisms": "OAUTHBEARER",
    }
    jwks = {"sasl.oauthbearer.jwks.endpoint.url": "https://login.example/keys"}
    for changes, part in (
        ({}, "oauthbearer.sasl.jaas.config: set it"),
        (jwks, "sasl.oauthbearer.expected.issuer: must be set"),
        (jwks | {"sasl.oauthbearer.expected.issuer": ISSUER}, "expected.audience: must be set"),
        ({"sasl.oauthbearer.jwks.endpoint.url": "ftp://x"}, "expected file, http, https"),
    ):
        with pytest.raises(ConfigError, match=part):
            BrokerConfig.parse(given | changes)


RSA = RSAKey.generate_key(2048, parameters={"kid": "rsa"})
EC = ECKey.generate_key("P-256", parameters={"kid": "ec"})
LATER = RSAKey.generate_key(2048, parameters={"kid": "later"})


def write_keys(path: Path, *keys: Any) -> None:
    path.write_text(json.dumps({"keys": [key.as_dict(private=False) for key in keys]}))


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("keys") / "jwks.json"
    write_keys(path, RSA, EC)
    return path


@pytest.fixture(scope="module")
def broker(keys: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SaslBroker]:
    options = {
        "sasl.enabled.mechanisms": "OAUTHBEARER",
        "sasl.oauthbearer.jwks.endpoint.url": f"file://{keys}",
        "sasl.oauthbearer.expected.issuer": ISSUER,
        "sasl.oauthbearer.expected.audience": f"other,{AUDIENCE}",
    }
    broker = SaslBroker(tmp_path_factory.mktemp("broker"), options)
    try:
        broker.start()
        yield broker
        assert broker.stop() == 0
        assert "Traceback" not in broker.output
        assert "eyJ" not in broker.output  # no token, not even a forged one
    finally:
        broker.remove()


def signed(key: Any = RSA, algorithm: str = "RS256", kid: str = "rsa", **changes: Any) -> str:
    now = int(time.time())
    claims = {"sub": "alice", "iss": ISSUER, "aud": AUDIENCE, "iat": now, "exp": now + 60}
    claims = {name: value for name, value in (claims | changes).items() if value is not None}
    return jwt.encode({"alg": algorithm, "kid": kid}, claims, key)


def outcome(broker: SaslBroker, token: str) -> tuple[int, int]:
    """The error code of a sign-in, and the session's lifetime in ms."""
    wire = SaslWire(broker.ports["SASL_PLAINTEXT"])
    try:
        assert wire.handshake("OAUTHBEARER").error_code == 0
        answer = wire.authenticate(f"n,,\x01auth=Bearer {token}\x01\x01".encode())
        if answer.auth_bytes:
            assert json.loads(answer.auth_bytes) == {"status": "invalid_token"}
            answer = wire.authenticate(b"\x01")
            assert answer.error_message == '{"status":"invalid_token"}'
        else:
            request = ApiVersionsRequest(client_software_name="w", client_software_version="1")
            assert wire.ask(request, 3).error_code == 0
        return answer.error_code, answer.session_lifetime_ms
    finally:
        wire.close()


def test_signed_tokens_sign_in_for_as_long_as_they_are_valid(broker: SaslBroker) -> None:
    for token in (
        signed(),
        signed(EC, "ES256", "ec"),
        signed(aud=["x", AUDIENCE]),
    ):
        code, lifetime_ms = outcome(broker, token)
        assert code == 0
        assert 50_000 < lifetime_ms <= 60_000


def test_forged_and_misused_tokens_are_refused(broker: SaslBroker) -> None:
    secret = OctKey.import_key(json.dumps(RSA.as_dict(private=False)))
    good = signed()
    for token in (
        unsecured(sub="alice", iss=ISSUER, aud=AUDIENCE, iat=1, exp=int(time.time()) + 60),
        signed(LATER),  # another key under the name of a known one
        signed(secret, "HS256"),  # the public key as a shared secret
        signed(iss="https://evil.example"),
        signed(aud="somebody-else"),
        signed(iss=None),
        signed(aud=None),
        signed(iat=None),
        signed(exp=None),
        signed(exp=int(time.time()) - 31),
        signed(sub=None),
        good[:-8] + "AAAAAAAA",
        good.rpartition(".")[0] + ".",
        "x.y.z",
        "A" * 60_000,
    ):
        assert outcome(broker, token)[0] == ErrorCode.SASL_AUTHENTICATION_FAILED, token


def test_clients_sign_in_with_tokens(broker: SaslBroker) -> None:
    settings: dict[str, Any] = {
        "bootstrap_servers": broker.secured_address(),
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": "OAUTHBEARER",
    }

    async def main() -> None:
        async with ottla.Producer(**settings, sasl_oauth_token_provider=signed) as producer:
            await producer.send("tokens", b"ours")
            await producer.flush()
        forged = ottla.Admin(**settings, sasl_oauth_token_provider=lambda: signed(LATER))
        with pytest.raises(AuthenticationFailed, match="invalid_token"):
            await forged.start()
        await forged.close()

    asyncio.run(asyncio.wait_for(main(), 30))
    theirs = Producer(
        {
            "bootstrap.servers": broker.secured_address(),
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "OAUTHBEARER",
            "oauth_cb": lambda _: (signed(), time.time() + 50),
        }
    )
    failures: list[Any] = []
    theirs.produce("tokens", b"theirs", on_delivery=lambda error, _: failures.append(error))
    assert theirs.flush(30) == 0
    assert failures == [None]


def test_a_new_key_of_the_provider_is_found(broker: SaslBroker, keys: Path) -> None:
    later = signed(LATER, kid="later")
    assert outcome(broker, later)[0] == ErrorCode.SASL_AUTHENTICATION_FAILED
    write_keys(keys, RSA, EC, LATER)
    deadline = time.monotonic() + 20
    while outcome(broker, later)[0]:
        assert time.monotonic() < deadline
        time.sleep(0.2)


def first(token: str) -> bytes:
    return f"n,,\x01auth=Bearer {token}\x01\x01".encode()


def sign_in(wire: SaslWire, token: str) -> int:
    """Return how long the session lasts."""
    assert wire.handshake("OAUTHBEARER").error_code == 0
    answer = wire.authenticate(first(token))
    assert (answer.error_code, answer.auth_bytes) == (0, b"")
    return answer.session_lifetime_ms


def test_a_session_ends_with_its_token_and_goes_on_with_the_next(broker: SaslBroker) -> None:
    now = time.time()
    stays, ends = SaslWire(broker.ports["SASL_PLAINTEXT"]), SaslWire(broker.ports["SASL_PLAINTEXT"])
    for wire in (stays, ends):
        assert 0 < sign_in(wire, signed(iat=now, exp=now + 3)) <= 3000
        wire.ask_versions()
    time.sleep(1.2)  # a client may sign in again after a second
    assert sign_in(stays, signed(iat=now, exp=now + 60)) > 50_000
    time.sleep(max(0.0, now + 3.2 - time.time()))
    stays.ask_versions()
    ends.send(ApiVersionsRequest(client_software_name="w", client_software_version="1"), 3)
    assert ends.is_closed()
    # Within the skew of the clocks an expired token still opens a session, which ends at once.
    again = SaslWire(broker.ports["SASL_PLAINTEXT"])
    assert sign_in(again, signed(iat=now, exp=now + 2)) == 0
    again.send(ApiVersionsRequest(client_software_name="w", client_software_version="1"), 3)
    assert again.is_closed()
    for wire in (stays, ends, again):
        wire.close()


def test_a_token_of_another_user_or_a_forged_one_ends_the_session(broker: SaslBroker) -> None:
    for token, told in (
        (signed(sub="bob"), "Cannot change principals during re-authentication from User.alice"),
        (signed(LATER), '{"status":"invalid_token"}'),
    ):
        wire = SaslWire(broker.ports["SASL_PLAINTEXT"])
        sign_in(wire, signed())
        assert wire.handshake("OAUTHBEARER").error_code == 0
        answer = wire.authenticate(first(token))
        if answer.auth_bytes:
            answer = wire.authenticate(b"\x01")
        assert answer.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
        assert told in (answer.error_message or "")
        assert wire.is_closed()
        wire.close()


def test_huge_tokens_are_refused_before_they_are_read(broker: SaslBroker) -> None:
    huge = signed(padding="x" * 70_000)
    wire = SaslWire(broker.ports["SASL_PLAINTEXT"])
    assert wire.handshake("OAUTHBEARER").error_code == 0
    answer = wire.authenticate(first(huge))
    assert answer.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
    assert wire.is_closed()
    wire.close()
    wire = SaslWire(broker.ports["SASL_PLAINTEXT"])
    assert wire.handshake("OAUTHBEARER").error_code == 0
    wire.send_bytes((600_000).to_bytes(4, "big"))  # over sasl.server.max.receive.size
    assert wire.is_closed()
    wire.close()
