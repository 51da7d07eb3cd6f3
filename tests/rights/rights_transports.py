"""How clients reach a node: by each kind of listener, as the principal that it gives them."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from typing import Final

from bench.brokers import HOST

from broker_wire import Listening, Wire
from ottla.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from ottla.protocol.messages.sasl_handshake import SaslHandshakeRequest
from ottla.security.principal import ANONYMOUS, KafkaPrincipal
from sasl_broker import PLAIN_MODULE
from tls_broker import HOSTS, TlsFolder, TlsWire

PROTOCOLS: Final = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")


class User(StrEnum):
    """Their passwords are their names."""

    ASKER = "asker"
    SUPER = "super"
    """Prepares what samples need. Without TLS and SASL nothing tells the two apart."""


class Transport:
    """One kind of listener, for clients and for nodes. With SSL, certificates say who a client is;
    with SASL, a name and a password."""

    def __init__(self, protocol: str, folder: Path) -> None:
        self._protocol = protocol
        self._signs_in = protocol.startswith("SASL_")
        self._files = TlsFolder(folder) if protocol.endswith("SSL") else None
        self._own_stores: dict[User, Path] = {}
        if self._files is not None and not self._signs_in:
            for user in User:
                self._own_stores[user] = self._files.store(user, HOSTS)

    @property
    def asker(self) -> KafkaPrincipal:
        if self._signs_in:
            return KafkaPrincipal("User", User.ASKER.value)
        if self._own_stores:
            return KafkaPrincipal("User", f"CN={User.ASKER.value}")
        return ANONYMOUS

    def settings(self, client_port: int, controller_port: int) -> Mapping[str, str]:
        protocol = self._protocol
        settings = {
            "listeners": f"{protocol}://{HOST}:{client_port},CONTROLLER://{HOST}:{controller_port}",
            "listener.security.protocol.map": f"{protocol}:{protocol},CONTROLLER:{protocol}",
            "security.inter.broker.protocol": protocol,
            "delegation.token.secret.key": "secret of the tokens",
        }
        if self._files is not None:
            auth = "required" if self._own_stores else "none"
            settings |= self._files.options(client_auth=auth)
        if self._signs_in:
            users = " ".join(f'user_{user}="{user}"' for user in User)
            login = f'{PLAIN_MODULE} required username="super" password="super" {users};'
            settings |= {
                "sasl.enabled.mechanisms": "PLAIN",
                "sasl.mechanism.inter.broker.protocol": "PLAIN",
                "sasl.mechanism.controller.protocol": "PLAIN",
                f"listener.name.{protocol.lower()}.plain.sasl.jaas.config": login,
                "listener.name.controller.plain.sasl.jaas.config": login,
            }
        return settings

    def connect(self, listener: Listening, user: User) -> Wire:
        wire: Wire
        if self._files is None:
            wire = Wire(listener)
        else:
            context = self._files.client_context()
            if user in self._own_stores:
                context.load_cert_chain(self._own_stores[user])
            wire = TlsWire(listener.port, context)
        if self._signs_in:
            assert wire.ask(SaslHandshakeRequest(mechanism="PLAIN"), 1).error_code == 0
            token = SaslAuthenticateRequest(auth_bytes=f"\0{user}\0{user}".encode())
            assert wire.ask(token, 2).error_code == 0
        return wire
