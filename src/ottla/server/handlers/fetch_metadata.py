"""Fetch as controllers serve it: of the metadata log, by replicas of it."""

from __future__ import annotations

from ottla.protocol.messages.fetch import FetchRequest, FetchResponse
from ottla.server.context import RequestContext
from ottla.server.handlers._quorum import ask


async def handle(context: RequestContext, request: FetchRequest) -> FetchResponse:
    response: FetchResponse = await ask(context, request)
    return response
