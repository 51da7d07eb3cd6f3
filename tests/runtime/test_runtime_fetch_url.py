"""Documents from files and servers: bounded in size and time, and no way around either."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from identity_provider import Answer, IdentityProvider
from ottla.runtime.fetch_url import CannotFetch, Fetch
from ottla.runtime.tls.client import TlsFiles, client_context
from tls_files import Authority


@pytest.fixture
def provider() -> Iterator[IdentityProvider]:
    with IdentityProvider() as provider:
        yield provider


def fetch(url: str, *, bytes_max: int = 1000, **options: float) -> bytes:
    return Fetch(url, bytes_max=bytes_max, **options).run()  # type: ignore[arg-type]


def test_a_file_is_read_by_both_ways_to_write_its_address(tmp_path: Path) -> None:
    path = tmp_path / "a key"
    path.write_bytes(b"x" * 1000)
    for url in (f"file:{path}", f"file://{path}", f"FILE:{tmp_path}/a%20key"):
        assert fetch(url) == b"x" * 1000


def test_what_is_no_small_file_is_refused(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    large = tmp_path / "large"
    large.write_bytes(b"x" * 1001)
    for url, part in (
        (f"file:{pipe}", "is not a file"),
        (f"file:{tmp_path}", "is not a file"),
        (f"file:{tmp_path}/none", "No such file"),
        (f"file:{large}", "larger than 1000 bytes"),
        ("ftp://localhost/x", "expected one of file, http, https"),
    ):
        with pytest.raises(CannotFetch, match=part):
            fetch(url)


def test_a_large_answer_is_refused(provider: IdentityProvider) -> None:
    provider.answer_keys = lambda: Answer(b"x" * 50_000_000)
    with pytest.raises(CannotFetch, match="larger than 1000 bytes"):
        fetch(provider.keys_url)


def test_an_answer_that_comes_byte_by_byte_has_a_deadline(provider: IdentityProvider) -> None:
    provider.answer_keys = lambda: Answer(b"x" * 500, piece=1, pause_s=0.05)
    start = time.monotonic()
    with pytest.raises(CannotFetch, match="no whole answer within"):
        fetch(provider.keys_url, connect_s=0.2, answer_s=0.3)
    assert time.monotonic() - start < 5


def test_a_request_can_be_ended_from_outside(provider: IdentityProvider) -> None:
    provider.answer_keys = lambda: Answer(b"x", pause_s=5)
    request = Fetch(provider.keys_url, bytes_max=1000)
    threading.Timer(0.2, request.abort).start()
    start = time.monotonic()
    with pytest.raises(CannotFetch):
        request.run()
    assert time.monotonic() - start < 4


def test_redirects_stay_with_the_scheme_and_take_no_secret_along(
    provider: IdentityProvider, tmp_path: Path
) -> None:
    secret = tmp_path / "secret"
    secret.write_text("hush")
    answers = [Answer("", 302, location="/other"), Answer("found")]
    provider.answer_keys = lambda: answers.pop(0)
    assert fetch(provider.keys_url) == b"found"
    for location in (f"file://{secret}", "https://localhost:1/x"):
        provider.answer_keys = lambda location=location: Answer("", 302, location=location)  # type: ignore[misc]
        with pytest.raises(CannotFetch, match="answers 302"):
            fetch(provider.keys_url)
    provider.answer_token = lambda: Answer("", 307, location="/keys")
    headers = {"Authorization": "Basic eDp5"}
    with pytest.raises(CannotFetch, match="answers 307"):
        Fetch(provider.token_url, bytes_max=1000, headers=headers, body=b"").run()


def test_a_server_with_another_authority_is_refused(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    context = authority.server_context(authority.sign("provider", "DNS:localhost"))
    files = TlsFiles(str(authority.certificate))
    with IdentityProvider(context) as provider:
        provider.answer_keys = lambda: Answer("found")
        with pytest.raises(CannotFetch, match="certificate verify failed"):
            fetch(provider.keys_url)
        other = provider.keys_url.replace("localhost", "127.0.0.1")
        for url, trusted in ((provider.keys_url, True), (other, False)):
            request = Fetch(url, bytes_max=1000, context=lambda: client_context(files))
            if trusted:
                assert request.run() == b"found"
            else:
                with pytest.raises(CannotFetch, match="IP address mismatch"):
                    request.run()


def test_a_refusal_says_what_the_server_said(provider: IdentityProvider) -> None:
    provider.answer_keys = lambda: Answer(b"n" * 100_000, 503)
    with pytest.raises(CannotFetch) as caught:
        fetch(provider.keys_url)
    assert caught.value.status == 503
    assert caught.value.body == b"n" * 4096
