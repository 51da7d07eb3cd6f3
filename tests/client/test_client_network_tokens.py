"""Tokens of an identity provider: asked for once, kept, and replaced before they expire."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from identity_provider import SECRET, Answer, IdentityProvider
from ottla.config.security.oauth_login import RefreshWindow, TokenEndpoint, token_endpoint
from ottla.network.oauth.refreshing import PAUSE_MIN_MS, refresh_at_ms
from ottla.network.oauth.source import TokenSource
from ottla.network.oauth.token import BadToken, HeldToken
from ottla.network.sasl_mechanisms import NoToken
from ottla.runtime.os_runtime import OsRuntime, run
from ottla.security.oauth.options import BadOption

DEFAULTS: dict[str, Any] = {
    "sasl.login.retry.backoff.ms": 100,
    "sasl.login.retry.backoff.max.ms": 10_000,
    "sasl.login.refresh.window.factor": 0.8,
    "sasl.login.refresh.window.jitter": 0.05,
    "sasl.login.refresh.min.period.seconds": 60,
    "sasl.login.refresh.buffer.seconds": 300,
}
URL = "sasl.oauthbearer.token.endpoint.url"
CLIENT_ID = "sasl.oauthbearer.client.credentials.client.id"
CLIENT_SECRET = "sasl.oauthbearer.client.credentials.client.secret"


@pytest.fixture
def provider() -> Iterator[IdentityProvider]:
    with IdentityProvider() as provider:
        yield provider


def endpoint(provider: IdentityProvider, **changes: Any) -> TokenEndpoint:
    made = TokenEndpoint(provider.token_url, "ann", SECRET, retry_ms=10, retry_max_ms=500)
    return replace(made, **changes)


def test_settings_take_precedence_over_the_jaas_line() -> None:
    jaas = {"clientId": "a", "clientSecret": "hush", "scope": "x", "extension_team": "blue"}
    given = {URL: "https://login.example/token", CLIENT_ID: "b"}
    found = token_endpoint((DEFAULTS | given).get, jaas)
    assert (found.client_id, found.client_secret, found.scope) == ("b", "hush", "x")
    assert found.extensions == {"team": "blue"}
    assert "hush" not in repr(found)


@pytest.mark.parametrize(
    ("given", "jaas", "part"),
    [
        ({URL: "ftp://x"}, {}, "expected an address"),
        ({URL: "https://ann:hush@login.example"}, {}, "without a user"),
        ({URL: "https://x"}, {}, f"{CLIENT_ID}: must be set"),
        ({URL: "https://x", CLIENT_ID: "a", CLIENT_SECRET: " "}, {}, f"{CLIENT_SECRET}: must be"),
        ({URL: "file:/x", "sasl.login.refresh.window.factor": 0.4}, {}, "expected 0.5 to 1"),
        ({URL: "file:/x"}, {"extension_auth": "x"}, "other than auth"),
        ({URL: "file:/x"}, {"extension_a": "\x01"}, "printable"),
        ({URL: "file:/x"}, {"ssl.truststore.certificates": "x"}, "ssl.truststore.location"),
    ],
)
def test_settings_that_cannot_be_used_are_refused(
    given: dict[str, Any], jaas: dict[str, str], part: str
) -> None:
    with pytest.raises(BadOption) as caught:
        token_endpoint((DEFAULTS | given).get, jaas)
    assert part in str(caught.value)
    assert "hush" not in str(caught.value)


def test_connections_share_a_token_which_is_replaced_before_it_expires(
    provider: IdentityProvider,
) -> None:
    provider.lifetime_s = 3

    async def main(runtime: OsRuntime) -> None:
        source = TokenSource(endpoint(provider, scope="a b", urlencodes=True))
        tokens = await asyncio.gather(*(source.token(runtime) for _ in range(20)))
        assert len(set(tokens)) == 1
        assert provider.asked == [("ann", {"grant_type": ["client_credentials"], "scope": ["a b"]})]
        deadline = time.monotonic() + 20
        while await source.token(runtime) == tokens[0]:
            assert time.monotonic() < deadline
            await asyncio.sleep(0.05)
        assert HeldToken.parse(tokens[0]).expires_at_ms > time.time() * 1000

    run(main)


def test_clients_of_a_process_share_a_token_if_they_know_the_same_secret(
    provider: IdentityProvider,
) -> None:
    async def main(runtime: OsRuntime) -> None:
        first = TokenSource(endpoint(provider))
        token = await first.token(runtime)
        second = TokenSource(endpoint(provider))
        assert await second.token(runtime) == token
        assert len(provider.asked) == 1
        for changes in ({"client_id": "bob"}, {"scope": "other"}):
            assert await TokenSource(endpoint(provider, **changes)).token(runtime) != token
        with pytest.raises(NoToken, match="401"):
            await TokenSource(endpoint(provider, client_secret="wrong")).token(runtime)
        asked = len(provider.asked)
        # A token that a broker refuses is replaced at once, but not each time.
        second.discard(runtime, token)
        fresh = await second.token(runtime)
        assert fresh != token
        second.discard(runtime, fresh)
        assert await second.token(runtime) == fresh
        assert len(provider.asked) == asked + 1
        assert await first.token(runtime) == token

    run(main)


def test_a_refused_client_is_not_tried_again_and_no_secret_is_shown(
    provider: IdentityProvider, caplog: pytest.LogCaptureFixture
) -> None:
    async def main(runtime: OsRuntime) -> None:
        source = TokenSource(endpoint(provider, client_secret="wrong-secret"))
        for _ in range(3):
            with pytest.raises(NoToken, match=r"401 .*invalid_client: not \[hidden\]") as caught:
                await source.token(runtime)
            assert caught.value.is_final
        assert len(provider.asked) == 1

    run(main)
    logged = "".join(str(record.__dict__) for record in caplog.records)
    assert "invalid_client" in logged
    assert "wrong-secret" not in logged


def test_a_provider_that_fails_for_a_while_is_asked_again(provider: IdentityProvider) -> None:
    answers = [Answer("", 503), Answer("no json"), Answer("[]"), Answer('{"access_token": 7}')]

    def answer() -> Answer:
        if answers:
            return answers.pop(0)
        return Answer(json.dumps({"id_token": provider.token("ann")}))

    provider.answer_token = answer

    async def main(runtime: OsRuntime) -> None:
        source = TokenSource(endpoint(provider))
        assert HeldToken.parse(await source.token(runtime)).expires_at_ms

    run(main)
    assert len(provider.asked) == 5


@pytest.mark.parametrize(
    ("body", "part"),
    [
        ("x" * 1_000_000, "larger than"),
        ('{"access_token": "a.b.c"}', "not readable"),
        (json.dumps({"access_token": "a." + "b" * 70_000 + ".c"}), "more than 65536 bytes"),
        ("[" * 100_000, "not readable"),
    ],
)
def test_hostile_answers_give_no_token(provider: IdentityProvider, body: str, part: str) -> None:
    provider.answer_token = lambda: Answer(body)

    async def main(runtime: OsRuntime) -> None:
        with pytest.raises(NoToken, match=part):
            await TokenSource(endpoint(provider, retry_max_ms=0)).token(runtime)

    run(main)


def test_an_expired_token_is_no_token(provider: IdentityProvider) -> None:
    provider.lifetime_s = -1

    async def main(runtime: OsRuntime) -> None:
        with pytest.raises(NoToken, match="is a clock wrong"):
            await TokenSource(endpoint(provider, retry_max_ms=0)).token(runtime)

    run(main)


def test_a_slow_provider_holds_neither_the_loop_nor_the_end(provider: IdentityProvider) -> None:
    provider.answer_token = lambda: Answer("x" * 100, piece=1, pause_s=0.5)
    start = time.monotonic()

    async def main(runtime: OsRuntime) -> None:
        asking = asyncio.create_task(TokenSource(endpoint(provider)).token(runtime))
        for _ in range(20):
            before = time.monotonic()
            await asyncio.sleep(0.01)
            assert time.monotonic() - before < 1
        asking.cancel()

    run(main)
    assert time.monotonic() - start < 8  # the runtime does not wait for the answer


def test_a_token_in_a_file_is_read_again_before_it_expires(
    provider: IdentityProvider, tmp_path: Path
) -> None:
    path = tmp_path / "token"
    path.write_text("")
    provider.lifetime_s = 3

    async def main(runtime: OsRuntime) -> None:
        source = TokenSource(TokenEndpoint(f"file:{path}"))
        with pytest.raises(NoToken, match="no JWT"):
            await source.token(runtime)
        first = provider.token("ann")
        path.write_text(f"{first}\n")
        deadline = time.monotonic() + 20
        while True:
            try:
                assert await source.token(runtime) == first
                break
            except NoToken:
                assert time.monotonic() < deadline
                await asyncio.sleep(0.1)
        path.write_text(provider.token("ann", exp=time.time() + 60))
        while await source.token(runtime) == first:
            assert time.monotonic() < deadline
            await asyncio.sleep(0.05)

    run(main)


@given(
    st.integers(0, 10**7),
    st.one_of(st.none(), st.integers(-(10**7), 10**7)),
    st.floats(0.5, 1.0),
    st.floats(0, 0.25),
    st.floats(0, 1),
)
def test_a_token_is_replaced_while_it_is_valid(
    life_ms: int, age_ms: int | None, factor: float, jitter: float, chance: float
) -> None:
    now_ms = 10**9
    window = RefreshWindow(factor, jitter)
    issued_at_ms = None if age_ms is None else now_ms - age_ms
    token = HeldToken("t", issued_at_ms, now_ms + life_ms)
    at_ms = refresh_at_ms(token, window, now_ms, chance)
    assert at_ms >= now_ms + PAUSE_MIN_MS
    if life_ms >= window.period_min_ms + window.buffer_ms:
        assert now_ms + window.period_min_ms <= at_ms <= token.expires_at_ms - window.buffer_ms
    elif life_ms >= 4 * PAUSE_MIN_MS and factor + jitter < 1:
        assert at_ms <= token.expires_at_ms


@given(st.text(max_size=200) | st.binary(max_size=200).map(bytes.hex))
def test_no_text_is_taken_for_a_token_by_chance(text: str) -> None:
    for tried in (text, f"{text}.{text}.{text}"):
        with pytest.raises(BadToken):
            HeldToken.parse(tried)
