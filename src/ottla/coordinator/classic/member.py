"""One member of a classic group."""

from __future__ import annotations

from collections.abc import Iterable
from random import Random
from typing import TYPE_CHECKING

from ottla.coordinator.classic.client import Client

if TYPE_CHECKING:
    from ottla.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol


class Member:
    """What a member said of itself, and what it was given to do."""

    __slots__ = (
        "assignment",
        "client_host",
        "client_id",
        "instance_id",
        "is_new",
        "member_id",
        "protocols",
        "rebalance_timeout_ms",
        "session_timeout_ms",
    )

    def __init__(
        self,
        member_id: str,
        *,
        instance_id: str | None,
        client_id: str,
        client_host: str,
        rebalance_timeout_ms: int,
        session_timeout_ms: int,
        protocols: dict[str, bytes],
        assignment: bytes = b"",
        is_new: bool = False,
    ) -> None:
        self.member_id = member_id
        self.instance_id = instance_id
        self.client_id = client_id
        self.client_host = client_host
        self.rebalance_timeout_ms = rebalance_timeout_ms
        self.session_timeout_ms = session_timeout_ms
        self.protocols = protocols
        """Protocol -> the member's metadata for it, the most wanted first."""
        self.assignment = assignment
        self.is_new = is_new
        """Joining for the first time: it does not know its id yet and cannot send heartbeats."""

    @classmethod
    def joining(cls, member_id: str, request: JoinGroupRequest, client: Client) -> Member:
        return cls(
            member_id,
            instance_id=request.group_instance_id,
            client_id=client.client_id,
            client_host=client.host,
            rebalance_timeout_ms=rebalance_timeout_ms(request, client),
            session_timeout_ms=request.session_timeout_ms,
            protocols=protocols_of(request.protocols),
            is_new=True,
        )

    @property
    def is_static(self) -> bool:
        return self.instance_id is not None

    def under_id(self, member_id: str) -> Member:
        """The same member, come back under a new id."""
        return Member(
            member_id,
            instance_id=self.instance_id,
            client_id=self.client_id,
            client_host=self.client_host,
            rebalance_timeout_ms=self.rebalance_timeout_ms,
            session_timeout_ms=self.session_timeout_ms,
            protocols=self.protocols,
            assignment=self.assignment,
        )

    def wants_the_same(self, protocols: Iterable[JoinGroupRequestProtocol]) -> bool:
        """Order counts: it is what the member votes for."""
        return list(self.protocols.items()) == list(protocols_of(protocols).items())


def protocols_of(protocols: Iterable[JoinGroupRequestProtocol]) -> dict[str, bytes]:
    """Of protocols named twice the first counts."""
    named: dict[str, bytes] = {}
    for protocol in protocols:
        named.setdefault(protocol.name, protocol.metadata)
    return named


def rebalance_timeout_ms(request: JoinGroupRequest, client: Client) -> int:
    """Version 0 knew one time-out for both purposes."""
    return request.session_timeout_ms if client.api_version == 0 else request.rebalance_timeout_ms


def new_member_id(prefix: str, random: Random) -> str:
    """The prefix tells a reader of logs whose member it is; the rest is a random UUID."""
    bits = random.getrandbits(128)
    bits = bits & ~(0xF << 76) | 4 << 76  # version 4
    bits = bits & ~(0x3 << 62) | 2 << 62  # variant of RFC 9562
    text = f"{bits:032x}"
    return f"{prefix}-{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"
