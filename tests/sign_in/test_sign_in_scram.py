"""SCRAM, the server's side: against our own client's side, the example of the RFC, and lies."""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.broker.metadata.security_image import ScramCredential, ScramUser
from ottla.broker.server.sign_in.mechanisms import InvalidCredentials, Refused
from ottla.broker.server.sign_in.scram import ScramServer, ScramUsers
from ottla.broker.server.sign_in.token_credentials import TokenSignIn
from ottla.network import scram as network_scram
from ottla.network.scram import ScramClient
from ottla.security.scram import SCRAM_MECHANISMS, ScramHash

SHA_256, SHA_512 = SCRAM_MECHANISMS.values()
USERS = ScramUsers(b"secret of this broker")


def credential(
    scram: ScramHash, password: str, salt: bytes = b"salt", iterations: int = 4096
) -> ScramCredential:
    salted = scram.salted_password(password.encode(), salt, iterations)
    stored = scram.stored_key(scram.client_key(salted))
    return ScramCredential(salt, stored, scram.server_key(salted), iterations)


ALICE = {
    ("alice", scram.number): credential(scram, "right", b"\x01" * 20)
    for scram in (SHA_256, SHA_512)
}


def _no_token(token_id: str, scram: ScramHash) -> TokenSignIn:
    raise InvalidCredentials("no tokens here")


def server(
    scram: ScramHash = SHA_256, known: dict[ScramUser, ScramCredential] = ALICE, nonce: str = "N"
) -> ScramServer:
    return ScramServer(scram, USERS, known, nonce, _no_token)


def sign_in(
    server: ScramServer,
    user: str,
    password: str,
    scram: ScramHash = SHA_256,
    lie: Callable[[bytes], bytes] = lambda message: message,
) -> None:
    client = ScramClient(scram, user, password, "c")
    client.check(server.evaluate(lie(client.final(server.evaluate(client.first())))))


@pytest.mark.parametrize("scram", [SHA_256, SHA_512])
def test_the_right_password_signs_in(scram: ScramHash) -> None:
    exchange = server(scram)
    sign_in(exchange, "alice", "right", scram)
    assert exchange.is_complete
    assert exchange.user == "alice"


def test_the_example_of_the_rfc() -> None:
    user = credential(SHA_256, "pencil", b64decode("W22ZaJ0SNY7soEsUEjb6gQ=="))
    exchange = server(known={("user", 1): user}, nonce="%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0")
    first = exchange.evaluate(b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO")
    assert first == (
        b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
    )
    last = exchange.evaluate(
        b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,"
        b"p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
    )
    assert last == b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="


@given(user=st.text(st.characters(max_codepoint=127, exclude_characters="\0"), min_size=1))
def test_names_with_any_ascii_sign_in(user: str) -> None:
    exchange = server(known={(user, 1): ALICE["alice", 1]})
    sign_in(exchange, user, "right")
    assert exchange.user == user


def test_a_wrong_password_and_an_unknown_user_are_refused_at_the_same_step() -> None:
    for user in ("alice", "nobody"):
        exchange = server()
        client = ScramClient(SHA_256, user, "wrong", "c")
        final = client.final(exchange.evaluate(client.first()))
        with pytest.raises(InvalidCredentials):
            exchange.evaluate(final)
        assert not exchange.is_complete


def test_no_password_signs_in_a_user_that_does_not_exist() -> None:
    for password in ("", "right", "x"):
        with pytest.raises(InvalidCredentials):
            sign_in(server(), "nobody", password)
        with pytest.raises(InvalidCredentials):
            sign_in(server(known={}), "nobody", password)


def test_the_log_names_the_clients_that_send_their_nonce_twice() -> None:
    exchange = server()
    exchange.evaluate(b"n,,n=alice,r=c")
    with pytest.raises(InvalidCredentials, match=r"librdkafka before 2\.6\.1"):
        exchange.evaluate(b"c=biws,r=ccN,p=AAAA")
    other = server()
    other.evaluate(b"n,,n=alice,r=c")
    with pytest.raises(InvalidCredentials, match=r"final client message\.$"):
        other.evaluate(b"c=biws,r=cX,p=AAAA")


def first_of(user: str, known: dict[ScramUser, ScramCredential], users: ScramUsers) -> list[bytes]:
    answer = ScramServer(SHA_256, users, known, "N", _no_token).evaluate(
        f"n,,n={user},r=c".encode()
    )
    return answer.split(b",")[1:]


@pytest.mark.parametrize("salt", [b"\x01\xff" * 8, b"1c2d3e4f5g6h7i8j9k0labcde"])
def test_a_user_that_does_not_exist_looks_like_one_that_does(salt: bytes) -> None:
    known = {("alice", 1): credential(SHA_256, "x", salt, 5000)}
    alice, nobody = (first_of(user, known, USERS) for user in ("alice", "nobody"))
    assert alice[0] != nobody[0]
    assert alice[1] == nobody[1] == b"i=5000"
    shown = b64decode(nobody[0][2:])
    assert len(shown) == len(salt)
    assert shown.isalnum() == salt.isalnum()
    # the same at each attempt, also when others come and go, and on each broker
    more = known | {("zoe", 1): credential(SHA_256, "y", salt, 5000)}
    assert first_of("nobody", more, ScramUsers(b"another broker")) == nobody
    assert first_of("nobody2", known, USERS)[0] != nobody[0]


def test_among_users_of_several_looks_nobody_stands_out() -> None:
    salts = {"alice": b"\x01\xff" * 8, "java": b"1c2d3e4f5g6h7i8j9k0labcde"}
    known = {(user, 1): credential(SHA_256, "x", salt) for user, salt in salts.items()}
    looks = {len(b64decode(first_of(f"nobody{n}", known, USERS)[0][2:])) for n in range(50)}
    assert looks == {len(salt) for salt in salts.values()}


def changed(what: bytes, into: bytes) -> Callable[[bytes], bytes]:
    def change(message: bytes) -> bytes:
        assert what in message
        return message.replace(what, into)

    return change


@pytest.mark.parametrize(
    "lie",
    [
        changed(b"r=cN", b"r=cM"),
        changed(b"r=cN", b"r=N"),
        changed(b"c=biws", b"c=eSws"),  # signed, so the proof does not fit it
        changed(b",p=", b",x=y,p="),
        changed(b",p=", b",p=AAAA"),
        lambda message: message.partition(b",p=")[0] + b",p=" + b64encode(bytes(31)),
        lambda message: message.partition(b",p=")[0] + b",p=" + b64encode(bytes(32)),
        lambda message: message.partition(b",p=")[0],
        lambda message: b"",
        lambda message: b"\xff" * 40,
        lambda message: message + b"," * 100_000,
    ],
)
def test_a_changed_final_message_is_refused(lie: Callable[[bytes], bytes]) -> None:
    exchange = server()
    with pytest.raises(InvalidCredentials):
        sign_in(exchange, "alice", "right", lie=lie)
    assert not exchange.is_complete


@pytest.mark.parametrize(
    "first",
    [
        b"",
        b"y,,n=alice,r=c",
        b"p=tls-unique,,n=alice,r=c",
        b"n,,n=alice",
        b"n,,n=,r=c",
        b"n,,n=a=lice,r=c",
        b"n,,n=al\xc3\xa9,r=c",
        b"n,,n=alice,r=",
        b"n,,n=alice,r=c c",
        b"n,,n=alice,r=c,ext",
        b"n,,r=c,n=alice",
    ],
)
def test_a_first_message_in_another_format_is_refused(first: bytes) -> None:
    with pytest.raises(InvalidCredentials):
        server().evaluate(first)


@pytest.mark.parametrize("binding", ["y,,", "p=tls-unique,,", "n,a=bob,", ""])
def test_a_client_that_signs_another_channel_binding_is_refused(
    binding: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It knows the password: somebody between it and the broker may have changed its messages."""
    client, exchange = ScramClient(SHA_256, "alice", "right", "c"), server()
    first = exchange.evaluate(client.first())
    monkeypatch.setattr(network_scram, "NO_CHANNEL_BINDING", binding)
    with pytest.raises(InvalidCredentials, match="channel binding"):
        exchange.evaluate(client.final(first))


def test_extensions_are_passed_over() -> None:
    server().evaluate(b"n,a=alice,m=x,n=alice,r=c,tokenauthX=true,b=2")


def test_another_authorization_id_is_refused() -> None:
    with pytest.raises(Refused, match="authorization id that is different from username"):
        server().evaluate(b"n,a=bob,n=alice,r=c")


def test_a_credential_of_too_few_iterations_is_of_no_use() -> None:
    known = {("alice", 1): credential(SHA_256, "right", iterations=4095)}
    with pytest.raises(InvalidCredentials, match="4095 is less than the minimum 4096"):
        server(known=known).evaluate(b"n,,n=alice,r=c")
