"""DescribeQuorum: the leader, the followers, and how far they are."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ottla.broker.raft import wire
from ottla.broker.raft.events import RequestReceived
from ottla.broker.raft.ids import CLUSTER_METADATA
from ottla.broker.raft.states.leader import Leader
from ottla.broker.raft.states.progress import Progress
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages import describe_quorum
from ottla.protocol.messages.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    ReplicaState,
    ResponsePartitionData,
)
from ottla.protocol.uuids import ZERO_UUID

if TYPE_CHECKING:
    from ottla.broker.raft.replica import Replica
    from ottla.broker.raft.voters.voters import VoterSet

NODES_FROM: Final = 2
"""The first version whose responses contain the voters' addresses and directories."""


def handle(replica: Replica, event: RequestReceived, request: DescribeQuorumRequest) -> None:
    leader = replica.quorum.state
    if wire.only_partition(request.topics) is None:
        replica.answer(event.token, _unknown(request))
    elif isinstance(leader, Leader):
        response = _response([_describe(replica, leader, event)])
        response.nodes = nodes_of(replica.history.voters, event.version)
        replica.answer(event.token, response)
    else:
        quorum = replica.quorum
        seen = ResponsePartitionData(
            error_code=ErrorCode.NOT_LEADER_OR_FOLLOWER,
            error_message=f"the leader is {quorum.leader_id}",
            leader_id=quorum.leader_id,
            leader_epoch=quorum.epoch,
        )
        response = _response([seen])
        response.nodes = nodes_of(replica.history.voters, event.version)
        replica.answer(event.token, response)


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


def _describe(replica: Replica, leader: Leader, event: RequestReceived) -> ResponsePartitionData:
    observers = leader.observers(replica.now_ms)
    return ResponsePartitionData(
        partition_index=wire.PARTITION,
        leader_id=replica.quorum.leader_id,
        leader_epoch=replica.quorum.epoch,
        high_watermark=wire.NO_OFFSET if leader.high_watermark is None else leader.high_watermark,
        current_voters=[_state(replica, each, event) for each in leader.voters],
        observers=[_state(replica, each, event) for each in observers],
    )


def _state(replica: Replica, progress: Progress, event: RequestReceived) -> ReplicaState:
    """Describe a replica's progress. The core's clock counts from the start of the machine;
    responses need wall-clock time."""
    wall_ms = event.wall_ms

    def wall(then_ms: int | None) -> int:
        return -1 if then_ms is None else wall_ms - (replica.now_ms - then_ms)

    is_leader = progress.key.id == replica.settings.key.id
    end_offset = replica.log.end.offset if is_leader else progress.end_offset
    return ReplicaState(
        replica_id=progress.key.id,
        replica_directory_id=progress.key.directory_bytes
        if event.version >= NODES_FROM
        else ZERO_UUID,
        log_end_offset=wire.NO_OFFSET if end_offset is None else end_offset,
        last_fetch_timestamp=wall_ms if is_leader else wall(progress.fetched_at_ms),
        last_caught_up_timestamp=wall_ms if is_leader else wall(progress.caught_up_at_ms),
    )


def nodes_of(voters: VoterSet, version: int) -> list[describe_quorum.Node]:
    """Return the voters' addresses, in versions that have them."""
    if version < NODES_FROM:
        return []
    return [
        describe_quorum.Node(
            node_id=voter.key.id,
            listeners=[
                describe_quorum.Listener(name=name, host=host, port=port)
                for name, host, port in voter.endpoints
            ],
        )
        for voter in voters
    ]
