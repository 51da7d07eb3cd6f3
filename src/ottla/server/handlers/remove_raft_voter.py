"""RemoveRaftVoter: one voter less for the metadata log."""

from __future__ import annotations

from ottla.protocol.messages.remove_raft_voter import (
    RemoveRaftVoterRequest,
    RemoveRaftVoterResponse,
)
from ottla.server.context import RequestContext
from ottla.server.handlers._quorum import ask


async def handle(
    context: RequestContext, request: RemoveRaftVoterRequest
) -> RemoveRaftVoterResponse:
    response: RemoveRaftVoterResponse = await ask(context, request)
    return response
