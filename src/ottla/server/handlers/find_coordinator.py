"""FindCoordinator: nobody coordinates groups or transactions here yet, and the answer says so."""

from __future__ import annotations

from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.find_coordinator import (
    Coordinator,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from ottla.server.context import RequestContext

GROUP, TRANSACTION, SHARE = 0, 1, 2
BATCHED_FROM = 4
SHARE_FROM = 6
NO_NODE = -1


def handle(context: RequestContext, request: FindCoordinatorRequest) -> FindCoordinatorResponse:
    error, message = _error(context.api_version, request.key_type)
    if context.api_version < BATCHED_FROM:
        return FindCoordinatorResponse(
            error_code=error, error_message=message, node_id=NO_NODE, host="", port=NO_NODE
        )
    return FindCoordinatorResponse(
        coordinators=[
            Coordinator(
                key=key,
                node_id=NO_NODE,
                host="",
                port=NO_NODE,
                error_code=error,
                error_message=message,
            )
            for key in request.coordinator_keys
        ]
    )


def _error(api_version: int, key_type: int) -> tuple[ErrorCode, str]:
    known = key_type in (GROUP, TRANSACTION) or (key_type == SHARE and api_version >= SHARE_FROM)
    if not known:
        return ErrorCode.INVALID_REQUEST, f"coordinator type {key_type} is unknown"
    error = ErrorCode.COORDINATOR_NOT_AVAILABLE
    return error, error.message
