"""FetchSnapshot, API 59."""

from __future__ import annotations

from ottla.protocol.schema import (
    Message,
    Records,
    Struct,
    array,
    batches,
    int16,
    int32,
    int64,
    string,
    struct,
    uint16,
    uuid,
)


class SnapshotId(Struct):
    end_offset: int = int64()
    epoch: int = int32()


class RequestPartitionSnapshot(Struct):
    partition: int = int32()
    current_leader_epoch: int = int32()
    snapshot_id: SnapshotId = struct(SnapshotId)
    position: int = int64()
    replica_directory_id: bytes = uuid("1+", tag=0, ignorable=True)


class RequestTopicSnapshot(Struct):
    name: str = string()
    partitions: list[RequestPartitionSnapshot] = array(RequestPartitionSnapshot)


class FetchSnapshotRequest(Message, api_key=59, versions=(0, 1), flexible=0):
    cluster_id: str | None = string(nullable=True, default=None, tag=0)
    replica_id: int = int32(default=-1)
    max_bytes: int = int32(default=2147483647)
    topics: list[RequestTopicSnapshot] = array(RequestTopicSnapshot)


class LeaderIdAndEpoch(Struct):
    leader_id: int = int32()
    leader_epoch: int = int32()


class ResponsePartitionSnapshot(Struct):
    index: int = int32()
    error_code: int = int16()
    snapshot_id: SnapshotId = struct(SnapshotId)
    current_leader: LeaderIdAndEpoch = struct(LeaderIdAndEpoch, tag=0)
    size: int = int64()
    position: int = int64()
    unaligned_records: Records | None = batches()


class ResponseTopicSnapshot(Struct):
    name: str = string()
    partitions: list[ResponsePartitionSnapshot] = array(ResponsePartitionSnapshot)


class NodeEndpoint(Struct):
    node_id: int = int32()
    host: str = string()
    port: int = uint16()


class FetchSnapshotResponse(Message, api_key=59, versions=(0, 1), flexible=0):
    throttle_time_ms: int = int32(ignorable=True)
    error_code: int = int16()
    topics: list[ResponseTopicSnapshot] = array(ResponseTopicSnapshot)
    node_endpoints: list[NodeEndpoint] = array(NodeEndpoint, "1+", tag=0)
