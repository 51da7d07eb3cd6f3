"""FetchSnapshot: send a part of a snapshot to a replica that needs records the log no longer
has."""

from __future__ import annotations

from ottla.broker.server.context import ControllerContext
from ottla.broker.server.contract import Handler
from ottla.broker.server.handlers._quorum import ask
from ottla.protocol.messages.fetch_snapshot import FetchSnapshotRequest, FetchSnapshotResponse


async def handle(
    context: ControllerContext, request: FetchSnapshotRequest
) -> FetchSnapshotResponse:
    response: FetchSnapshotResponse = await ask(context, request)
    return response


HANDLER = Handler(on_controller=handle)
