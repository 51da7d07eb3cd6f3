"""Java's stores of keys and certificates: what openssl and keytool write can be read."""

from __future__ import annotations

import re
import shutil
import ssl
import subprocess
from pathlib import Path

import pytest

from ottla.runtime.tls.java_stores import STORE_SIZE_MAX, store_as_pem
from ottla.runtime.tls.material import check_trusts_itself, load_material
from ottla.runtime.tls.settings import Pem, TlsSettings
from ottla.runtime.tls.socket import BadTlsFile
from tls_files import PASSWORD, Authority, Certificate

needs_keytool = pytest.mark.skipif(shutil.which("keytool") is None, reason="there is no keytool")


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("stores"))


@pytest.fixture(scope="module")
def own(authority: Authority) -> Certificate:
    return authority.sign("node", "DNS:localhost,IP:127.0.0.1")


def keytool(*arguments: str | Path) -> None:
    line = ["keytool", *map(str, arguments), "-storepass", PASSWORD, "-noprompt"]
    done = subprocess.run(line, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr


def refusal(data: bytes, password: str = PASSWORD) -> str:
    with pytest.raises(BadTlsFile) as caught:
        store_as_pem(data, "/etc/own.jks", password)
    assert PASSWORD not in str(caught.value)
    return str(caught.value)


def test_a_node_uses_the_key_and_the_authorities_of_a_store(
    authority: Authority, own: Certificate
) -> None:
    path = str(authority.store(own, PASSWORD))
    stored = Pem("ssl.keystore.location", path=path, store_password=PASSWORD)
    trusted = Pem("ssl.truststore.location", path=path, store_password=PASSWORD)
    made = load_material(TlsSettings(stored, "", "ssl.key.password", trusted))
    assert made.certificate == ssl.PEM_cert_to_DER_cert(own.certificate.read_text())
    check_trusts_itself(made)
    assert PASSWORD not in repr(made)


def test_a_certificate_comes_before_those_that_signed_it(
    authority: Authority, own: Certificate
) -> None:
    text = store_as_pem(authority.store(own, PASSWORD).read_bytes(), "own.p12", PASSWORD)
    found = re.findall("-----BEGIN CERTIFICATE.*?-----END CERTIFICATE-----", text, re.DOTALL)
    expected = [own.certificate.read_text(), authority.certificate.read_text()]
    assert list(map(ssl.PEM_cert_to_DER_cert, found)) == list(
        map(ssl.PEM_cert_to_DER_cert, expected)
    )


@needs_keytool
def test_a_truststore_of_keytool_gives_its_authorities(
    authority: Authority, tmp_path: Path
) -> None:
    path = tmp_path / "trust.jks"  # PKCS12 inside, as keytool writes by default
    keytool("-importcert", "-alias", "ca", "-file", authority.certificate, "-keystore", path)
    text = store_as_pem(path.read_bytes(), str(path), PASSWORD)
    expected = ssl.PEM_cert_to_DER_cert(authority.certificate.read_text())
    assert ssl.PEM_cert_to_DER_cert(text) == expected


@needs_keytool
def test_jks_is_refused_with_the_line_that_converts_it(
    authority: Authority, tmp_path: Path
) -> None:
    path = tmp_path / "old.jks"
    keytool(
        *("-importcert", "-alias", "ca", "-file", authority.certificate),
        *("-keystore", path, "-storetype", "JKS"),
    )
    message = refusal(path.read_bytes())
    line = "keytool -importkeystore -srckeystore /etc/own.jks -destkeystore /etc/own.jks.p12 "
    assert line + "-deststoretype PKCS12" in message


def test_files_that_are_no_stores_are_refused(authority: Authority, own: Certificate) -> None:
    store = authority.store(own, PASSWORD).read_bytes()
    assert "the password of the store is wrong" in refusal(store, "another")
    assert "the password of the store is wrong" in refusal(store, "")
    assert "no PKCS12 store" in refusal(store[:-100])
    assert "no PKCS12 store" in refusal(b"\x00\x01")
    assert "set the type of the store to PEM" in refusal(own.certificate.read_bytes())
    assert "more than 16 MB" in refusal(bytes(STORE_SIZE_MAX + 1))
