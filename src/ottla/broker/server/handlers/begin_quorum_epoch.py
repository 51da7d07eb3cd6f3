"""BeginQuorumEpoch: a new leader of the metadata quorum announces itself to the voters."""

from __future__ import annotations

from ottla.broker.server.context import ControllerContext
from ottla.broker.server.contract import Handler
from ottla.broker.server.handlers._quorum import ask
from ottla.protocol.messages.begin_quorum_epoch import (
    BeginQuorumEpochRequest,
    BeginQuorumEpochResponse,
)


async def handle(
    context: ControllerContext, request: BeginQuorumEpochRequest
) -> BeginQuorumEpochResponse:
    response: BeginQuorumEpochResponse = await ask(context, request)
    return response


HANDLER = Handler(on_controller=handle)
