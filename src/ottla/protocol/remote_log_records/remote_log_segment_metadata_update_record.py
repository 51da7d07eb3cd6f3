"""RemoteLogSegmentMetadataUpdateRecord, record type 1."""

from __future__ import annotations

from ottla.protocol.schema import Message, Struct, int8, int32, int64, octets, string, struct, uuid


class TopicIdPartitionEntry(Struct):
    name: str = string()
    id: bytes = uuid()
    partition: int = int32()


class RemoteLogSegmentIdEntry(Struct):
    topic_id_partition: TopicIdPartitionEntry = struct(TopicIdPartitionEntry)
    id: bytes = uuid()


class RemoteLogSegmentMetadataUpdateRecord(Message, api_key=1, versions=(0, 0), flexible=0):
    remote_log_segment_id: RemoteLogSegmentIdEntry = struct(RemoteLogSegmentIdEntry)
    broker_id: int = int32()
    event_timestamp_ms: int = int64()
    custom_metadata: bytes | None = octets(nullable=True, default=None)
    remote_log_segment_state: int = int8()
