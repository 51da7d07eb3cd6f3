"""DeleteAcls."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.server.contract import Forward, Handler
from ottla.broker.server.handlers.create_acls import NO_AUTHORIZER
from ottla.protocol.errors import KafkaError
from ottla.protocol.messages.delete_acls import (
    DeleteAclsFilterResult,
    DeleteAclsMatchingAcl,
    DeleteAclsRequest,
    DeleteAclsResponse,
)

if TYPE_CHECKING:
    from ottla.broker.server.context import ControllerContext
    from ottla.security.acls import AccessControlEntry


async def handle(context: ControllerContext, request: DeleteAclsRequest) -> DeleteAclsResponse:
    services = context.services
    if services.authorizer is None:
        return refuse(request, NO_AUTHORIZER)
    try:
        outcomes = await services.controller.delete_acls(request.filters)
    except KafkaError as error:
        return refuse(request, error)
    return DeleteAclsResponse(
        filter_results=[
            _failed(outcome)
            if isinstance(outcome, KafkaError)
            else DeleteAclsFilterResult(error_message=None, matching_acls=list(map(_gone, outcome)))
            for outcome in outcomes
        ]
    )


def refuse(request: DeleteAclsRequest, error: KafkaError) -> DeleteAclsResponse:
    return DeleteAclsResponse(filter_results=[_failed(error)] * len(request.filters))


def _failed(error: KafkaError) -> DeleteAclsFilterResult:
    return DeleteAclsFilterResult(error_code=error.code, error_message=error.message)


def _gone(acl: AccessControlEntry) -> DeleteAclsMatchingAcl:
    return DeleteAclsMatchingAcl(error_message=None, **acl._asdict())


HANDLER = Handler(on_broker=Forward(), on_controller=handle, refuse=refuse)
