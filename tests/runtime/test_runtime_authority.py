"""A private certificate authority in a folder, and what it signs."""

from __future__ import annotations

import os
import ssl
import stat
from pathlib import Path

import pytest
from cryptography import x509

from ottla.runtime.private_file import write_private
from ottla.runtime.tls.authority import RENEWED_BEFORE, Authority, certificate_file


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "secure"


def test_an_authority_is_kept_and_its_files_are_private(folder: Path) -> None:
    Authority.open(folder)
    first = certificate_file(folder).read_bytes()
    Authority.open(folder)
    assert certificate_file(folder).read_bytes() == first
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert {stat.S_IMODE(file.stat().st_mode) for file in folder.iterdir()} == {0o600}


def test_a_certificate_is_kept_for_the_same_hosts_only(folder: Path) -> None:
    authority = Authority.open(folder)
    path = authority.issue("node", ["localhost", "127.0.0.1"])
    first = path.read_bytes()
    assert Authority.open(folder).issue("node", ["127.0.0.1", "localhost"]).read_bytes() == first
    assert authority.issue("node", ["localhost"]).read_bytes() != first


def test_a_certificate_of_another_authority_or_a_damaged_one_is_replaced(folder: Path) -> None:
    path = Authority.open(folder).issue("node", ["localhost"])
    first = path.read_bytes()
    for file in ("ca.pem", "ca.key"):
        (folder / file).unlink()
    second = Authority.open(folder).issue("node", ["localhost"]).read_bytes()
    assert second != first
    path.write_bytes(b"damaged")
    assert Authority.open(folder).issue("node", ["localhost"]).read_bytes() not in (first, second)


def test_a_certificate_is_renewed_before_it_expires(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    authority = Authority.open(folder)
    monkeypatch.setattr("ottla.runtime.tls.authority.CERTIFICATE_DAYS", RENEWED_BEFORE.days)
    first = authority.issue("node", ["localhost"]).read_bytes()
    monkeypatch.undo()
    path = authority.issue("node", ["localhost"])
    assert path.read_bytes() != first
    found = x509.load_pem_x509_certificate(path.read_bytes())
    assert (found.not_valid_after_utc - found.not_valid_before_utc).days > RENEWED_BEFORE.days


def test_clients_that_trust_the_authority_accept_its_servers_by_name_and_address(
    folder: Path,
) -> None:
    keystore = Authority.open(folder).issue("node", ["localhost", "127.0.0.1", "::1"])
    trusting = ssl.create_default_context(cafile=certificate_file(folder))
    for host in ("localhost", "127.0.0.1", "::1"):
        assert _handshake(keystore, trusting, host)
    with pytest.raises(ssl.SSLCertVerificationError):
        _handshake(keystore, trusting, "elsewhere.example")
    with pytest.raises(ssl.SSLCertVerificationError):
        _handshake(keystore, ssl.create_default_context(), "localhost")


def test_a_private_file_replaces_a_public_one_as_a_private_one(tmp_path: Path) -> None:
    path = tmp_path / "password"
    path.write_text("old")
    os.chmod(path, 0o644)
    write_private(path, b"new")
    assert path.read_bytes() == b"new"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert list(tmp_path.iterdir()) == [path]


def _handshake(keystore: Path, client_context: ssl.SSLContext, host: str) -> bool:
    """Shake hands in memory; raise what the client objects to."""
    server_context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server_context.load_cert_chain(keystore)
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = client_context.wrap_bio(to_client, to_server, server_hostname=host)
    server = server_context.wrap_bio(to_server, to_client, server_side=True)
    waiting = [client, server]
    for _ in range(10):
        for side in list(waiting):
            try:
                side.do_handshake()
                waiting.remove(side)
            except ssl.SSLWantReadError:
                pass
        if not waiting:
            return True
    return False


def test_a_lost_certificate_is_made_anew_for_the_same_key(folder: Path) -> None:
    """Clients keep their copies of the lost one."""
    Authority.open(folder)
    copy = folder / "copy.pem"
    certificate_file(folder).rename(copy)
    issued = Authority.open(folder).issue("node", ["localhost"])
    found = x509.load_pem_x509_certificate(issued.read_bytes())
    found.verify_directly_issued_by(x509.load_pem_x509_certificate(copy.read_bytes()))


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("ca.key", None, "ca.key is missing: put it back, or remove ca.key and ca.pem"),
        ("ca.key", "", "ca.key has no key that can be read: put it back"),
        ("ca.key", "other", "ca.key is not the key of"),
        ("ca.pem", "garbage", "ca.pem is no certificate that can be read: remove it"),
    ],
)
def test_what_clients_trust_is_never_replaced_unasked(
    folder: Path, tmp_path: Path, name: str, text: str | None, said: str
) -> None:
    Authority.open(folder)
    if text is None:
        (folder / name).unlink()
    elif text == "other":
        Authority.open(tmp_path / "other")
        (tmp_path / "other" / name).replace(folder / name)
    else:
        (folder / name).write_text(text)
    with pytest.raises(ValueError, match=said):
        Authority.open(folder)


def test_a_certificate_whose_key_is_gone_or_another_one_is_replaced(folder: Path) -> None:
    authority = Authority.open(folder)
    path = authority.issue("node", ["localhost"])
    good = path.read_text()
    end = "-----END PRIVATE KEY-----\n"
    other = authority.issue("other", ["localhost"]).read_text()
    for changed in (good.partition(end)[2], other.partition(end)[0] + end + good.partition(end)[2]):
        path.write_text(changed)
        authority.issue("node", ["localhost"])
        ssl.create_default_context(ssl.Purpose.CLIENT_AUTH).load_cert_chain(path)
