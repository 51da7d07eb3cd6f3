"""CreateAcls: refused, as there is no authorizer yet."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.server.contract import Handler
from ottla.broker.server.handlers._no_authorizer import refusals
from ottla.protocol.messages.create_acls import (
    AclCreationResult,
    CreateAclsRequest,
    CreateAclsResponse,
)

if TYPE_CHECKING:
    from ottla.broker.server.context import NodeContext


def handle(_context: NodeContext, request: CreateAclsRequest) -> CreateAclsResponse:
    return CreateAclsResponse(results=refusals(AclCreationResult, len(request.creations)))


HANDLER = Handler(on_broker=handle, on_controller=handle)
