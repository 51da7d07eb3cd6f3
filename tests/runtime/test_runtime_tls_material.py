"""Key material of nodes: which PEM texts can be used, and what is said about the others."""

from __future__ import annotations

import ssl
from dataclasses import replace
from pathlib import Path

import pytest

from ottla.runtime.tls.material import check_trusts_itself, load_material
from ottla.runtime.tls.settings import Pem, TlsSettings
from ottla.runtime.tls.socket import BadTlsFile
from tls_files import PASSWORD, Authority

HOSTS = "DNS:localhost,IP:127.0.0.1"
LOCATION = "ssl.keystore.location"


class Stores:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.authority = Authority(folder / "ours")
        own = self.authority.sign("node", HOSTS)
        self.key, self.chain = own.key.read_text(), own.certificate.read_text()
        sealed = self.authority.sign("sealed", HOSTS, password=PASSWORD)
        self.sealed = sealed.key.read_text() + sealed.certificate.read_text()
        self.other_key = self.authority.sign("other", HOSTS).key.read_text()
        self.stranger = Authority(folder / "theirs", "stranger")

    def settings(self, text: str, **changes: object) -> TlsSettings:
        path = self.folder / "keystore.pem"
        path.write_text(text)
        trusted = Pem("ssl.truststore.location", path=str(self.authority.certificate))
        made = TlsSettings(Pem(LOCATION, path=str(path)), "", "ssl.key.password", trusted)
        return replace(made, **changes)  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def stores(tmp_path_factory: pytest.TempPathFactory) -> Stores:
    return Stores(tmp_path_factory.mktemp("stores"))


def test_key_and_chain_may_come_in_any_order_and_with_notes(stores: Stores) -> None:
    noted = f"Bag Attributes\n  friendlyName: n\u00f6de\n{stores.chain}\n{stores.key}"
    for text in (stores.key + stores.chain, noted):
        made = load_material(stores.settings(text))
        assert made.server is not None
        assert made.certificate == ssl.PEM_cert_to_DER_cert(stores.chain)
        check_trusts_itself(made)


def test_pem_text_may_have_blanks_for_line_ends(stores: Stores) -> None:
    text = (stores.key + stores.chain).replace("\n", " ")
    inline = Pem("ssl.keystore.key", text=text)
    assert load_material(stores.settings("", identity=inline)).server is not None


def test_an_encrypted_key_is_opened_with_its_password(stores: Stores) -> None:
    made = load_material(stores.settings(stores.sealed, key_password=PASSWORD))
    assert made.server is not None
    assert PASSWORD not in repr(made)


def test_a_node_without_a_certificate_can_still_connect(stores: Stores) -> None:
    made = load_material(stores.settings("", identity=None))
    assert made.server is None
    assert made.client.verify_mode is ssl.CERT_REQUIRED


def test_what_the_file_lacks_is_said_with_its_name(stores: Stores) -> None:
    other_key = stores.other_key + stores.chain
    for text, password, part in (
        (stores.chain, "", "has no private key: put the key and the certificates"),
        (stores.key, "", "has no certificate: put the key and the certificates"),
        ("", "", "has no private key"),
        (stores.sealed, "", "if it is encrypted, set ssl.key.password"),
        (stores.sealed, "wrong", "does ssl.key.password have its password?"),
        (other_key, "", "the private key is not that of the first certificate"),
    ):
        settings = stores.settings(text, key_password=password)
        with pytest.raises(BadTlsFile) as caught:
            load_material(settings)
        message = str(caught.value)
        assert part in message
        assert f"{LOCATION} ({stores.folder}/keystore.pem)" in message
        assert "wrong" not in message


def test_a_weak_certificate_is_refused_with_what_to_do(stores: Stores) -> None:
    weak = stores.authority.sign("weak", HOSTS, digest="sha1")
    text = weak.key.read_text() + weak.certificate.read_text()
    with pytest.raises(BadTlsFile, match=r"too weak.*RSA of 2048 bits.*SHA-256"):
        load_material(stores.settings(text))


def test_an_absent_file_and_a_truststore_without_certificates_are_named(stores: Stores) -> None:
    text = stores.key + stores.chain
    absent = Pem(LOCATION, path="/nowhere/own.pem")
    with pytest.raises(BadTlsFile, match=rf"{LOCATION}: cannot read /nowhere/own.pem: No such"):
        load_material(stores.settings(text, identity=absent))
    empty = Pem("ssl.truststore.certificates", text="nothing")
    with pytest.raises(BadTlsFile, match=r"ssl\.truststore\.certificates has no certificate"):
        load_material(stores.settings(text, trusted=empty))


def test_a_certificate_that_other_nodes_would_not_trust_is_refused(stores: Stores) -> None:
    theirs = Pem("ssl.truststore.location", path=str(stores.stranger.certificate))
    made = load_material(stores.settings(stores.key + stores.chain, trusted=theirs))
    with pytest.raises(BadTlsFile, match=r"other nodes would not trust.*stranger\.pem\): add the"):
        check_trusts_itself(made)
    assert made.client.check_hostname


def test_versions_and_suites_are_those_allowed(stores: Stores) -> None:
    text = stores.key + stores.chain
    made = load_material(
        stores.settings(
            text,
            versions=frozenset({"TLSv1.2"}),
            cipher_suites=("ECDHE-ECDSA-AES128-GCM-SHA256",),
            client_auth="required",
        )
    )
    assert made.server is not None
    assert made.server.maximum_version is ssl.TLSVersion.TLSv1_2
    assert made.server.verify_mode is ssl.CERT_REQUIRED
    old = [one["name"] for one in made.server.get_ciphers() if one["protocol"] != "TLSv1.3"]
    assert old == ["ECDHE-ECDSA-AES128-GCM-SHA256"]
