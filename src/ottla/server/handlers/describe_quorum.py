"""DescribeQuorum: who leads the metadata log, who votes, who is how far behind."""

from __future__ import annotations

from typing import Final

from ottla.protocol.errors import KafkaError
from ottla.protocol.messages.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    ResponsePartitionData,
    ResponseTopicData,
)
from ottla.raft.describing import nodes_of
from ottla.raft.ids import CLUSTER_METADATA
from ottla.server.context import RequestContext
from ottla.server.handlers._quorum import ask

PATIENCE_MS: Final = 2_000
"""So long a broker waits for a controller to lead. Whoever asks wants to know how the controllers
are doing, so that nobody leads them is worth an answer."""


async def handle(context: RequestContext, request: DescribeQuorumRequest) -> DescribeQuorumResponse:
    response: DescribeQuorumResponse = await ask(context, request)
    return response


def unled(context: RequestContext, error: KafkaError) -> DescribeQuorumResponse:
    """The error, with the epoch, leader and voters that this node knows of."""
    quorum = context.node.metadata.quorum
    seen = ResponsePartitionData(
        error_code=int(error.code),
        error_message=error.message,
        leader_id=quorum.leader.leader_id,
        leader_epoch=quorum.epoch,
        high_watermark=quorum.high_watermark,
    )
    return DescribeQuorumResponse(
        error_code=int(error.code),
        error_message=error.message,
        topics=[ResponseTopicData(topic_name=CLUSTER_METADATA, partitions=[seen])],
        nodes=nodes_of(quorum.core.voters, context.api_version),
    )
