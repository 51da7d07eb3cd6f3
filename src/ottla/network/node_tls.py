"""The TLS of a node: of each listener, and of connections to other nodes by that listener.

Keys and certificates are renewed while the node runs: when `ssl.*` settings change, and when the
files do. New connections use the new ones.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from ottla.config.errors import ConfigError, Unknown
from ottla.logs import get_logger
from ottla.network.security import Security
from ottla.network.tls_renewal import check_renewal
from ottla.runtime.tls.material import (
    FileStates,
    TlsMaterial,
    check_trusts_itself,
    load_material,
    states_of_files,
)
from ottla.runtime.tls.socket import BadTlsFile, TlsBuffers, TlsSocket
from ottla.security.certificates import BadCertificate, java_name, parse_certificate
from ottla.security.principal import ANONYMOUS, USER_TYPE, KafkaPrincipal
from ottla.security.principal_rules import NoRuleMatches, PrincipalRules

if TYPE_CHECKING:
    from collections.abc import Callable

    from ottla.config.broker import BrokerConfig
    from ottla.runtime.network import Socket
    from ottla.runtime.runtime import Runtime

log = get_logger("ottla.node")

FILES_LOOK_INTERVAL_S: Final = 2.0


class NoPrincipal(Exception):
    """The certificate of a client gives it no name."""


class ListenerTls:
    """The certificate that a listener shows now, and those it accepts. New connections use them;
    existing ones stay."""

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
        problems: list[Unknown] = []
        for name in config.tls_listeners:
            try:
                node._use(name, node._made(name, config))
            except BadTlsFile as error:
                problems.append(_problem(error))
        if problems:
            raise ConfigError(list(dict.fromkeys(problems)))
        return node

    def security_of(self, listener: str) -> Security:
        """Return what connections to other nodes by this listener use now."""
        material = self._listeners[listener].material
        return Security(material.client, trust_setting="ssl.truststore.location")

    def of(self, listener: str) -> ListenerTls | None:
        """Return the TLS of a listener; None if it has none."""
        return self._listeners.get(listener)

    # --- renewal --------------------------------------------------------------------------------

    def check(self, config: BrokerConfig) -> None:
        """Raise `ConfigError` if a listener could not use these settings and the files as they are
        now."""
        problems: list[Unknown] = []
        for name in config.tls_listeners:
            try:
                self._made(name, config)
            except BadTlsFile as error:
                problems.append(_problem(error))
        if problems:
            raise ConfigError(list(dict.fromkeys(problems)))

    def take(self, config: BrokerConfig) -> None:
        """Use these settings and the files as they are now. A listener that cannot goes on with
        what it has."""
        for name in config.tls_listeners:
            now = self._listeners.get(name)
            try:
                material = self._made(name, config)
            except (BadTlsFile, ConfigError) as error:
                log.error("TLS of a listener not renewed", listener=name, reason=str(error))
                continue
            if now is None or material is not now.material:
                self._use(name, material)
                if now is not None:
                    log.info("TLS of a listener renewed", listener=name)

    async def watch_files(self, runtime: Runtime, current: Callable[[], BrokerConfig]) -> None:
        """Renew what was made from files when these change, for ever."""
        seen = self._states()
        while True:
            await asyncio.sleep(FILES_LOOK_INTERVAL_S)
            states = await runtime.in_thread(self._states)
            if states != seen:
                # What changes while it is read changes its state again.
                seen = states
                self.take(current())

    def _states(self) -> FileStates:
        paths = [
            path
            for listener in list(self._listeners.values())
            for path in listener.material.settings.files
        ]
        return states_of_files(paths)

    def _made(self, name: str, config: BrokerConfig) -> TlsMaterial:
        """Return what the listener is to have: what it has if nothing changed."""
        listener = self._listeners.get(name)
        now = None if listener is None else listener.material
        material = load_material(config.tls_of(name), now)
        if material is not now:
            if name in (config.inter_broker_listener_name, config.controller_listener_name):
                check_trusts_itself(material)
            if now is not None:
                check_renewal(now, material)
        return material

    def _use(self, name: str, material: TlsMaterial) -> None:
        if name in self._listeners:
            self._listeners[name].material = material
        else:
            self._listeners[name] = ListenerTls(name, material, self._buffers)


def _problem(error: BadTlsFile) -> Unknown:
    return Unknown("ssl.keystore.location", None, str(error))
