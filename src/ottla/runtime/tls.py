"""TLS for clients: trusted authorities, the client's own certificate, and errors.

The stream itself is in `tls_socket`; it works over any `Socket`. `tls_material` is for nodes.
"""

from __future__ import annotations

import asyncio
import ssl
from dataclasses import dataclass
from pathlib import Path

from ottla.runtime.network import Socket
from ottla.runtime.tls_socket import TlsError, TlsSocket

Context = ssl.SSLContext


class BadTlsFile(TlsError):
    """A file of certificates or keys that does not exist or is invalid."""


@dataclass(frozen=True, slots=True)
class TlsFiles:
    """PEM files. Without `ca` the system's list of authorities is trusted."""

    ca: str | None = None
    certificate: str | None = None
    key: str | None = None
    """May be in the file of the certificate."""
    password: str | None = None
    check_hostname: bool = True


def client_context(files: TlsFiles) -> Context:
    """Read the files; raises `BadTlsFile` that names the invalid one."""
    context = ssl.create_default_context(ssl.Purpose.SERVER_AUTH)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.check_hostname = files.check_hostname
    if files.ca is not None:
        trust(context, read_pem(files.ca).decode("ascii", "ignore"), files.ca)
    if files.certificate is not None:
        _present(context, files)
    return context


def trust(context: Context, text: str, origin: str) -> None:
    """Trust the certificates of a PEM text; `origin` is where it comes from, for the message."""
    try:
        context.load_verify_locations(cadata=text)
    except (ssl.SSLError, ValueError) as error:
        raise BadTlsFile(f"{origin} holds no PEM certificates") from error


def _present(context: Context, files: TlsFiles) -> None:
    assert files.certificate is not None
    for path in filter(None, (files.certificate, files.key)):
        read_pem(path)
    try:
        # A password, even an empty one, keeps OpenSSL from asking for it at the terminal.
        context.load_cert_chain(files.certificate, files.key, files.password or "")
    except (ssl.SSLError, OSError) as error:
        key = files.key or files.certificate
        raise BadTlsFile(
            f"{files.certificate} and {key} are no certificate and its key in PEM, "
            "or the password of the key is wrong"
        ) from error


def read_pem(path: str) -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise BadTlsFile(f"cannot read {path}: {error.strerror}") from error


async def start_tls(socket: Socket, context: Context, server_name: str) -> Socket:
    """Make the TLS handshake over a connected socket and return the encrypted socket.

    Raises `TlsError` if TLS itself fails, another `OSError` if the connection does; the socket is
    then closed. The caller bounds the time.
    """
    secured = TlsSocket(socket, context, server_name, asyncio.get_running_loop())
    try:
        await secured.handshake()
    except BaseException:
        secured.close()
        raise
    return secured
