"""UpdateRaftVoter: a voter updates its endpoints and the versions it supports."""

from __future__ import annotations

from ottla.broker.server.context import ControllerContext
from ottla.broker.server.contract import Handler
from ottla.broker.server.handlers._quorum import ask
from ottla.protocol.messages.update_raft_voter import (
    UpdateRaftVoterRequest,
    UpdateRaftVoterResponse,
)


async def handle(
    context: ControllerContext, request: UpdateRaftVoterRequest
) -> UpdateRaftVoterResponse:
    response: UpdateRaftVoterResponse = await ask(context, request)
    return response


HANDLER = Handler(on_controller=handle)
