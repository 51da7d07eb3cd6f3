"""FetchSnapshot, at the leader and at the follower that needs one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.raft import responses, wire
from ottla.broker.raft.events import RequestReceived
from ottla.broker.raft.ids import CLUSTER_METADATA, OffsetAndEpoch, ReplicaKey
from ottla.broker.raft.log_view import BOOTSTRAP_SNAPSHOT, has
from ottla.broker.raft.states.follower import Follower
from ottla.broker.raft.states.leader import Leader
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages import fetch_snapshot
from ottla.protocol.messages.fetch_snapshot import (
    FetchSnapshotRequest,
    FetchSnapshotResponse,
    RequestPartitionSnapshot,
    ResponsePartitionSnapshot,
)

if TYPE_CHECKING:
    from ottla.broker.raft.replica import Replica


def handle(replica: Replica, event: RequestReceived, request: FetchSnapshotRequest) -> None:
    asked = wire.only_partition(request.topics)
    if not replica.is_for_us(request.cluster_id):
        response = FetchSnapshotResponse(error_code=ErrorCode.INCONSISTENT_CLUSTER_ID)
        replica.answer(event.token, response)
    elif asked is None:
        response = FetchSnapshotResponse(error_code=ErrorCode.INVALID_REQUEST)
        replica.answer(event.token, response)
    else:
        _respond(replica, event, _read(replica, request, asked))


def _read(
    replica: Replica, request: FetchSnapshotRequest, asked: RequestPartitionSnapshot
) -> ResponsePartitionSnapshot:
    error = replica.refuse_as_leader(asked.current_leader_epoch)
    if error is not None:
        return ResponsePartitionSnapshot(error_code=error, unaligned_records=b"")
    snapshot = OffsetAndEpoch(asked.snapshot_id.end_offset, asked.snapshot_id.epoch)
    part = replica.log.read_snapshot(snapshot, max(asked.position, 0), request.max_bytes)
    if part is None or snapshot == BOOTSTRAP_SNAPSHOT:
        error = ErrorCode.SNAPSHOT_NOT_FOUND
        return ResponsePartitionSnapshot(error_code=error, unaligned_records=b"")
    if not 0 <= asked.position < part.size:
        error = ErrorCode.POSITION_OUT_OF_RANGE
        return ResponsePartitionSnapshot(error_code=error, unaligned_records=b"")
    leader = replica.quorum.state
    assert isinstance(leader, Leader)
    key = ReplicaKey.of(request.replica_id, asked.replica_directory_id)
    leader.replica_is_alive(key, replica.now_ms)
    return ResponsePartitionSnapshot(
        snapshot_id=asked.snapshot_id,
        size=part.size,
        position=asked.position,
        unaligned_records=part.records,
    )


def _respond(
    replica: Replica, event: RequestReceived, partition: ResponsePartitionSnapshot
) -> None:
    quorum = replica.quorum
    partition.current_leader = fetch_snapshot.LeaderIdAndEpoch(
        leader_id=quorum.leader_id, leader_epoch=quorum.epoch
    )
    topic = fetch_snapshot.ResponseTopicSnapshot(name=CLUSTER_METADATA, partitions=[partition])
    response = FetchSnapshotResponse(topics=[topic])
    if event.version >= 1:
        response.node_endpoints = wire.node_endpoints(
            fetch_snapshot.NodeEndpoint,
            quorum.leader_id,
            quorum.state.leader_endpoints,
            replica.settings.listener,
        )
    replica.answer(event.token, response)


def fetched(replica: Replica, response: FetchSnapshotResponse) -> bool:
    """Process a part of a snapshot; True if the leader may be asked for the next at once."""
    partition = wire.only_partition(response.topics)
    if response.error_code or partition is None:
        return False
    told = partition.current_leader
    error = partition.error_code
    is_gone = error in (ErrorCode.SNAPSHOT_NOT_FOUND, ErrorCode.POSITION_OUT_OF_RANGE)
    handled = responses.learn(
        replica,
        ErrorCode.NONE if is_gone else error,
        told.leader_epoch,
        told.leader_id,
        responses.leader_endpoints(replica, told.leader_id, response.node_endpoints),
    )
    follower = replica.follower
    if handled is not None or follower is None:
        return bool(handled)
    if is_gone:
        follower.fetching = None  # the leader has a later one by now: ask again from the start
    elif not _take(replica, follower, partition):
        return False
    follower.fetch_succeeded(replica.now_ms, replica.settings.fetch_timeout_ms)
    return True


def _take(replica: Replica, follower: Follower, part: ResponsePartitionSnapshot) -> bool:
    fetching = follower.fetching
    snapshot = OffsetAndEpoch(part.snapshot_id.end_offset, part.snapshot_id.epoch)
    if fetching is None or fetching.snapshot != snapshot or fetching.position != part.position:
        return False
    records = part.unaligned_records or b""
    replica.log.write_snapshot(snapshot, fetching.position, records)
    fetching.position += len(records)
    if fetching.position >= part.size:
        fetching.is_complete = True
        replica.effects.store_snapshot = snapshot
    return True


def stored(replica: Replica, snapshot: OffsetAndEpoch) -> None:
    """The snapshot is durable: it replaces the log, which was shorter.

    This is right in any state: a snapshot contains only committed records.
    """
    follower = replica.follower
    if follower is not None and follower.fetching and follower.fetching.snapshot == snapshot:
        follower.fetching = None
    if not has(replica.log, snapshot):
        replica.connections.reset()  # requests in flight continue another log
        replica.restart_at(snapshot)
    replica.committed(snapshot.offset)


def refused(replica: Replica, snapshot: OffsetAndEpoch) -> None:
    follower = replica.follower
    if follower is not None and follower.fetching and follower.fetching.snapshot == snapshot:
        follower.fetching = None
        replica.connections.rest(follower.leader_id, replica.now_ms)
