"""EndQuorumEpoch: the leader of the metadata log resigns."""

from __future__ import annotations

from ottla.broker.server.context import ControllerContext
from ottla.broker.server.contract import Handler
from ottla.broker.server.handlers._quorum import ask
from ottla.protocol.messages.end_quorum_epoch import EndQuorumEpochRequest, EndQuorumEpochResponse


async def handle(
    context: ControllerContext, request: EndQuorumEpochRequest
) -> EndQuorumEpochResponse:
    response: EndQuorumEpochResponse = await ask(context, request)
    return response


HANDLER = Handler(on_controller=handle)
