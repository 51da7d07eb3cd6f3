"""RemoveRaftVoter: remove a voter from the metadata quorum."""

from __future__ import annotations

from ottla.broker.server.context import ControllerContext
from ottla.broker.server.contract import Forward, Handler
from ottla.broker.server.handlers._quorum import ask
from ottla.protocol.messages.remove_raft_voter import (
    RemoveRaftVoterRequest,
    RemoveRaftVoterResponse,
)


async def handle(
    context: ControllerContext, request: RemoveRaftVoterRequest
) -> RemoveRaftVoterResponse:
    response: RemoveRaftVoterResponse = await ask(context, request)
    return response


HANDLER = Handler(on_broker=Forward(), on_controller=handle)
