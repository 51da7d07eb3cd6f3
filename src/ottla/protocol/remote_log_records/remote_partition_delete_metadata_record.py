"""RemotePartitionDeleteMetadataRecord, record type 2."""

from __future__ import annotations

from ottla.protocol.schema import Message, Struct, int8, int32, int64, string, struct, uuid


class TopicIdPartitionEntry(Struct):
    name: str = string()
    id: bytes = uuid()
    partition: int = int32()


class RemotePartitionDeleteMetadataRecord(Message, api_key=2, versions=(0, 0), flexible=0):
    topic_id_partition: TopicIdPartitionEntry = struct(TopicIdPartitionEntry)
    broker_id: int = int32()
    event_timestamp_ms: int = int64()
    remote_partition_delete_state: int = int8()
