"""CreateAcls."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ottla.broker.server.contract import Forward, Handler
from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.messages.create_acls import (
    AclCreationResult,
    CreateAclsRequest,
    CreateAclsResponse,
)

if TYPE_CHECKING:
    from ottla.broker.server.context import ControllerContext

NO_AUTHORIZER: Final = KafkaError(ErrorCode.SECURITY_DISABLED, "No Authorizer is configured.")


async def handle(context: ControllerContext, request: CreateAclsRequest) -> CreateAclsResponse:
    services = context.services
    if services.authorizer is None:
        return refuse(request, NO_AUTHORIZER)
    try:
        outcomes = await services.controller.rights.create_acls(request.creations)
    except KafkaError as error:
        return refuse(request, error)
    done = AclCreationResult()
    return CreateAclsResponse(
        results=[done if error is None else _failed(error) for error in outcomes]
    )


def refuse(request: CreateAclsRequest, error: KafkaError) -> CreateAclsResponse:
    return CreateAclsResponse(results=[_failed(error)] * len(request.creations))


def _failed(error: KafkaError) -> AclCreationResult:
    return AclCreationResult(error_code=error.code, error_message=error.message)


HANDLER = Handler(on_broker=Forward(), on_controller=handle, refuse=refuse)
