"""Fetch as controllers serve it: replicas of the metadata log read it."""

from __future__ import annotations

from ottla.broker.server.context import ControllerContext
from ottla.broker.server.handlers._quorum import ask
from ottla.protocol.messages.fetch import FetchRequest, FetchResponse


async def handle(context: ControllerContext, request: FetchRequest) -> FetchResponse:
    response: FetchResponse = await ask(context, request)
    return response
