"""Vote: a candidate asks for votes, or (pre-vote) whether it would get them."""

from __future__ import annotations

from ottla.broker.server.context import ControllerContext
from ottla.broker.server.contract import Handler
from ottla.broker.server.handlers._quorum import ask
from ottla.protocol.messages.vote import VoteRequest, VoteResponse


async def handle(context: ControllerContext, request: VoteRequest) -> VoteResponse:
    response: VoteResponse = await ask(context, request)
    return response


HANDLER = Handler(on_controller=handle)
