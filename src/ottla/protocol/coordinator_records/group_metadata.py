"""GroupMetadata, record type 2."""

from __future__ import annotations

from ottla.protocol.schema import Message, Struct, array, int32, int64, octets, string


class GroupMetadataKey(Message, api_key=2, versions=(0, 0)):
    group: str = string()


class MemberMetadata(Struct):
    member_id: str = string()
    group_instance_id: str | None = string("3+", nullable=True, default=None, ignorable=True)
    client_id: str = string()
    client_host: str = string()
    rebalance_timeout: int = int32("1+", default=-1, ignorable=True)
    session_timeout: int = int32()
    subscription: bytes = octets()
    assignment: bytes = octets()


class GroupMetadataValue(Message, api_key=2, versions=(0, 4), flexible=4):
    protocol_type: str = string()
    generation: int = int32()
    protocol: str | None = string(nullable=True)
    leader: str | None = string(nullable=True)
    current_state_timestamp: int = int64("2+", default=-1, ignorable=True)
    members: list[MemberMetadata] = array(MemberMetadata)
