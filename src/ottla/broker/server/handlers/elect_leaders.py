"""ElectLeaders: elections started by hand, preferred or unclean."""

from __future__ import annotations

from ottla.broker.server.context import ControllerContext
from ottla.broker.server.contract import Forward, Handler
from ottla.protocol.errors import KafkaError
from ottla.protocol.messages.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    PartitionResult,
    ReplicaElectionResult,
)

FIRST_WITH_ERROR_CODE = 1


async def handle(context: ControllerContext, request: ElectLeadersRequest) -> ElectLeadersResponse:
    try:
        return await context.services.controller.elect_leaders(request)
    except KafkaError as error:
        response = refuse(request, error)
        if context.api_version >= FIRST_WITH_ERROR_CODE:
            response.error_code = error.code
        return response


def refuse(request: ElectLeadersRequest, error: KafkaError) -> ElectLeadersResponse:
    """Return the error for each partition: version 0 has no other field for it."""
    return ElectLeadersResponse(
        replica_election_results=[
            ReplicaElectionResult(
                topic=wanted.topic,
                partition_result=[
                    PartitionResult(
                        partition_id=index, error_code=error.code, error_message=error.message
                    )
                    for index in wanted.partitions
                ],
            )
            for wanted in request.topic_partitions or ()
        ]
    )


HANDLER = Handler(on_broker=Forward(), on_controller=handle, refuse=refuse)
