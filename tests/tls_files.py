"""Throw-away certificates for tests, made with the openssl command."""

from __future__ import annotations

import ssl
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TypeAlias

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

Days: TypeAlias = float

PASSWORD = "open sesame"
VALID_DAYS = "2"


@dataclass(frozen=True)
class Certificate:
    certificate: Path
    key: Path


class Authority:
    """One that signs whatever it is asked to."""

    def __init__(self, folder: Path, name: str = "authority") -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder
        self._name = name
        self.certificate = folder / f"{name}.pem"
        self._key = folder / f"{name}.key"
        _openssl(
            *("req", "-x509", "-nodes", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"),
            *("-keyout", self._key, "-out", self.certificate, "-days", VALID_DAYS),
            *("-subj", f"/CN={name}", "-addext", "keyUsage=critical,keyCertSign"),
        )

    @property
    def itself(self) -> Certificate:
        """Return its own certificate, which it signed itself."""
        return Certificate(self.certificate, self._key)

    def sign(
        self, name: str, hosts: str = "", *, password: str | None = None, digest: str = "sha256"
    ) -> Certificate:
        """For `hosts` like "DNS:localhost,IP:127.0.0.1"; the key encrypted if there is a
        password."""
        made = Certificate(self._folder / f"{name}.pem", self._folder / f"{name}.key")
        request = self._folder / f"{name}.csr"
        secret = ("-passout", f"pass:{password}") if password else ("-nodes",)
        _openssl(
            *("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", *secret),
            *("-keyout", made.key, "-out", request, "-subj", f"/CN={name}"),
        )
        extensions = self._folder / f"{name}.ext"
        extensions.write_text(f"subjectAltName={hosts}\n" if hosts else "keyUsage=digitalSignature")
        _openssl(
            *("x509", "-req", "-in", request, "-CA", self.certificate, "-CAkey", self._key),
            *("-CAcreateserial", "-days", VALID_DAYS, f"-{digest}", "-out", made.certificate),
            *("-extfile", extensions),
        )
        return made

    def sign_between(self, name: str, hosts: Sequence[str], begin: Days, end: Days) -> Certificate:
        """Sign a certificate that is valid from so many days from now to so many."""
        signer = serialization.load_pem_private_key(self._key.read_bytes(), None)
        assert isinstance(signer, ec.EllipticCurvePrivateKey)
        own = x509.load_pem_x509_certificate(self.certificate.read_bytes())
        key, now = ec.generate_private_key(ec.SECP256R1()), datetime.now(UTC)
        builder = x509.CertificateBuilder(
            own.subject,
            x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)]),
            key.public_key(),
            x509.random_serial_number(),
            now + timedelta(days=begin),
            now + timedelta(days=end),
        ).add_extension(x509.SubjectAlternativeName(map(x509.DNSName, hosts)), critical=False)
        made = Certificate(self._folder / f"{name}.pem", self._folder / f"{name}.key")
        pem = serialization.Encoding.PEM
        made.certificate.write_bytes(builder.sign(signer, hashes.SHA256()).public_bytes(pem))
        made.key.write_bytes(
            key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
        )
        return made

    def store(self, own: Certificate, password: str) -> Path:
        """Return a PKCS12 store with the certificate, its key, and this authority."""
        path = own.certificate.with_suffix(".p12")
        _openssl(
            *("pkcs12", "-export", "-in", own.certificate, "-inkey", own.key, "-name", "own"),
            *("-certfile", self.certificate, "-passout", f"pass:{password}", "-out", path),
        )
        return path

    def server_context(self, own: Certificate, *, asks_clients: bool = False) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(own.certificate, own.key)
        if asks_clients:
            context.verify_mode = ssl.CERT_REQUIRED
            context.load_verify_locations(self.certificate)
        return context


def _openssl(*arguments: str | Path) -> None:
    line = ["openssl", *map(str, arguments)]
    done = subprocess.run(line, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, f"{' '.join(line)}: {done.stderr}"
