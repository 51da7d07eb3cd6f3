"""The `ssl.*` keys of a listener: which value is in force, and what is refused."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping

import pytest

from ottla.config.broker import BrokerConfig
from ottla.config.definitions.tls import KEYS
from ottla.config.errors import ConfigError
from ottla.config.security.cipher_suites import TLS_1_3, openssl_name
from ottla.config.security.listener_keys import ListenerKeys
from ottla.config.security.tls import tls_settings
from ottla.runtime.tls.settings import TlsSettings

SECRET = "open sesame"
FILES = {
    "ssl.keystore.type": "PEM",
    "ssl.keystore.location": "/etc/own.pem",
    "ssl.truststore.type": "PEM",
    "ssl.truststore.location": "/etc/ca.pem",
}


def settings(given: Mapping[str, str], *, is_server: bool = True) -> TlsSettings:
    config = BrokerConfig.parse(given)
    values = {name: config[name] for name in config._values}
    return tls_settings(ListenerKeys("Clients", KEYS, values, [given]), is_server=is_server)


def refusal(given: Mapping[str, str]) -> str:
    with pytest.raises(ConfigError) as caught:
        settings(given)
    return str(caught.value)


def test_files_and_defaults_are_kafkas() -> None:
    tls = settings(FILES)
    assert tls.identity is not None
    assert tls.trusted is not None
    assert (tls.identity.path, tls.trusted.path) == ("/etc/own.pem", "/etc/ca.pem")
    assert tls.client_auth == "none"
    assert tls.versions == {"TLSv1.2", "TLSv1.3"}
    assert tls.checks_hostname
    assert not tls.cipher_suites


def test_a_listeners_own_value_comes_before_the_brokers() -> None:
    own = {
        "listener.name.clients.ssl.keystore.location": "/etc/clients.pem",
        "listener.name.clients.ssl.client.auth": "required",
        "listener.name.others.ssl.client.auth": "requested",
    }
    tls = settings(FILES | own)
    assert tls.identity is not None
    assert str(tls.identity) == ("listener.name.clients.ssl.keystore.location (/etc/clients.pem)")
    assert tls.client_auth == "required"


def test_pem_text_needs_no_file_and_is_never_shown() -> None:
    inline = {
        "ssl.keystore.type": "PEM",
        "ssl.keystore.key": "a key",
        "ssl.keystore.certificate.chain": "a chain",
        "ssl.key.password": SECRET,
        "ssl.truststore.type": "PEM",
        "ssl.truststore.certificates": "an authority",
    }
    tls = settings(inline)
    assert tls.identity is not None
    assert tls.identity.text == "a key\na chain\n"
    assert not tls.files
    for secret in ("a key", "a chain", SECRET):
        assert secret not in repr(tls)


@pytest.mark.parametrize(
    ("changes", "part"),
    [
        ({"ssl.keystore.location": ""}, "an SSL listener needs a private key and a certificate"),
        ({"ssl.keystore.type": "PKCS12"}, "ssl.keystore.password: must be set for /etc/own.pem"),
        ({"ssl.keystore.type": "BCFKS"}, "expected PEM or PKCS12"),
        ({"ssl.keystore.password": SECRET}, "set ssl.key.password"),
        ({"ssl.truststore.password": SECRET}, "a PEM file has none"),
        ({"ssl.truststore.certificates": "text"}, "give either this file or the PEM text"),
        (
            {"ssl.keystore.location": "", "ssl.keystore.key": SECRET},
            "ssl.keystore.certificate.chain: must be set too",
        ),
        ({"ssl.enabled.protocols": "TLSv1.1"}, "expected TLSv1.2 or TLSv1.3"),
        ({"ssl.cipher.suites": "TLS_WHAT"}, "expected Java's name of a suite"),
        ({"ssl.cipher.suites": "TLS_AES_128_GCM_SHA256"}, "name all three"),
        (
            {
                "ssl.cipher.suites": "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256",
                "ssl.enabled.protocols": "TLSv1.3",
            },
            "none of these suites is for TLSv1.3",
        ),
        ({"ssl.endpoint.identification.algorithm": "ldaps"}, "expected https"),
        ({"ssl.engine.factory.class": "a.B"}, "classes of Java cannot be used"),
        ({"ssl.principal.mapping.rules": "RULE:what"}, "expected DEFAULT or RULE"),
    ],
)
def test_what_cannot_be_used_is_refused_with_what_to_do(
    changes: Mapping[str, str], part: str
) -> None:
    message = refusal(FILES | changes)
    assert part in message
    assert SECRET not in message


@pytest.mark.parametrize("kind", ["PKCS12", "JKS"])  # JKS is what Kafka assumes if none is given
def test_stores_of_java_have_passwords_that_are_never_shown(kind: str) -> None:
    given = {"ssl.keystore.type": kind, "ssl.keystore.password": SECRET}
    tls = settings(FILES | given | {"ssl.truststore.type": kind})
    assert tls.identity is not None
    assert tls.trusted is not None
    assert (tls.identity.store_password, tls.trusted.store_password) == (SECRET, "")
    assert SECRET not in repr(tls)


def test_a_node_needs_no_certificate_to_talk_to_others() -> None:
    tls = settings({}, is_server=False)
    assert tls.identity is None
    assert tls.trusted is None


@pytest.mark.parametrize(
    ("suites", "versions"),
    [
        ("TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256", {"TLSv1.2"}),
        (",".join(sorted(TLS_1_3)), {"TLSv1.3"}),
        (",".join([*TLS_1_3, "TLS_RSA_WITH_AES_128_CBC_SHA"]), {"TLSv1.2", "TLSv1.3"}),
    ],
)
def test_versions_without_a_suite_are_not_offered(suites: str, versions: set[str]) -> None:
    assert settings(FILES | {"ssl.cipher.suites": suites}).versions == versions


def test_suites_have_the_names_that_openssl_gives_them() -> None:
    listing = subprocess.run(
        ["openssl", "ciphers", "-stdname", "ALL"], capture_output=True, text=True, check=True
    ).stdout
    known = {line.split()[0]: line.split()[2] for line in listing.splitlines()}
    translated = {name: openssl_name(name) for name in known}
    wrong = {
        name: (ours, known[name])
        for name, ours in translated.items()
        if ours is not None and ours != known[name]
    }
    assert not wrong
    assert sum(ours is not None for ours in translated.values()) > 30
