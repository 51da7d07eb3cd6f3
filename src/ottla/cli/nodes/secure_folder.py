"""The folder `secure` beside the data of `ottla start --secure`: its authority, the certificate of
its nodes, and the passwords of the two users that exist from the start.

    ca.pem, ca.key, node.pem     see runtime/tls/authority.py
    passwords.properties         of `admin`, the super user, and of the nodes among themselves; and
                                 the key of delegation tokens
    client.properties            how a client connects as `admin`, in the names of Kafka's tools
    librdkafka.properties        the same for kcat and other clients on librdkafka

All but `ca.pem` are secrets: only their owner may read the folder.
"""

from __future__ import annotations

import secrets
import socket
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from ottla.config.properties import parse_properties
from ottla.config.security.private_cluster import NODE_USER, PrivateCluster, client_line
from ottla.runtime.private_file import write_private
from ottla.runtime.tls.authority import Authority, certificate_file

ADMIN: Final = "admin"
TOKEN_KEY: Final = "delegation.token.secret.key"
_LOCAL_HOSTS: Final = ("localhost", "127.0.0.1", "::1")
_EVERYWHERE: Final = frozenset({"", "0.0.0.0", "::"})


@dataclass(frozen=True)
class SecureFolder:
    path: Path
    cluster: PrivateCluster
    token_key: str = field(repr=False)

    def node_settings(self, *, has_controllers: bool) -> dict[str, str]:
        """Return what every node has. `has_controllers`: nodes have a listener for them."""
        settings = self.cluster.node_settings(has_controllers=has_controllers)
        return settings | {TOKEN_KEY: self.token_key}

    @property
    def client_file(self) -> Path:
        return self.path / "client.properties"

    @property
    def librdkafka_file(self) -> Path:
        return self.path / "librdkafka.properties"

    @property
    def authority_file(self) -> Path:
        return certificate_file(self.path)

    def how_to_connect(self) -> list[str]:
        """Return a line for our command line and Kafka's tools, and one for kcat."""
        return [
            f"Connect as {ADMIN}: ottla topics list --command-config {self.client_file}",
            f"Or with kcat: kcat -L -F {self.librdkafka_file}",
        ]

    def write_client_files(self, bootstrap: str) -> None:
        """Write how `admin` connects: for Kafka's tools and ours, and for librdkafka."""
        word = self.cluster.passwords[ADMIN]
        common = {
            "bootstrap.servers": bootstrap,
            "security.protocol": self.cluster.protocol,
            "sasl.mechanism": "PLAIN",
        }
        of_java = {
            "sasl.jaas.config": client_line(ADMIN, word),
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(self.authority_file),
        }
        of_librdkafka = {
            "sasl.username": ADMIN,
            "sasl.password": word,
            "ssl.ca.location": str(self.authority_file),
        }
        head = "# Written by every `ottla start --secure`: changes here are lost.\n"
        for file, text in (
            (self.client_file, _java_text(common | of_java)),
            (self.librdkafka_file, _text(common | of_librdkafka)),
        ):
            write_private(file, (head + text).encode())


def open_folder(path: Path, host: str) -> SecureFolder:
    """Read the folder, or make it, with a certificate for this machine and for `host`."""
    authority = Authority.open(path)
    keystore = authority.issue("node", _names_of(host))
    passwords = _read_passwords(path / "passwords.properties")
    token_key = passwords.pop(TOKEN_KEY)
    cluster = PrivateCluster(passwords, [ADMIN], str(keystore), str(certificate_file(path)))
    return SecureFolder(path, cluster, token_key)


def _names_of(host: str) -> Iterable[str]:
    names = {*_LOCAL_HOSTS, host}
    if host in _EVERYWHERE:
        names.add(socket.gethostname())
    return names - _EVERYWHERE


def _read_passwords(path: Path) -> dict[str, str]:
    try:
        known = parse_properties(path.read_text(encoding="utf-8"), str(path))
    except FileNotFoundError:
        known = None
    except ValueError as error:
        raise ValueError(
            f"{path} cannot be read: {error}; mend it, or remove it, and passwords are made anew"
        ) from error
    wanted = (ADMIN, NODE_USER, TOKEN_KEY)
    found = {name: known.get(name) if known else None for name in wanted}
    passwords = {name: word or secrets.token_urlsafe(18) for name, word in found.items()}
    if found != passwords:
        write_private(path, _java_text(passwords).encode())
    return passwords


def _text(settings: Mapping[str, str]) -> str:
    return "".join(f"{key}={value}\n" for key, value in settings.items())


def _java_text(settings: Mapping[str, str]) -> str:
    return _text({key: value.replace("\\", "\\\\") for key, value in settings.items()})
