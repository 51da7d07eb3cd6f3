"""EndQuorumEpoch: the leader of the metadata log resigns."""

from __future__ import annotations

from ottla.protocol.messages.end_quorum_epoch import EndQuorumEpochRequest, EndQuorumEpochResponse
from ottla.server.context import RequestContext
from ottla.server.handlers._quorum import ask


async def handle(context: RequestContext, request: EndQuorumEpochRequest) -> EndQuorumEpochResponse:
    response: EndQuorumEpochResponse = await ask(context, request)
    return response
