"""UpdateRaftVoter: a voter tells where it is reached and what it understands."""

from __future__ import annotations

from ottla.protocol.messages.update_raft_voter import (
    UpdateRaftVoterRequest,
    UpdateRaftVoterResponse,
)
from ottla.server.context import RequestContext
from ottla.server.handlers._quorum import ask


async def handle(
    context: RequestContext, request: UpdateRaftVoterRequest
) -> UpdateRaftVoterResponse:
    response: UpdateRaftVoterResponse = await ask(context, request)
    return response
