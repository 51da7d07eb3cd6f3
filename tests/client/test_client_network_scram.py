"""SCRAM as in RFC 5802 and RFC 7677, and servers that cheat."""

from __future__ import annotations

import hashlib
import hmac
from base64 import b64decode, b64encode

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.network.scram import ScramClient, ScramRefused
from ottla.security.scram import SCRAM_MECHANISMS, ScramHash

SHA_1 = ScramHash("SCRAM-SHA-1", 0, "sha1")
SHA_256, SHA_512 = SCRAM_MECHANISMS.values()
SERVER_FIRST = (
    b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
)
NONCE = "rOprNGfwEbeRWgbNEkqO"


def vector() -> ScramClient:
    return ScramClient(SHA_256, "user", "pencil", NONCE)


def test_the_exchange_of_rfc_7677() -> None:
    client = vector()
    assert client.first() == b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO"
    assert client.final(SERVER_FIRST) == (
        b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,"
        b"p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
    )
    client.check(b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=")


def test_the_exchange_of_rfc_5802_with_another_hash() -> None:
    client = ScramClient(SHA_1, "user", "pencil", "fyko+d2lbbFgONRv9qkxdawL")
    final = client.final(b"r=fyko+d2lbbFgONRv9qkxdawL3rfcNHYJY1ZVvWVs7j,s=QSXCR+Q6sek8bf92,i=4096")
    assert final.endswith(b"p=v0X8v3Bz2T0CJGbJQyF0X+HI4Ts=")
    client.check(b"v=rmF9pqV8S7suAoZWja4dJRkFsKQ=")


def test_a_server_that_does_not_know_the_password_is_refused() -> None:
    client = vector()
    client.final(SERVER_FIRST)
    forged = b64encode(b"x" * 32)
    with pytest.raises(ScramRefused, match="does not show that it knows the password"):
        client.check(b"v=" + forged)


def test_a_server_that_skips_its_proof_is_refused() -> None:
    client = vector()
    with pytest.raises(ScramRefused, match="does not show"):
        client.check(b"v=")
    client.final(SERVER_FIRST)
    with pytest.raises(ScramRefused, match="does not show"):
        client.check(b"")


def test_what_the_server_says_is_passed_on() -> None:
    client = vector()
    client.final(SERVER_FIRST)
    with pytest.raises(ScramRefused, match="invalid-proof"):
        client.check(b"e=invalid-proof")
    with pytest.raises(ScramRefused, match="unknown-user"):
        vector().final(b"e=unknown-user")


@pytest.mark.parametrize(
    ("server_first", "words"),
    [
        (b"r=another,s=QUJD,i=4096", "does not continue ours"),
        (b"r=rOprNGfwEbeRWgbNEkqO,s=QUJD,i=4096", "does not continue ours"),
        (SERVER_FIRST.replace(b"4096", b"1"), "asks for '1' iterations"),
        (SERVER_FIRST.replace(b"4096", b"999999999"), "asks for '999999999' iterations"),
        (SERVER_FIRST.replace(b"4096", b"many"), "asks for 'many' iterations"),
        (SERVER_FIRST.replace(b"4096", b"9" * 5_000), "asks for '99999999999999999999' iterations"),
        (SERVER_FIRST.replace(b"W22Z", b"!!!!"), "not Base64"),
        (SERVER_FIRST.replace(b",s=", b",x="), "no salt"),
        (b"\xff\xfe", "something else than SCRAM"),
        (b"", "does not continue ours"),
    ],
)
def test_a_server_that_cheats_is_refused(server_first: bytes, words: str) -> None:
    with pytest.raises(ScramRefused, match=words):
        vector().final(server_first)


@given(st.binary(max_size=200))
def test_no_message_of_a_server_does_more_than_be_refused(message: bytes) -> None:
    client = vector()
    with pytest.raises(ScramRefused):
        client.final(message)
    with pytest.raises(ScramRefused):
        client.check(message)


@given(st.text(min_size=1), st.text(), st.sampled_from([SHA_256, SHA_512]))
def test_a_server_that_follows_the_rfc_accepts_us_and_is_accepted(
    username: str, password: str, scram: ScramHash
) -> None:
    """The server's side, computed from what it stores: it never has the password."""
    name = scram.name
    salt, iterations = b"salt of the user", 4096
    salted = hashlib.pbkdf2_hmac(name, password.encode(), salt, iterations)
    stored_key = hashlib.new(name, hmac.digest(salted, b"Client Key", name)).digest()
    server_key = hmac.digest(salted, b"Server Key", name)

    client = ScramClient(scram, username, password, "ours")
    first = client.first().decode()
    escaped = first.removeprefix("n,,n=").rpartition(",r=")[0]
    assert escaped.replace("=2C", ",").replace("=3D", "=") == username
    server_first = f"r=ours+theirs,s={b64encode(salt).decode()},i={iterations}"
    without_proof, _, proof = client.final(server_first.encode()).decode().rpartition(",p=")
    signed = ",".join((first.removeprefix("n,,"), server_first, without_proof)).encode()
    signature = hmac.digest(stored_key, signed, name)

    client_key = bytes(a ^ b for a, b in zip(b64decode(proof), signature, strict=True))
    assert hashlib.new(name, client_key).digest() == stored_key
    client.check(b"v=" + b64encode(hmac.digest(server_key, signed, name)))
