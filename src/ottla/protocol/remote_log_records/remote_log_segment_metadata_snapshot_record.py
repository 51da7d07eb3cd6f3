"""RemoteLogSegmentMetadataSnapshotRecord, record type 3."""

from __future__ import annotations

from ottla.protocol.schema import Message, Struct, array, boolean, int8, int32, int64, octets, uuid


class SegmentLeaderEpochEntry(Struct):
    leader_epoch: int = int32()
    offset: int = int64()


class RemoteLogSegmentMetadataSnapshotRecord(Message, api_key=3, versions=(0, 0), flexible=0):
    segment_id: bytes = uuid()
    start_offset: int = int64()
    end_offset: int = int64()
    broker_id: int = int32()
    max_timestamp_ms: int = int64()
    event_timestamp_ms: int = int64()
    segment_leader_epochs: list[SegmentLeaderEpochEntry] = array(SegmentLeaderEpochEntry)
    segment_size_in_bytes: int = int32()
    custom_metadata: bytes | None = octets(nullable=True, default=None)
    remote_log_segment_state: int = int8()
    txn_index_empty: bool = boolean(tag=0)
