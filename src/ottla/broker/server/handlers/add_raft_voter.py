"""AddRaftVoter: add a voter to the metadata quorum."""

from __future__ import annotations

from ottla.broker.server.context import ControllerContext
from ottla.broker.server.contract import Forward, Handler
from ottla.broker.server.handlers._quorum import ask
from ottla.protocol.messages.add_raft_voter import AddRaftVoterRequest, AddRaftVoterResponse


async def handle(context: ControllerContext, request: AddRaftVoterRequest) -> AddRaftVoterResponse:
    response: AddRaftVoterResponse = await ask(context, request)
    return response


HANDLER = Handler(on_broker=Forward(), on_controller=handle)
