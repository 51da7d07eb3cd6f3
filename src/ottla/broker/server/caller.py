"""The sender of a request, and the way by which it came here."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from ottla.security.principal import KafkaPrincipal

NO_CONNECTION: Final = 0
PLAINTEXT: Final = "PLAINTEXT"


class ClientSoftware(NamedTuple):
    """The client library, as ApiVersions names it."""

    name: str
    version: str


UNKNOWN_SOFTWARE: Final = ClientSoftware("unknown", "unknown")


class Caller:
    """The sender of the requests of one connection.

    It is made once, when the connection is accepted, and each request refers to it. The principal
    of a caller never changes: a client that authenticates itself becomes another caller, so that
    requests under way keep the identity that they were sent with.
    """

    __slots__ = (
        "connection_id",
        "host",
        "is_forwarded",
        "is_this_node",
        "listener_name",
        "port",
        "principal",
        "security_protocol",
        "software",
    )

    def __init__(
        self,
        principal: KafkaPrincipal,
        address: tuple[str, int],
        listener_name: str,
        *,
        security_protocol: str = PLAINTEXT,
        connection_id: int = NO_CONNECTION,
        is_this_node: bool = False,
        is_forwarded: bool = False,
    ) -> None:
        self.principal = principal
        self.host, self.port = address
        """The client's own address, also for requests that a broker forwards."""
        self.listener_name = listener_name
        """The listener of this node by which the request came."""
        self.security_protocol = security_protocol
        self.connection_id = connection_id
        """A number that no other connection of this process has; NO_CONNECTION for requests of this
        node to itself."""
        self.is_this_node = is_this_node
        """True for requests that this node makes to itself: they need no right."""
        self.is_forwarded = is_forwarded
        """True if a broker sent the request on. Then `security_protocol` is that of the way from
        the broker, which has checked that of the way from the client."""
        self.software = UNKNOWN_SOFTWARE
        """Set by ApiVersions, which most clients send first."""

    def as_principal(self, principal: KafkaPrincipal) -> Caller:
        """Return the caller that this client becomes when it signs in, or does so again."""
        caller = Caller(
            principal,
            (self.host, self.port),
            self.listener_name,
            security_protocol=self.security_protocol,
            connection_id=self.connection_id,
            is_this_node=self.is_this_node,
            is_forwarded=self.is_forwarded,
        )
        caller.software = self.software
        return caller
