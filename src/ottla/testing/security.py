"""Users, ACLs and TLS of a test's cluster."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from ottla.config.security.private_cluster import NODE_USER, PrivateCluster
from ottla.testing.settings import HOST

if TYPE_CHECKING:
    from ottla.client.admin.acls import Acl

ADMIN: Final = "admin"
AUTHORITY_FOLDER: Final = "authority"


@dataclass(frozen=True)
class Security:
    """Clients sign in and may do only what ACLs allow: `cluster(security=Security(...))`.

    The password of each user is its name and "-password". `Producer(**cluster.options("alice"))`
    has all that a client of Ottla needs; `cluster.client_settings("alice", library=...)` is for
    others.
    """

    users: Collection[str] = ()
    acls: Collection[Acl] = ()
    """ACLs that exist from the start. A test may add others, as a super user."""
    super_users: Collection[str] = (ADMIN,)
    """Users that may do everything."""
    tls: bool = False
    """Listeners use TLS, with certificates made for this cluster."""

    def __post_init__(self) -> None:
        if not self.super_users:
            raise ValueError("super_users: without one nobody could add ACLs")
        if NODE_USER in (*self.users, *self.super_users):
            raise ValueError(f"the user {NODE_USER!r} is the nodes' own")


class ClusterSecurity:
    """The security of one cluster, with its files."""

    def __init__(self, wanted: Security, folder: Path) -> None:
        self.acls = wanted.acls
        self._admin = next(iter(wanted.super_users))
        names = dict.fromkeys([NODE_USER, *wanted.super_users, *wanted.users])
        self._passwords = {name: f"{name}-password" for name in names}
        keystore = truststore = None
        if wanted.tls:
            from ottla.runtime.tls.authority import Authority, certificate_file

            keystore = str(Authority.open(folder).issue("node", [HOST, "localhost"]))
            truststore = str(certificate_file(folder))
        self._cluster = PrivateCluster(self._passwords, wanted.super_users, keystore, truststore)

    def node_settings(self, *, has_controllers: bool) -> dict[str, str]:
        return self._cluster.node_settings(has_controllers=has_controllers)

    def options(self, user: str | None) -> dict[str, str]:
        """Return how clients of Ottla connect as a user; None is the first super user."""
        name = self._admin if user is None else user
        if name not in self._passwords or name == NODE_USER:
            raise ValueError(f"there is no user {name!r} in this cluster")
        options = {
            "security_protocol": self._cluster.protocol,
            "sasl_mechanism": "PLAIN",
            "sasl_username": name,
            "sasl_password": self._passwords[name],
        }
        if self._cluster.truststore is not None:
            options["ssl_cafile"] = self._cluster.truststore
        return options

    async def add_acls(self, bootstrap_servers: str) -> None:
        """Add the ACLs that exist from the start. Nodes must be ready."""
        from ottla.client.admin.admin import Admin

        options: dict[str, Any] = self.options(None)
        async with Admin(bootstrap_servers=bootstrap_servers, **options) as admin:
            for error in (await admin.create_acls(self.acls)).values():
                if error is not None:
                    raise error
