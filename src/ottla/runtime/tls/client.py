"""TLS for clients: trusted authorities, the client's own certificate, and errors.

The stream itself is in `socket`; it works over any `Socket`. `material` is for nodes.
"""

from __future__ import annotations

import asyncio
import os
import ssl
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from ottla.runtime.network import Socket
from ottla.runtime.tls.java_stores import is_store, store_as_pem
from ottla.runtime.tls.socket import BadTlsFile, TlsSocket

Context = ssl.SSLContext


@dataclass(frozen=True, slots=True)
class TlsFiles:
    """Files in PEM, or Java's stores. Without `ca` the system's list of authorities is trusted."""

    ca: str | None = None
    certificate: str | None = None
    key: str | None = None
    """May be in the file of the certificate."""
    password: str | None = field(default=None, repr=False)
    """The password of the key, or of the store with the certificate."""
    ca_password: str | None = field(default=None, repr=False)
    """The password of the store with the authorities."""
    check_hostname: bool = True


def client_context(files: TlsFiles) -> Context:
    """Read the files; raises `BadTlsFile` that names the invalid one. Authorities that are given
    take the place of the system's."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.check_hostname = files.check_hostname
    if files.ca is None:
        context.load_default_certs(ssl.Purpose.SERVER_AUTH)
    else:
        data = read_file(files.ca)
        if is_store(data):
            trust(context, store_as_pem(data, files.ca, files.ca_password or ""), files.ca)
        else:
            trust(context, data.decode("ascii", "ignore"), files.ca)
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
    data = read_file(files.certificate)
    if is_store(data):
        text = store_as_pem(data, files.certificate, files.password or "")
        with as_file(text) as path:
            _load(context, path, None, "", files.certificate)
        return
    if files.key is not None:
        read_file(files.key)
    shown = f"{files.certificate} and {files.key or files.certificate}"
    # A password, even an empty one, keeps OpenSSL from asking for it at the terminal.
    _load(context, files.certificate, files.key, files.password or "", shown)


def _load(context: Context, chain: str, key: str | None, password: str, shown: str) -> None:
    try:
        context.load_cert_chain(chain, key, password)
    except (ssl.SSLError, OSError) as error:
        raise BadTlsFile(
            f"{shown} are no certificate and its key in PEM, or the password of the key is wrong"
        ) from error


@contextmanager
def as_file(text: str) -> Iterator[str]:
    """Give the text a path for as long as it is needed. It has a private key: where the system can,
    the file is in memory only."""
    data = text.encode("ascii", "replace")
    if not hasattr(os, "memfd_create"):
        with tempfile.NamedTemporaryFile() as file:
            file.write(data)
            file.flush()
            yield file.name
        return
    descriptor = os.memfd_create("ottla-keystore")
    with os.fdopen(descriptor, "wb") as file:
        file.write(data)
        file.flush()
        yield f"/proc/self/fd/{descriptor}"


def read_file(path: str) -> bytes:
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
