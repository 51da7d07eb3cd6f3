"""BeginQuorumEpoch: the new leader of the metadata log tells the voters."""

from __future__ import annotations

from ottla.protocol.messages.begin_quorum_epoch import (
    BeginQuorumEpochRequest,
    BeginQuorumEpochResponse,
)
from ottla.server.context import RequestContext
from ottla.server.handlers._quorum import ask


async def handle(
    context: RequestContext, request: BeginQuorumEpochRequest
) -> BeginQuorumEpochResponse:
    response: BeginQuorumEpochResponse = await ask(context, request)
    return response
