"""StreamsGroupMemberMetadata, record type 19."""

from __future__ import annotations

from ottla.protocol.schema import Message, Struct, array, int32, string, struct, uint16


class StreamsGroupMemberMetadataKey(Message, api_key=19, versions=(0, 0)):
    group_id: str = string()
    member_id: str = string()


class Endpoint(Struct):
    host: str = string()
    port: int = uint16()


class KeyValue(Struct):
    key: str = string()
    value: str = string()


class StreamsGroupMemberMetadataValue(Message, api_key=19, versions=(0, 0), flexible=0):
    instance_id: str | None = string(nullable=True)
    rack_id: str | None = string(nullable=True)
    client_id: str = string()
    client_host: str = string()
    rebalance_timeout_ms: int = int32(default=-1)
    topology_epoch: int = int32()
    process_id: str = string()
    user_endpoint: Endpoint | None = struct(Endpoint, nullable=True, default=None)
    client_tags: list[KeyValue] = array(KeyValue)
