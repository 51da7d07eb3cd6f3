"""DeleteAcls: refused, as there is no authorizer yet."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.server.contract import Handler
from ottla.broker.server.handlers._no_authorizer import refusals
from ottla.protocol.messages.delete_acls import (
    DeleteAclsFilterResult,
    DeleteAclsRequest,
    DeleteAclsResponse,
)

if TYPE_CHECKING:
    from ottla.broker.server.context import NodeContext


def handle(_context: NodeContext, request: DeleteAclsRequest) -> DeleteAclsResponse:
    return DeleteAclsResponse(filter_results=refusals(DeleteAclsFilterResult, len(request.filters)))


HANDLER = Handler(on_broker=handle, on_controller=handle)
