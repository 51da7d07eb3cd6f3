"""A private certificate authority in a folder, and the certificates that it signs.

ca.pem       its certificate, which clients trust
ca.key       its private key
NAME.pem     a private key and its certificate, as `ssl.keystore.location` takes them
"""

from __future__ import annotations

import datetime
import ipaddress
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from ottla.runtime.private_file import write_private

AUTHORITY_DAYS: Final = 3650
CERTIFICATE_DAYS: Final = 397
RENEWED_BEFORE: Final = datetime.timedelta(days=30)
_WHAT_TO_DO: Final = "put it back, or remove ca.key and ca.pem; then clients need the new ca.pem"
_CLOCKS_DIFFER: Final = datetime.timedelta(hours=1)


class Authority:
    def __init__(
        self, folder: Path, certificate: x509.Certificate, key: ec.EllipticCurvePrivateKey
    ) -> None:
        self._folder = folder
        self._certificate = certificate
        self._key = key

    @classmethod
    def open(cls, folder: Path) -> Authority:
        """Read the authority of a folder, or make one. Raises ValueError if a file is damaged, or
        if the key is missing and clients may trust it."""
        has_certificate = certificate_file(folder).exists()
        if not _key_file(folder).exists():
            if has_certificate:
                raise ValueError(f"{_key_file(folder)} is missing: {_WHAT_TO_DO}")
            return cls._make(folder, ec.generate_private_key(ec.SECP256R1()))
        key = _load_key(_key_file(folder))
        if not has_certificate:
            # Copies of the lost one stay valid, as the name and the key are the same.
            return cls._make(folder, key)
        certificate = _load_certificate(certificate_file(folder))
        if certificate.public_key() != key.public_key():
            raise ValueError(
                f"{_key_file(folder)} is not the key of {certificate_file(folder)}: {_WHAT_TO_DO}"
            )
        return cls(folder, certificate, key)

    @classmethod
    def _make(cls, folder: Path, key: ec.EllipticCurvePrivateKey) -> Authority:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        name = _name("Ottla's authority of this folder")
        certificate = (
            _builder(name, name, key.public_key(), AUTHORITY_DAYS)
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(_key_usage(signs_certificates=True), critical=True)
            .add_extension(
                x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False
            )
            .sign(key, hashes.SHA256())
        )
        # The certificate is written last: without it the authority is made anew.
        write_private(_key_file(folder), _key_text(key))
        write_private(certificate_file(folder), _text(certificate))
        return cls(folder, certificate, key)

    def issue(self, name: str, hosts: Iterable[str]) -> Path:
        """Return the keystore of a node. It is kept until it is about to expire, is for other
        hosts, or is another authority's."""
        path = self._folder / f"{name}.pem"
        wanted = x509.SubjectAlternativeName(sorted(map(_alternative_name, set(hosts)), key=str))
        if not self._is_good(path, wanted):
            self._write(path, name, wanted)
        return path

    def _is_good(self, path: Path, names: x509.SubjectAlternativeName) -> bool:
        try:
            found = x509.load_pem_x509_certificate(path.read_bytes())
            if _load_key(path).public_key() != found.public_key():
                return False
            found.verify_directly_issued_by(self._certificate)
            own = found.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        except (OSError, ValueError, TypeError, InvalidSignature, x509.ExtensionNotFound):
            return False
        now = datetime.datetime.now(datetime.UTC)
        return own == names and now + RENEWED_BEFORE < found.not_valid_after_utc

    def _write(self, path: Path, name: str, names: x509.SubjectAlternativeName) -> None:
        key = ec.generate_private_key(ec.SECP256R1())
        usages = [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
        certificate = (
            _builder(_name(name), self._certificate.subject, key.public_key(), CERTIFICATE_DAYS)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(_key_usage(signs_certificates=False), critical=True)
            .add_extension(x509.ExtendedKeyUsage(usages), critical=False)
            .add_extension(names, critical=False)
            .add_extension(
                x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key()),
                critical=False,
            )
            .sign(self._key, hashes.SHA256())
        )
        write_private(path, _key_text(key) + _text(certificate))


def certificate_file(folder: Path) -> Path:
    """Return the file with the authority's certificate."""
    return folder / "ca.pem"


def _key_file(folder: Path) -> Path:
    return folder / "ca.key"


def _load_key(path: Path) -> ec.EllipticCurvePrivateKey:
    try:
        key = serialization.load_pem_private_key(path.read_bytes(), password=None)
    except (ValueError, TypeError):
        raise ValueError(f"{path} has no key that can be read: {_WHAT_TO_DO}") from None
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise ValueError(f"{path} is not the key that was written there: {_WHAT_TO_DO}")
    return key


def _load_certificate(path: Path) -> x509.Certificate:
    try:
        return x509.load_pem_x509_certificate(path.read_bytes())
    except ValueError:
        raise ValueError(
            f"{path} is no certificate that can be read: remove it, and it is made anew"
        ) from None


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def _alternative_name(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey, days: int
) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _CLOCKS_DIFFER)
        .not_valid_after(now + datetime.timedelta(days=days))
    )


def _key_usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        encipher_only=False,
        decipher_only=False,
    )


def _key_text(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )


def _text(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)
