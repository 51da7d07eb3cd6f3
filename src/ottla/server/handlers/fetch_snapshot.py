"""FetchSnapshot: a part of a snapshot, for who lacks what the log no longer has."""

from __future__ import annotations

from ottla.protocol.messages.fetch_snapshot import FetchSnapshotRequest, FetchSnapshotResponse
from ottla.server.context import RequestContext
from ottla.server.handlers._quorum import ask


async def handle(context: RequestContext, request: FetchSnapshotRequest) -> FetchSnapshotResponse:
    response: FetchSnapshotResponse = await ask(context, request)
    return response
