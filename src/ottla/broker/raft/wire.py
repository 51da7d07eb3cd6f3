"""Builds and reads the quorum's messages, which all concern one partition."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ottla.broker.raft.ids import CLUSTER_METADATA, Endpoints, OffsetAndEpoch, ReplicaKey
from ottla.broker.raft.settings import RaftSettings
from ottla.protocol.messages import begin_quorum_epoch as begin
from ottla.protocol.messages import end_quorum_epoch as end
from ottla.protocol.messages import fetch, fetch_snapshot, vote
from ottla.protocol.schema import Message
from ottla.protocol.uuids import METADATA_TOPIC_ID

PARTITION = 0
NO_OFFSET = -1


def only_partition(topics: Sequence[Any]) -> Any | None:
    """Return the partition of a request or response; None if it is not about the metadata log
    alone."""
    if len(topics) != 1 or len(topics[0].partitions) != 1:
        return None
    topic, partition = topics[0], topics[0].partitions[0]
    index = next(
        getattr(partition, name)
        for name in ("partition_index", "partition", "index")
        if hasattr(partition, name)
    )
    return partition if index == PARTITION and _is_metadata(topic) else None


def _is_metadata(topic: Any) -> bool:
    if getattr(topic, "topic_id", None) == METADATA_TOPIC_ID:
        return True
    return any(
        getattr(topic, name, None) == CLUSTER_METADATA for name in ("topic_name", "topic", "name")
    )


def vote_request(
    settings: RaftSettings,
    epoch: int,
    voter: ReplicaKey,
    log_end: OffsetAndEpoch,
    *,
    pre_vote: bool,
) -> vote.VoteRequest:
    partition = vote.RequestPartitionData(
        partition_index=PARTITION,
        replica_epoch=epoch,
        replica_id=settings.key.id,
        replica_directory_id=settings.key.directory_bytes,
        voter_directory_id=voter.directory_bytes,
        last_offset_epoch=log_end.epoch,
        last_offset=log_end.offset,
        pre_vote=pre_vote,
    )
    topic = vote.RequestTopicData(topic_name=CLUSTER_METADATA, partitions=[partition])
    return vote.VoteRequest(cluster_id=settings.cluster_id, voter_id=voter.id, topics=[topic])


def begin_request(settings: RaftSettings, epoch: int, voter: ReplicaKey) -> Message:
    partition = begin.RequestPartitionData(
        partition_index=PARTITION,
        voter_directory_id=voter.directory_bytes,
        leader_id=settings.key.id,
        leader_epoch=epoch,
    )
    return begin.BeginQuorumEpochRequest(
        cluster_id=settings.cluster_id,
        voter_id=voter.id,
        topics=[begin.RequestTopicData(topic_name=CLUSTER_METADATA, partitions=[partition])],
        leader_endpoints=[
            begin.LeaderEndpoint(name=name, host=host, port=port)
            for name, host, port in settings.endpoints
        ],
    )


def end_request(settings: RaftSettings, epoch: int, successors: Sequence[ReplicaKey]) -> Message:
    partition = end.RequestPartitionData(
        partition_index=PARTITION,
        leader_id=settings.key.id,
        leader_epoch=epoch,
        preferred_successors=[key.id for key in successors],
        preferred_candidates=[
            end.ReplicaInfo(candidate_id=key.id, candidate_directory_id=key.directory_bytes)
            for key in successors
        ],
    )
    return end.EndQuorumEpochRequest(
        cluster_id=settings.cluster_id,
        topics=[end.RequestTopicData(topic_name=CLUSTER_METADATA, partitions=[partition])],
        leader_endpoints=[
            end.LeaderEndpoint(name=name, host=host, port=port)
            for name, host, port in settings.endpoints
        ],
    )


def fetch_request(
    settings: RaftSettings, epoch: int, log_end: OffsetAndEpoch, high_watermark: int | None
) -> fetch.FetchRequest:
    partition = fetch.FetchPartition(
        partition=PARTITION,
        current_leader_epoch=epoch,
        fetch_offset=log_end.offset,
        last_fetched_epoch=log_end.epoch,
        partition_max_bytes=settings.fetch_max_bytes,
        replica_directory_id=settings.key.directory_bytes,
        high_watermark=NO_OFFSET if high_watermark is None else high_watermark,
    )
    topic = fetch.FetchTopic(
        topic=CLUSTER_METADATA, topic_id=METADATA_TOPIC_ID, partitions=[partition]
    )
    return fetch.FetchRequest(
        cluster_id=settings.cluster_id,
        replica_state=fetch.ReplicaState(replica_id=settings.key.id),
        max_wait_ms=settings.fetch_max_wait_ms,
        max_bytes=settings.fetch_max_bytes,
        topics=[topic],
    )


def fetch_snapshot_request(
    settings: RaftSettings, epoch: int, snapshot: OffsetAndEpoch, position: int
) -> Message:
    partition = fetch_snapshot.RequestPartitionSnapshot(
        partition=PARTITION,
        current_leader_epoch=epoch,
        snapshot_id=fetch_snapshot.SnapshotId(end_offset=snapshot.offset, epoch=snapshot.epoch),
        position=position,
        replica_directory_id=settings.key.directory_bytes,
    )
    return fetch_snapshot.FetchSnapshotRequest(
        cluster_id=settings.cluster_id,
        replica_id=settings.key.id,
        max_bytes=settings.fetch_snapshot_max_bytes,
        topics=[fetch_snapshot.RequestTopicSnapshot(name=CLUSTER_METADATA, partitions=[partition])],
    )


def node_endpoints(
    kind: type[Any], leader_id: int, endpoints: Endpoints, listener: str
) -> list[Any]:
    """Return the leader's address for a response, on the receiver's listener."""
    return [
        kind(node_id=leader_id, host=host, port=port)
        for name, host, port in endpoints
        if name == listener and leader_id >= 0
    ]
