"""Brokers with TLS listeners, and the files that they and their clients need."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Mapping
from pathlib import Path

from bench.brokers import HOST, Ottla, free_port

from broker_wire import Wire
from tls_files import Authority, Certificate

HOSTS = f"DNS:localhost,IP:{HOST}"


class TlsFolder:
    """An authority, and what it signed for a broker and a client."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.authority = Authority(folder / "authority")
        self.ca = str(self.authority.certificate)
        self.client = self.authority.sign("client", HOSTS)
        self.broker_store = self.store("broker")
        self.client_store = self.joined("client", self.client)

    def store(self, name: str, hosts: str = HOSTS, authority: Authority | None = None) -> Path:
        """Sign a certificate; return a PEM file with its key and itself."""
        return self.joined(name, (authority or self.authority).sign(name, hosts))

    def joined(self, name: str, made: Certificate) -> Path:
        path = self.folder / f"{name}-store.pem"
        path.write_text(made.key.read_text() + made.certificate.read_text())
        return path

    def options(self, **changes: str) -> dict[str, str]:
        """The settings of a broker; `client_auth="required"` sets `ssl.client.auth`."""
        options = {
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(self.broker_store),
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": self.ca,
        }
        return options | {f"ssl.{name.replace('_', '.')}": value for name, value in changes.items()}

    def client_context(self, *, shows_certificate: bool = False) -> ssl.SSLContext:
        context = ssl.create_default_context(cafile=self.ca)
        if shows_certificate:
            context.load_cert_chain(self.client_store)
        return context


class TlsBroker(Ottla):
    """Has a plaintext listener at `port` and one with TLS at `tls_port`."""

    def __init__(self, folder: Path, options: Mapping[str, str]) -> None:
        super().__init__(folder, options)
        self.tls_port = free_port()

    def command(self) -> list[str]:
        secured = f"SSL://{HOST}:{self.tls_port}"
        return [*super().command(), "--listener", secured, "--log-level", "info"]

    @property
    def tls_address(self) -> str:
        return f"{HOST}:{self.tls_port}"


class TlsWire(Wire):
    client_id = "wire"

    def __init__(self, port: int, context: ssl.SSLContext) -> None:
        plain = socket.create_connection((HOST, port), timeout=20)
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.secured = context.wrap_socket(plain, server_hostname=HOST)
        self.socket = self.secured
