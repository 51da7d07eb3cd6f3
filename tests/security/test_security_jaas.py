"""JAAS lines are read as Java's tokenizer reads them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.security.jaas import BadJaas, parse_jaas
from sasl_broker import PLAIN_MODULE, plain_users


def test_a_module_with_its_options_is_read() -> None:
    entry = parse_jaas(
        f'{PLAIN_MODULE} required\n  username="admin" password=\'a "b"\' '
        'user_alice="x\\"y\\\\z\\tw\\101" serviceName=kafka.$x-y_z // the end\n;'
    )
    assert entry.module == PLAIN_MODULE
    assert entry.options == {
        "username": "admin",
        "password": 'a "b"',
        "user_alice": 'x"y\\z\twA',
        "serviceName": "kafka.$x-y_z",
    }


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "Login module not specified"),
        ("M", "control flag not specified"),
        ("M always;", "a control flag must follow"),
        ("M required", "not terminated by semi-colon"),
        ('M required password="secret"', "not terminated by semi-colon"),
        ("M required password=1secret;", "Value not specified for key 'password'"),
        ("M required password secret;", "Value not specified for key 'password'"),
        ("M required password=;", "Value not specified for key 'password'"),
        ("M required a=b; N required c=d;", "contains 2 login modules"),
        ("; M required;", "must begin with the class"),
        ("M required x=secret/y;", "not terminated by semi-colon"),  # a comment, as in Java
    ],
)
def test_what_kafka_cannot_read_is_refused_without_showing_it(text: str, reason: str) -> None:
    with pytest.raises(BadJaas, match=reason) as caught:
        parse_jaas(text)
    assert "secret" not in str(caught.value)


@given(st.dictionaries(st.from_regex(r"[a-z]{1,8}", fullmatch=True), st.text().filter(bool)))
def test_any_password_in_quotes_is_read(users: dict[str, str]) -> None:
    users = {name: text.replace("\n", "").replace("\r", "") for name, text in users.items()}
    entry = parse_jaas(plain_users(users))
    assert entry.options == {f"user_{name}": text for name, text in users.items()}


@given(st.text(alphabet="MN required=;\"'\\/*\n1.-x"))
def test_no_text_does_more_than_be_refused(text: str) -> None:
    try:
        parse_jaas(text)
    except BadJaas:
        pass


def test_no_value_shows_in_a_repr() -> None:
    assert "secret" not in repr(parse_jaas('M required password="secret";'))
