"""Fetch at the leader: returns records from the follower's position, or where the logs agree."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ottla.broker.raft import wire
from ottla.broker.raft.delayed_fetches import DelayedFetch
from ottla.broker.raft.events import RequestReceived
from ottla.broker.raft.ids import CLUSTER_METADATA, OffsetAndEpoch, ReplicaKey
from ottla.broker.raft.log_view import BOOTSTRAP_SNAPSHOT, LogView
from ottla.broker.raft.states.leader import Leader
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages import fetch
from ottla.protocol.messages.fetch import FetchPartition, FetchRequest, FetchResponse, PartitionData
from ottla.protocol.schema import Records
from ottla.protocol.uuids import METADATA_TOPIC_ID

if TYPE_CHECKING:
    from ottla.broker.raft.replica import Replica

LEADER_ENDPOINTS_VERSION = 17


@dataclass(frozen=True, slots=True)
class Position:
    """How a follower continues: here if neither is set, after a truncation, or with a snapshot."""

    diverging: OffsetAndEpoch | None = None
    snapshot: OffsetAndEpoch | None = None


def handle(replica: Replica, event: RequestReceived, request: FetchRequest) -> None:
    if not replica.is_for_us(request.cluster_id):
        error = ErrorCode.INCONSISTENT_CLUSTER_ID
        replica.answer(event.token, FetchResponse(error_code=error))
        return
    partition = wire.only_partition(request.topics)
    if partition is None:
        replica.answer(event.token, FetchResponse(error_code=ErrorCode.INVALID_REQUEST))
        return
    if _is_senseless(request, partition):
        respond(replica, event, PartitionData(error_code=ErrorCode.INVALID_REQUEST))
        return
    answer = _try(replica, request)
    if request.max_wait_ms == 0 or _says_something(answer, partition):
        respond(replica, event, answer)
    else:
        expires_at_ms = replica.now_ms + request.max_wait_ms
        offset = partition.fetch_offset
        replica.delayed.add(DelayedFetch(event, request, offset, expires_at_ms))


def _is_senseless(request: FetchRequest, partition: FetchPartition) -> bool:
    return (
        request.max_wait_ms < 0
        or partition.fetch_offset < 0
        or not 0 <= partition.last_fetched_epoch <= partition.current_leader_epoch
    )


def _says_something(answer: PartitionData, asked: FetchPartition) -> bool:
    return bool(
        answer.error_code
        or answer.records
        or answer.diverging_epoch.epoch >= 0
        or answer.snapshot_id.end_offset >= 0
        or answer.high_watermark > asked.high_watermark
    )


def _try(replica: Replica, request: FetchRequest) -> PartitionData:
    """Return the answer as of now, and note the fetch: a follower that asks from an offset has all
    before it."""
    asked = wire.only_partition(request.topics)
    assert asked is not None
    error = replica.refuse_as_leader(asked.current_leader_epoch)
    if error is not None:
        return PartitionData(error_code=error, high_watermark=wire.NO_OFFSET)
    leader = replica.quorum.state
    assert isinstance(leader, Leader)
    position = locate(replica.log, asked.fetch_offset, asked.last_fetched_epoch)
    records: Records = b""
    if position == Position():
        key = ReplicaKey.of(replica_id(request), asked.replica_directory_id)
        end_offset = replica.log.end.offset
        records = replica.log.read(asked.fetch_offset, request.max_bytes)
        if leader.replica_fetched(key, asked.fetch_offset, end_offset, replica.now_ms):
            replica.high_watermark_moved(leader)
    return _partition(position, records, leader.high_watermark)


def _partition(position: Position, records: Records, high_watermark: int | None) -> PartitionData:
    answer = PartitionData(
        high_watermark=wire.NO_OFFSET if high_watermark is None else high_watermark,
        records=records,
    )
    if position.diverging is not None:
        offset, epoch = position.diverging
        answer.diverging_epoch = fetch.EpochEndOffset(epoch=epoch, end_offset=offset)
    elif position.snapshot is not None:
        offset, epoch = position.snapshot
        answer.snapshot_id = fetch.SnapshotId(epoch=epoch, end_offset=offset)
    return answer


def replica_id(request: FetchRequest) -> int:
    """Return the id of the replica, which moved within the request in version 15."""
    return max(request.replica_id, request.replica_state.replica_id)


def locate(log: LogView, offset: int, epoch: int) -> Position:
    """Compare a follower's log, which ends at `offset` with a record of `epoch`, to this one."""
    latest = log.latest_snapshot
    if offset == 0 and latest not in (None, BOOTSTRAP_SNAPSHOT):
        return Position(snapshot=latest)  # shorter than the log, for a follower that has nothing
    if offset == 0 and log.start_offset == 0:
        return Position()
    first = log.earliest_snapshot
    if first is not None and (
        offset < first.offset
        or (offset == first.offset and epoch != first.epoch)
        or epoch < first.epoch
    ):
        return Position(snapshot=latest)
    common = log.end_offset_for_epoch(epoch)
    if common.epoch != epoch or common.offset < offset:
        return Position(diverging=common)
    return Position()


def respond(replica: Replica, event: RequestReceived, partition: PartitionData) -> None:
    quorum = replica.quorum
    partition.log_start_offset = replica.log.start_offset
    partition.current_leader = fetch.LeaderIdAndEpoch(
        leader_id=quorum.leader_id, leader_epoch=quorum.epoch
    )
    topic = fetch.FetchableTopicResponse(
        topic=CLUSTER_METADATA, topic_id=METADATA_TOPIC_ID, partitions=[partition]
    )
    response = FetchResponse(responses=[topic])
    if event.version >= LEADER_ENDPOINTS_VERSION:
        response.node_endpoints = wire.node_endpoints(
            fetch.NodeEndpoint,
            quorum.leader_id,
            quorum.state.leader_endpoints,
            replica.settings.listener,
        )
    replica.answer(event.token, response)


def answer_with_new_records(replica: Replica) -> None:
    for waiting in replica.delayed.take_before(replica.log.end.offset):
        respond(replica, waiting.event, _try(replica, waiting.request))


def answer_all(replica: Replica) -> None:
    """Answer all waiting fetches: the high watermark is new for all of them."""
    for waiting in replica.delayed.take_all():
        respond(replica, waiting.event, _try(replica, waiting.request))


def answer_expired(replica: Replica) -> None:
    """Answer fetches whose wait is over, without records. This does not count as a new sign of life
    of the follower."""
    leader = replica.quorum.state
    for waiting in replica.delayed.take_expired(replica.now_ms):
        assert isinstance(leader, Leader), "who waits at a leader is turned away when it leaves"
        respond(replica, waiting.event, _partition(Position(), b"", leader.high_watermark))


def refuse_all(replica: Replica, error: ErrorCode) -> None:
    for waiting in replica.delayed.take_all():
        answer = PartitionData(error_code=error, high_watermark=wire.NO_OFFSET)
        respond(replica, waiting.event, answer)
