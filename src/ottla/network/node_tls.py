"""The TLS of a node: of each listener, and of connections to other nodes by that listener."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING

from ottla.config.errors import ConfigError, Unknown
from ottla.network.security import Security
from ottla.runtime.tls import BadTlsFile
from ottla.runtime.tls_material import TlsMaterial, check_trusts_itself, load_material
from ottla.runtime.tls_socket import TlsBuffers, TlsSocket
from ottla.security.certificates import BadCertificate, java_name, parse_certificate
from ottla.security.principal import ANONYMOUS, USER_TYPE, KafkaPrincipal
from ottla.security.principal_rules import NoRuleMatches, PrincipalRules

if TYPE_CHECKING:
    from ottla.config.broker import BrokerConfig
    from ottla.runtime.network import Socket


class NoPrincipal(Exception):
    """The certificate of a client gives it no name."""


class ListenerTls:
    """What a listener shows and accepts now. New connections use it; existing ones stay."""

    __slots__ = ("_buffers", "_material", "_rules", "name")

    def __init__(self, name: str, material: TlsMaterial, buffers: TlsBuffers) -> None:
        self.name = name
        self._buffers = buffers
        self.material = material

    @property
    def material(self) -> TlsMaterial:
        return self._material

    @material.setter
    def material(self, material: TlsMaterial) -> None:
        self._material = material
        self._rules = PrincipalRules.parse(material.settings.principal_rules)

    def principal_of(self, socket: TlsSocket) -> KafkaPrincipal:
        """Return who the client is, by its certificate; raises `NoPrincipal`."""
        certificate = socket.peer_certificate
        if certificate is None:
            return ANONYMOUS
        try:
            subject = java_name(parse_certificate(certificate).subject)
            return KafkaPrincipal(USER_TYPE, self._rules.name_of(subject))
        except (BadCertificate, NoRuleMatches) as error:
            raise NoPrincipal(str(error)) from error

    def accept(self, socket: Socket) -> TlsSocket:
        """Return the server's side of TLS over a socket, before its handshake."""
        assert self.material.server is not None, f"{self.name} has no certificate"
        return TlsSocket(
            socket,
            self.material.server,
            "",
            asyncio.get_running_loop(),
            server_side=True,
            buffers=self._buffers,
        )


class NodeTls:
    def __init__(self) -> None:
        self._listeners: dict[str, ListenerTls] = {}
        self._buffers = TlsBuffers()

    @classmethod
    def open(cls, config: BrokerConfig) -> NodeTls:
        """Read the files of all listeners; raises `ConfigError` with every problem."""
        node = cls()
        node._take(materials_of(config))
        return node

    def security_of(self, listener: str) -> Security:
        """Return what connections to other nodes by this listener use now."""
        material = self._listeners[listener].material
        return Security(material.client, trust_setting="ssl.truststore.location")

    def of(self, listener: str) -> ListenerTls | None:
        """Return the TLS of a listener; None if it has none."""
        return self._listeners.get(listener)

    def _take(self, materials: Mapping[str, TlsMaterial]) -> None:
        for name, material in materials.items():
            if name in self._listeners:
                self._listeners[name].material = material
            else:
                self._listeners[name] = ListenerTls(name, material, self._buffers)


def materials_of(config: BrokerConfig) -> dict[str, TlsMaterial]:
    """Read the files that the settings name; raises `ConfigError` with every problem."""
    materials = {}
    problems: list[Unknown] = []
    for name in config.tls_listeners:
        try:
            materials[name] = material = load_material(config.tls_of(name))
            if name in (config.inter_broker_listener_name, config.controller_listener_name):
                check_trusts_itself(material)
        except BadTlsFile as error:
            problems.append(Unknown("ssl.keystore.location", None, str(error)))
    if problems:
        raise ConfigError(list(dict.fromkeys(problems)))
    return materials
