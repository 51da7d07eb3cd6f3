"""AddRaftVoter: one more voter for the metadata log."""

from __future__ import annotations

from ottla.protocol.messages.add_raft_voter import AddRaftVoterRequest, AddRaftVoterResponse
from ottla.server.context import RequestContext
from ottla.server.handlers._quorum import ask


async def handle(context: RequestContext, request: AddRaftVoterRequest) -> AddRaftVoterResponse:
    response: AddRaftVoterResponse = await ask(context, request)
    return response
