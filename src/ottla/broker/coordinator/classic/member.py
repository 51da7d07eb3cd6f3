"""A member of a classic group."""

from __future__ import annotations

from collections.abc import Iterable
from random import Random
from typing import TYPE_CHECKING, Final

from ottla.broker.coordinator.classic.client import Client
from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.source import STRING_SIZE_MAX

if TYPE_CHECKING:
    from ottla.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol

NO_MEMBER_ID: Final = ""
_ID_SUFFIX_BYTES: Final = 37
"""A dash and a UUID."""


class Member:
    """A member's own settings, and its assignment."""

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
        """Protocol -> the member's metadata for it, the preferred protocol first."""
        self.assignment = assignment
        self.is_new = is_new
        """True for a first join: the member does not know its id yet and cannot send heartbeats."""

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
        """Return the same member under a new id."""
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
        """True if the protocols are the same in the same order: the order expresses the member's
        preference."""
        return list(self.protocols.items()) == list(protocols_of(protocols).items())


def protocols_of(protocols: Iterable[JoinGroupRequestProtocol]) -> dict[str, bytes]:
    """Return metadata by protocol name; if a name is given twice, the first counts."""
    named: dict[str, bytes] = {}
    for protocol in protocols:
        named.setdefault(protocol.name, protocol.metadata)
    return named


def rebalance_timeout_ms(request: JoinGroupRequest, client: Client) -> int:
    """Return the rebalance timeout. Version 0 has only one timeout for both purposes."""
    return request.session_timeout_ms if client.api_version == 0 else request.rebalance_timeout_ms


def new_member_id(prefix: str, random: Random) -> str:
    """Return a new id. The prefix shows a reader of logs whose member it is; the rest is a random
    UUID."""
    bits = random.getrandbits(128)
    bits = bits & ~(0xF << 76) | 4 << 76  # version 4
    bits = bits & ~(0x3 << 62) | 2 << 62  # variant of RFC 9562
    text = f"{bits:032x}"
    return f"{prefix}-{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


def check_join(request: JoinGroupRequest, client: Client) -> None:
    """Refuse a member whose id would be too long to be stored, before anything is changed. Kafka
    fails to store it and answers the same."""
    prefix = client.client_id if request.group_instance_id is None else request.group_instance_id
    if len(prefix.encode()) > STRING_SIZE_MAX - _ID_SUFFIX_BYTES:
        raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, "the member id would be too long")
