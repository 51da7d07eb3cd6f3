"""DescribeQuorum: who leads, who follows, and how far behind."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages import describe_quorum
from ottla.protocol.messages.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    ReplicaState,
    ResponsePartitionData,
)
from ottla.raft import wire
from ottla.raft.events import RequestReceived
from ottla.raft.ids import CLUSTER_METADATA
from ottla.raft.states.leader import Leader
from ottla.raft.states.progress import Progress

if TYPE_CHECKING:
    from ottla.raft.replica import Replica


def handle(replica: Replica, event: RequestReceived, request: DescribeQuorumRequest) -> None:
    leader = replica.quorum.state
    if wire.only_partition(request.topics) is None:
        replica.answer(event.token, _unknown(request))
    elif isinstance(leader, Leader):
        response = _response([_describe(replica, leader, event.wall_ms)])
        response.nodes = _nodes(replica)
        replica.answer(event.token, response)
    else:
        text = f"the leader is {replica.quorum.leader_id}"
        error = ErrorCode.NOT_LEADER_OR_FOLLOWER
        replica.answer(
            event.token,
            _response([ResponsePartitionData(error_code=error, error_message=text)]),
        )


def _response(partitions: list[ResponsePartitionData]) -> DescribeQuorumResponse:
    topic = describe_quorum.ResponseTopicData(topic_name=CLUSTER_METADATA, partitions=partitions)
    return DescribeQuorumResponse(topics=[topic])


def _unknown(request: DescribeQuorumRequest) -> DescribeQuorumResponse:
    error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return DescribeQuorumResponse(
        topics=[
            describe_quorum.ResponseTopicData(
                topic_name=topic.topic_name,
                partitions=[
                    ResponsePartitionData(partition_index=each.partition_index, error_code=error)
                    for each in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )


def _describe(replica: Replica, leader: Leader, wall_ms: int) -> ResponsePartitionData:
    return ResponsePartitionData(
        partition_index=wire.PARTITION,
        leader_id=replica.quorum.leader_id,
        leader_epoch=replica.quorum.epoch,
        high_watermark=wire.NO_OFFSET if leader.high_watermark is None else leader.high_watermark,
        current_voters=[_state(replica, each, wall_ms) for each in leader.voters],
        observers=[_state(replica, each, wall_ms) for each in leader.observers(replica.now_ms)],
    )


def _state(replica: Replica, progress: Progress, wall_ms: int) -> ReplicaState:
    """The clock of the core runs since the start of the machine; people read the time of day."""

    def wall(then_ms: int | None) -> int:
        return -1 if then_ms is None else wall_ms - (replica.now_ms - then_ms)

    is_leader = progress.key.id == replica.settings.key.id
    end_offset = replica.log.end.offset if is_leader else progress.end_offset
    return ReplicaState(
        replica_id=progress.key.id,
        replica_directory_id=progress.key.directory_bytes,
        log_end_offset=wire.NO_OFFSET if end_offset is None else end_offset,
        last_fetch_timestamp=wall_ms if is_leader else wall(progress.fetched_at_ms),
        last_caught_up_timestamp=wall_ms if is_leader else wall(progress.caught_up_at_ms),
    )


def _nodes(replica: Replica) -> list[describe_quorum.Node]:
    return [
        describe_quorum.Node(
            node_id=voter.key.id,
            listeners=[
                describe_quorum.Listener(name=name, host=host, port=port)
                for name, host, port in voter.endpoints
            ],
        )
        for voter in replica.history.voters
    ]
