"""The settings of a secured cluster that is made here: by `ottla start --secure`, or for a test.

Its users have passwords in a JAAS line and sign in by PLAIN; users that are added later, by SCRAM.
The nodes sign in to each other as a user of their own, by PLAIN.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Final

NODE_USER: Final = "node"
_AUTHORIZER: Final = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
_PLAIN: Final = "org.apache.kafka.common.security.plain.PlainLoginModule"
_SCRAM: Final = "org.apache.kafka.common.security.scram.ScramLoginModule"
_SCRAM_MECHANISMS: Final = ("SCRAM-SHA-256", "SCRAM-SHA-512")


@dataclass(frozen=True)
class PrivateCluster:
    passwords: Mapping[str, str] = field(repr=False)
    """By user; that of `NODE_USER` is among them."""
    super_users: Collection[str]
    """Without `NODE_USER`, which is one."""
    keystore: str | None = None
    """The path of a PEM file; without it there is no TLS."""
    truststore: str | None = None

    @property
    def protocol(self) -> str:
        """The security protocol, which is the name of the listener, too."""
        return "SASL_PLAINTEXT" if self.keystore is None else "SASL_SSL"

    def node_settings(self, *, has_controllers: bool) -> dict[str, str]:
        """Return what every node has. `has_controllers`: nodes have a listener for them."""
        protocol = self.protocol
        supers = [NODE_USER, *self.super_users]
        settings = {
            "security.inter.broker.protocol": protocol,
            "sasl.enabled.mechanisms": ",".join(("PLAIN", *_SCRAM_MECHANISMS)),
            "sasl.mechanism.inter.broker.protocol": "PLAIN",
            **_jaas(protocol, "PLAIN", self._plain_line(self.passwords)),
            "authorizer.class.name": _AUTHORIZER,
            "super.users": ";".join(f"User:{user}" for user in supers),
        }
        for mechanism in _SCRAM_MECHANISMS:
            settings |= _jaas(protocol, mechanism, f"{_SCRAM} required;")
        if has_controllers:
            only_nodes = {NODE_USER: self.passwords[NODE_USER]}
            settings |= {
                "listener.security.protocol.map": f"{protocol}:{protocol},CONTROLLER:{protocol}",
                "sasl.mechanism.controller.protocol": "PLAIN",
                "listener.name.controller.sasl.enabled.mechanisms": "PLAIN",
                **_jaas("CONTROLLER", "PLAIN", self._plain_line(only_nodes)),
            }
        if self.keystore is not None and self.truststore is not None:
            settings |= {
                "ssl.keystore.type": "PEM",
                "ssl.keystore.location": self.keystore,
                "ssl.truststore.type": "PEM",
                "ssl.truststore.location": self.truststore,
            }
        return settings

    def _plain_line(self, users: Mapping[str, str]) -> str:
        own = f"username={NODE_USER} password={quoted(self.passwords[NODE_USER])}"
        known = "".join(f" user_{user}={quoted(word)}" for user, word in users.items())
        return f"{_PLAIN} required {own}{known};"


def client_line(user: str, password: str) -> str:
    """Return the `sasl.jaas.config` of a client that signs in by PLAIN."""
    return f"{_PLAIN} required username={quoted(user)} password={quoted(password)};"


def quoted(word: str) -> str:
    """Return a value as JAAS lines have it."""
    escaped = word.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _jaas(listener: str, mechanism: str, line: str) -> dict[str, str]:
    return {f"listener.name.{listener.lower()}.{mechanism.lower()}.sasl.jaas.config": line}
