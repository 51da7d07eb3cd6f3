"""Fetch as controllers serve it: replicas of the metadata log read it."""

from __future__ import annotations

from ottla.broker.server.context import ControllerContext
from ottla.broker.server.handlers._quorum import ask
from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.messages.fetch import FetchRequest, FetchResponse
from ottla.security.rights import Operation


async def handle(context: ControllerContext, request: FetchRequest) -> FetchResponse:
    if not context.may_on_cluster(Operation.CLUSTER_ACTION):
        raise KafkaError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    response: FetchResponse = await ask(context, request)
    return response
