"""Brokers whose clients sign in, and connections that do so byte by byte."""

from __future__ import annotations

import socket
from collections.abc import Mapping
from pathlib import Path

from bench.brokers import HOST, Ottla, free_port

from broker_wire import Wire
from ottla.protocol.messages.api_versions import ApiVersionsRequest
from ottla.protocol.messages.sasl_authenticate import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
)
from ottla.protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse

PLAIN_MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"
USERS = {"alice": "alice-secret", "bob": 'bob; "quoted" = é'}


def plain_users(users: Mapping[str, str]) -> str:
    """A JAAS line."""
    named = []
    for user, password in users.items():
        escaped = password.replace("\\", "\\\\").replace('"', '\\"')
        named.append(f'user_{user}="{escaped}"')
    return f"{PLAIN_MODULE} required {' '.join(named)};"


def sasl_options(
    *mechanisms: str, listeners: tuple[str, ...] = ("SASL_PLAINTEXT",), **changes: str
) -> dict[str, str]:
    options = {"sasl.enabled.mechanisms": ",".join(mechanisms)}
    for listener in listeners:
        name = f"listener.name.{listener.lower()}.plain.sasl.jaas.config"
        options[name] = plain_users(USERS)
    return options | {name.replace("_", "."): value for name, value in changes.items()}


class SaslBroker(Ottla):
    """Has a plaintext listener at `port`, and one for each protocol in `ports`."""

    def __init__(
        self,
        folder: Path,
        options: Mapping[str, str],
        protocols: tuple[str, ...] = ("SASL_PLAINTEXT",),
    ) -> None:
        super().__init__(folder, options)
        self.ports = {protocol: free_port() for protocol in protocols}

    def command(self) -> list[str]:
        listeners = [
            argument
            for protocol, port in self.ports.items()
            for argument in ("--listener", f"{protocol}://{HOST}:{port}")
        ]
        return [*super().command(), *listeners, "--log-level", "info"]

    def secured_address(self, protocol: str = "SASL_PLAINTEXT") -> str:
        return f"{HOST}:{self.ports[protocol]}"


class SaslWire(Wire):
    client_id = "wire"

    def __init__(self, port: int) -> None:
        self.socket = socket.create_connection((HOST, port), timeout=20)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def handshake(self, mechanism: str, version: int = 1) -> SaslHandshakeResponse:
        answer: SaslHandshakeResponse = self.ask(SaslHandshakeRequest(mechanism=mechanism), version)
        return answer

    def authenticate(self, token: bytes, version: int = 2) -> SaslAuthenticateResponse:
        answer: SaslAuthenticateResponse = self.ask(
            SaslAuthenticateRequest(auth_bytes=token), version
        )
        return answer

    def plain(self, user: str, password: str) -> SaslAuthenticateResponse:
        assert self.handshake("PLAIN").error_code == 0
        return self.authenticate(f"\0{user}\0{password}".encode())

    def plain_later(self, user: str, password: str) -> None:
        """Send all of a sign-in, and read nothing."""
        self.send(SaslHandshakeRequest(mechanism="PLAIN"), 1)
        token = f"\0{user}\0{password}".encode()
        self.send(SaslAuthenticateRequest(auth_bytes=token), 2)

    def ask_versions(self) -> None:
        request = ApiVersionsRequest(client_software_name="wire", client_software_version="1")
        assert self.ask(request, 3).error_code == 0

    def is_closed(self) -> bool:
        """True if the broker closes the connection and sends nothing more."""
        try:
            return self.socket.recv(1) == b""
        except ConnectionError:
            return True
