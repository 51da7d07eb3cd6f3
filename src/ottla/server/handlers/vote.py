"""Vote: a candidate for the leadership of the metadata log asks, or asks whether to stand."""

from __future__ import annotations

from ottla.protocol.messages.vote import VoteRequest, VoteResponse
from ottla.server.context import RequestContext
from ottla.server.handlers._quorum import ask


async def handle(context: RequestContext, request: VoteRequest) -> VoteResponse:
    response: VoteResponse = await ask(context, request)
    return response
