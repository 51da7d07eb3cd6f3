"""Signing in: to brokers that accept, refuse, offer something else, and forget after a while."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any

import pytest
from scripted_broker import ScriptedBroker, negotiating

from ottla.client.errors import (
    AuthenticationFailed,
    BadSetting,
    ConnectionLost,
    Unreachable,
)
from ottla.client.network.cluster import Cluster
from ottla.client.network.credentials import security_of
from ottla.client.settings.common import ClientSettings
from ottla.network.opening import open_connection
from ottla.network.sasl import RENEW_INTERVAL_S_MIN
from ottla.protocol.apis import APIS, ApiKey
from ottla.protocol.errors import ErrorCode
from ottla.protocol.headers import RequestHeader
from ottla.protocol.messages.describe_cluster import (
    DescribeClusterRequest,
    DescribeClusterResponse,
)
from ottla.protocol.messages.sasl_authenticate import SaslAuthenticateResponse
from ottla.protocol.messages.sasl_handshake import SaslHandshakeResponse
from ottla.runtime.os_runtime import OsRuntime, run


class Door:
    """A broker that lets in who says the word; as Kafka does, it hangs up on everybody else."""

    def __init__(
        self,
        accepts: Callable[[bytes], bool],
        *,
        mechanisms: tuple[str, ...] = ("PLAIN",),
        lifetime_ms: int = 0,
        says: bytes = b"",
    ) -> None:
        self.accepts = accepts
        self.mechanisms = mechanisms
        self.lifetime_ms = lifetime_ms
        self.says = says
        self.log: list[str] = []
        self._inside: set[asyncio.StreamWriter] = set()
        self._signing_in: set[asyncio.StreamWriter] = set()
        self.broker = ScriptedBroker(negotiating(self._answer))

    async def _answer(
        self, broker: ScriptedBroker, header: RequestHeader, request: Any, writer: Any
    ) -> None:
        self.log.append(ApiKey(header.api_key).name)
        if header.api_key == ApiKey.SASL_HANDSHAKE:
            self._signing_in.add(writer)
            known = request.mechanism in self.mechanisms
            code = 0 if known else ErrorCode.UNSUPPORTED_SASL_MECHANISM
            response = SaslHandshakeResponse(error_code=code, mechanisms=list(self.mechanisms))
            broker.send(writer, header, response)
        elif header.api_key == ApiKey.SASL_AUTHENTICATE:
            self._authenticate(header, request, writer)
        elif writer in self._inside and writer not in self._signing_in:
            broker.send(writer, header, DescribeClusterResponse(cluster_id="inside"))
        else:
            writer.close()

    def _authenticate(self, header: RequestHeader, request: Any, writer: Any) -> None:
        response = SaslAuthenticateResponse(
            auth_bytes=self.says, session_lifetime_ms=self.lifetime_ms
        )
        if self.accepts(request.auth_bytes):
            self._inside.add(writer)
            self._signing_in.discard(writer)
        else:
            response.error_code = ErrorCode.SASL_AUTHENTICATION_FAILED
            response.error_message = "no such user, or another password"
        self.broker.send(writer, header, response)


def settings(**options: Any) -> ClientSettings:
    known = {"sasl_username": "alice", "sasl_password": "secret"}
    return ClientSettings(**{"security_protocol": "SASL_PLAINTEXT", **known, **options})


def sign_in(door: Door, requests: int = 1, pause_s: float = 0.0, **options: Any) -> None:
    security = security_of(settings(**options))

    async def main(runtime: OsRuntime) -> None:
        async with door.broker as address:
            connection = await open_connection(
                runtime, address, security=security, connect_timeout_ms=2_000
            )
            try:
                for _ in range(requests):
                    response = await connection.request(DescribeClusterRequest())
                    assert response.cluster_id == "inside"
                    await asyncio.sleep(pause_s)
            finally:
                connection.close()

    run(main)


def says_the_word(message: bytes) -> bool:
    return message == b"\0alice\0secret"


def test_plain_shows_name_and_password() -> None:
    door = Door(says_the_word)
    sign_in(door)
    assert door.log == ["SASL_HANDSHAKE", "SASL_AUTHENTICATE", "DESCRIBE_CLUSTER"]


def test_a_wrong_password_is_refused_in_the_words_of_the_broker_and_not_tried_again() -> None:
    door = Door(says_the_word)

    async def main(runtime: OsRuntime) -> None:
        async with door.broker as (host, port):
            cluster = Cluster.of(
                settings(bootstrap_servers=f"{host}:{port}", sasl_password="guess"), runtime
            )
            with pytest.raises(AuthenticationFailed, match="no such user, or another password"):
                await cluster.retrying(cluster.any_broker)
            assert cluster.metrics.snapshot()["failed-authentication-total"] == 1
            cluster.close()

    run(main)
    assert door.log.count("SASL_AUTHENTICATE") == 1


def test_a_refresh_in_the_background_stops_at_a_wrong_password_and_tells_who_waits() -> None:
    door = Door(says_the_word)

    async def main(runtime: OsRuntime) -> None:
        async with door.broker as (host, port):
            cluster = Cluster.of(
                settings(
                    bootstrap_servers=f"{host}:{port}", sasl_password="guess", retry_backoff_ms=1
                ),
                runtime,
            )
            told = asyncio.Event()
            cluster.metadata.on_change(lambda _: told.set())
            cluster.metadata.watch(["t"])
            await asyncio.wait_for(told.wait(), 5)
            assert isinstance(cluster.metadata.failure, AuthenticationFailed)
            await asyncio.sleep(0.1)
            cluster.close()

    run(main)
    assert door.log.count("SASL_AUTHENTICATE") == 1


def test_a_mechanism_that_the_broker_lacks_is_answered_with_those_it_has() -> None:
    door = Door(says_the_word, mechanisms=("SCRAM-SHA-256", "GSSAPI"))
    with pytest.raises(AuthenticationFailed, match="it offers GSSAPI, SCRAM-SHA-256"):
        sign_in(door)


def test_a_broker_without_sign_in_gets_a_hint() -> None:
    door = Door(says_the_word)
    known = {key: api.versions for key, api in APIS.items()}
    door.broker.versions = {k: v for k, v in known.items() if k != ApiKey.SASL_HANDSHAKE}
    with pytest.raises(AuthenticationFailed, match="is security_protocol right"):
        sign_in(door)


def test_a_client_that_does_not_sign_in_where_it_must_gets_a_hint() -> None:
    with pytest.raises(ConnectionLost, match="wants SASL"):
        sign_in(Door(says_the_word), security_protocol="PLAINTEXT")


def test_a_scram_server_that_does_not_prove_itself_is_not_trusted() -> None:
    door = Door(lambda _: True, mechanisms=("SCRAM-SHA-512",), says=b"v=AAAA")
    with pytest.raises(AuthenticationFailed, match="SCRAM-SHA-512"):
        sign_in(door, sasl_mechanism="SCRAM-SHA-512")


def later(token: str) -> Callable[[], Any]:
    async def provider() -> str:
        await asyncio.sleep(0.01)
        return token

    return provider


@pytest.mark.parametrize("provider", [lambda: "t0ken", later("t0ken")])
def test_a_token_comes_from_a_function_plain_or_async(provider: Callable[[], Any]) -> None:
    door = Door(
        lambda message: message == b"n,,\x01auth=Bearer t0ken\x01\x01", mechanisms=("OAUTHBEARER",)
    )
    sign_in(door, sasl_mechanism="OAUTHBEARER", sasl_oauth_token_provider=provider)


def test_a_token_that_is_refused_is_explained() -> None:
    door = Door(lambda _: True, mechanisms=("OAUTHBEARER",), says=b'{"status":"invalid_token"}')
    with pytest.raises(AuthenticationFailed, match="invalid_token"):
        sign_in(door, sasl_mechanism="OAUTHBEARER", sasl_oauth_token_provider=lambda: "old")


def test_a_provider_that_fails_or_hangs_is_named() -> None:
    def broken() -> str:
        raise OSError("no identity service")

    async def hanging() -> str:
        await asyncio.sleep(60)
        return ""

    for provider, words in ((broken, "no identity service"), (hanging, "no token within")):
        door = Door(lambda _: True, mechanisms=("OAUTHBEARER",))
        with pytest.raises(Unreachable, match=f"sasl_oauth_token_provider.*{words}"):
            sign_in(door, sasl_mechanism="OAUTHBEARER", sasl_oauth_token_provider=provider)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"sasl_username": None}, "sasl_username: PLAIN needs it"),
        ({"sasl_password": None, "sasl_mechanism": "SCRAM-SHA-256"}, "sasl_password: SCRAM"),
        ({"sasl_token_auth": True}, "sasl_token_auth: delegation tokens sign in by SCRAM"),
        ({"sasl_mechanism": "OAUTHBEARER"}, "sasl_oauth_token_provider: OAUTHBEARER needs it"),
    ],
)
def test_what_a_mechanism_lacks_is_named_before_anything_is_connected(
    options: dict[str, Any], words: str
) -> None:
    with pytest.raises(BadSetting, match=words):
        security_of(settings(**options))


def test_a_session_is_renewed_before_it_ends_while_requests_go_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("ottla.network.sasl.RENEW_INTERVAL_S_MIN", 0.0)
    door = Door(says_the_word, lifetime_ms=100)
    sign_in(door, requests=40, pause_s=0.01)
    assert door.log.count("SASL_AUTHENTICATE") >= 3
    for number, name in enumerate(door.log):
        if name == "SASL_HANDSHAKE":
            assert door.log[number + 1] == "SASL_AUTHENTICATE", "nothing may come in between"


def test_short_sessions_are_not_renewed_more_often_than_brokers_allow() -> None:
    door = Door(says_the_word, lifetime_ms=50)
    start = time.monotonic()
    sign_in(door, requests=30, pause_s=0.02)
    again = door.log.count("SASL_AUTHENTICATE") - 1
    assert 1 <= again <= 1 + (time.monotonic() - start) / RENEW_INTERVAL_S_MIN


def test_a_session_that_cannot_be_renewed_fails_what_waits_for_it() -> None:
    answers = iter([True, False])
    door = Door(lambda _: next(answers), lifetime_ms=50)
    with pytest.raises(AuthenticationFailed):
        sign_in(door, requests=20, pause_s=0.02)
