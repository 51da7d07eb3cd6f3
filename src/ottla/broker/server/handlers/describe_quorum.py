"""DescribeQuorum: the leader and voters of the metadata quorum, and how far each replica is."""

from __future__ import annotations

from typing import Final

from ottla.broker.raft.describing import nodes_of
from ottla.broker.raft.ids import CLUSTER_METADATA
from ottla.broker.server.context import BrokerContext, ControllerContext
from ottla.broker.server.contract import Forward, Handler
from ottla.broker.server.handlers._quorum import ask
from ottla.protocol.errors import KafkaError
from ottla.protocol.messages.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    ResponsePartitionData,
    ResponseTopicData,
)

CONTROLLER_WAIT_MS_MAX: Final = 2_000
"""How long a broker waits for a controller to lead. The client wants to know the state of the
controllers, so "there is no leader" is a useful answer."""


async def handle(
    context: ControllerContext, request: DescribeQuorumRequest
) -> DescribeQuorumResponse:
    response: DescribeQuorumResponse = await ask(context, request)
    return response


def answer_alone(context: BrokerContext, error: KafkaError) -> DescribeQuorumResponse:
    """Return the error, with the epoch, leader and voters that this node knows of."""
    quorum = context.services.metadata.quorum
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


HANDLER = Handler(
    on_broker=Forward(answer_alone=answer_alone, controller_wait_ms_max=CONTROLLER_WAIT_MS_MAX),
    on_controller=handle,
)
