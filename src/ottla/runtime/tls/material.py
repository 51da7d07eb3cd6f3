"""TLS for nodes: contexts for a listener and for connections to other nodes.

What OpenSSL wants as a file is given to it in memory, so that text from a setting and text from a
file go the same way, and what was checked is what is used.
"""

from __future__ import annotations

import os
import re
import ssl
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from ottla.runtime.tls.client import Context, as_file, read_file, trust
from ottla.runtime.tls.java_stores import store_as_pem
from ottla.runtime.tls.settings import Pem, TlsSettings
from ottla.runtime.tls.socket import BadTlsFile

_BLOCK: Final = r"-----BEGIN ([A-Z0-9 ]+)-----(.*?)-----END \1-----"
_BASE64: Final = r"[A-Za-z0-9+/=\s]+"
_LINE_LENGTH: Final = 64
_CERTIFICATE: Final = "CERTIFICATE"
_PRIVATE_KEY: Final = "PRIVATE KEY"
_VERIFY_MODES: Final = {
    "none": ssl.CERT_NONE,
    "requested": ssl.CERT_OPTIONAL,
    "required": ssl.CERT_REQUIRED,
}
_VERSIONS: Final = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}
_HANDSHAKE_STEPS_MAX: Final = 10


@dataclass(frozen=True, slots=True)
class TlsMaterial:
    """The contexts made from settings, and from the files at that time."""

    settings: TlsSettings
    server: Context | None
    """None without a certificate."""
    client: Context
    """For connections to other nodes."""
    certificate: bytes
    """The node's own certificate in DER; empty without one."""
    texts: tuple[str, ...] = field(repr=False)
    """The texts they were made from: the same texts give the same contexts."""


FileStates: TypeAlias = dict[str, tuple[int, int, int] | None]
"""Path -> inode, size and time of the last change; None for a file that cannot be looked at."""


def states_of_files(paths: Iterable[str]) -> FileStates:
    """Return what differs when a file was replaced or written."""
    return {path: _state(path) for path in paths}


def _state(path: str) -> tuple[int, int, int] | None:
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_ino, found.st_size, found.st_mtime_ns


def load_material(settings: TlsSettings, now: TlsMaterial | None = None) -> TlsMaterial:
    """Read the files; raises `BadTlsFile`, which names the setting, the file and what to do.
    Returns `now` if that was made from the same settings and texts."""
    identity = _normal(_text(settings.identity)) if settings.identity else ""
    trusted = _normal(_text(settings.trusted)) if settings.trusted else ""
    if now is not None and now.settings == settings and now.texts == (identity, trusted):
        return now
    client = _context(settings, ssl.PROTOCOL_TLS_CLIENT, trusted)
    client.check_hostname = settings.checks_hostname
    client.verify_mode = ssl.CERT_REQUIRED
    server = None
    certificate = b""
    if settings.identity is not None:
        certificate = _own_certificate(settings.identity, identity)
        server = _context(settings, ssl.PROTOCOL_TLS_SERVER, trusted)
        server.verify_mode = _VERIFY_MODES[settings.client_auth]
        server.options |= ssl.OP_NO_RENEGOTIATION | ssl.OP_CIPHER_SERVER_PREFERENCE
        with as_file(identity) as path:
            for context in (server, client):
                _present(context, path, settings, settings.identity)
    return TlsMaterial(settings, server, client, certificate, (identity, trusted))


def check_trusts_itself(material: TlsMaterial) -> None:
    """Raise `BadTlsFile` unless nodes with this material can talk to each other: it makes a
    handshake of the two contexts in memory."""
    identity = material.settings.identity
    if material.server is None or identity is None:
        return
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    server = material.server.wrap_bio(to_server, to_client, server_side=True)
    # Not by its name: which one the others use is unknown here.
    name = "localhost" if material.client.check_hostname else None
    material.client.check_hostname = False
    client = material.client.wrap_bio(to_client, to_server, server_hostname=name)
    material.client.check_hostname = material.settings.checks_hostname
    waiting = [client, server]
    for _ in range(_HANDSHAKE_STEPS_MAX):
        for side in list(waiting):
            try:
                side.do_handshake()
                waiting.remove(side)
            except ssl.SSLWantReadError:
                pass
            except ssl.SSLError as error:
                reason = getattr(error, "verify_message", "") or (error.reason or str(error))
                store = material.settings.trusted or "the system's list of authorities"
                raise BadTlsFile(
                    f"{identity}: other nodes would not trust this certificate "
                    f"({reason}); nodes trust {store}: add the authority that signed the "
                    "certificate"
                ) from error


def _text(pem: Pem) -> str:
    if pem.text:
        return pem.text
    try:
        data = read_file(pem.path)
    except BadTlsFile as error:
        raise BadTlsFile(f"{pem.setting}: {error}; give the path of a readable file") from error
    if pem.store_password is None:
        return data.decode("ascii", "ignore")
    try:
        return store_as_pem(data, pem.path, pem.store_password)
    except BadTlsFile as error:
        raise BadTlsFile(f"{pem.setting}: {error}") from error


def _normal(text: str) -> str:
    """Return the blocks of a PEM text, each line where OpenSSL wants it. Settings may have blanks
    in place of line ends."""
    blocks = []
    for label, body in re.findall(_BLOCK, text, re.DOTALL):
        if re.fullmatch(_BASE64, body):
            data = "".join(body.split())
            lines = [data[at : at + _LINE_LENGTH] for at in range(0, len(data), _LINE_LENGTH)]
            body = "\n" + "\n".join(lines) + "\n"
        blocks.append(f"-----BEGIN {label}-----{body}-----END {label}-----\n")
    return "".join(blocks)


def _labels(text: str) -> list[str]:
    return [label for label, _ in re.findall(_BLOCK, text, re.DOTALL)]


def _own_certificate(pem: Pem, text: str) -> bytes:
    labels = _labels(text)
    if not any(label.endswith(_PRIVATE_KEY) for label in labels):
        raise BadTlsFile(
            f"{pem} has no private key: put the key and the certificates into one PEM file, "
            "`cat key.pem chain.pem > keystore.pem`"
        )
    if _CERTIFICATE not in labels:
        raise BadTlsFile(
            f"{pem} has no certificate: put the key and the certificates into one PEM file, "
            "`cat key.pem chain.pem > keystore.pem`"
        )
    try:
        start = text.index(f"-----BEGIN {_CERTIFICATE}-----")
        end = text.index("-----END", start)
        return ssl.PEM_cert_to_DER_cert(f"{text[start:end]}-----END {_CERTIFICATE}-----")
    except ValueError as error:
        raise BadTlsFile(f"{pem}: its first certificate is damaged; copy the file again") from error


def _context(settings: TlsSettings, protocol: int, trusted: str) -> Context:
    context = ssl.SSLContext(protocol)
    context.minimum_version = min(_VERSIONS[version] for version in settings.versions)
    context.maximum_version = max(_VERSIONS[version] for version in settings.versions)
    # A certificate that is itself in the truststore is trusted, as in Java.
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    if settings.cipher_suites:
        try:
            context.set_ciphers(":".join(settings.cipher_suites))
        except ssl.SSLError as error:
            raise BadTlsFile(
                "ssl.cipher.suites: this machine's OpenSSL has none of these suites; "
                "`openssl ciphers -stdname` lists those that it has"
            ) from error
    if settings.trusted is not None:
        if _CERTIFICATE not in _labels(trusted):
            raise BadTlsFile(
                f"{settings.trusted} has no certificate: give a PEM file with the certificates of "
                "the authorities to trust"
            )
        trust(context, trusted, str(settings.trusted))
    else:
        server_side = protocol == ssl.PROTOCOL_TLS_SERVER
        context.load_default_certs(
            ssl.Purpose.CLIENT_AUTH if server_side else ssl.Purpose.SERVER_AUTH
        )
    return context


def _present(context: Context, path: str, settings: TlsSettings, pem: Pem) -> None:
    try:
        # A password, even an empty one, keeps OpenSSL from asking for it at the terminal.
        context.load_cert_chain(path, password=settings.key_password)
    except (ssl.SSLError, OSError) as error:
        raise BadTlsFile(_why_unusable(error, settings, pem)) from error


def _why_unusable(error: OSError, settings: TlsSettings, pem: Pem) -> str:
    reason = getattr(error, "reason", None) or ""
    if reason == "KEY_VALUES_MISMATCH":
        return (
            f"{pem}: the private key is not that of the first certificate; the node's own "
            "certificate must come first, then those that signed it"
        )
    if reason == "EE_KEY_TOO_SMALL" or reason.endswith(("TOO_WEAK", "TOO_SMALL")):
        return (
            f"{pem}: OpenSSL refuses the certificate as too weak: make one whose key is at least "
            "RSA of 2048 bits or EC of 256, and which is signed with SHA-256 or better"
        )
    if settings.key_password:
        return (
            f"{pem}: the private key cannot be read; does {settings.key_password_setting} have its "
            "password?"
        )
    return (
        f"{pem}: the private key cannot be read; if it is encrypted, set "
        f"{settings.key_password_setting}"
    )
