"""DeleteAcls."""

from __future__ import annotations

from collections.abc import Generator, Iterable
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
from ottla.runtime.pace import in_slices

if TYPE_CHECKING:
    from ottla.broker.controller.rights.acls import Deleted
    from ottla.broker.server.context import ControllerContext


async def handle(context: ControllerContext, request: DeleteAclsRequest) -> DeleteAclsResponse:
    services = context.services
    if services.authorizer is None:
        return refuse(request, NO_AUTHORIZER)
    try:
        outcomes = await services.controller.rights.delete_acls(request.filters)
    except KafkaError as error:
        return refuse(request, error)
    return await in_slices(services.runtime, _answer(outcomes))


def _answer(outcomes: Iterable[Deleted]) -> Generator[None, None, DeleteAclsResponse]:
    response = DeleteAclsResponse()
    for outcome in outcomes:
        if isinstance(outcome, KafkaError):
            response.filter_results.append(_failed(outcome))
            continue
        result = DeleteAclsFilterResult(error_message=None)
        response.filter_results.append(result)
        for acl in outcome:
            result.matching_acls.append(DeleteAclsMatchingAcl(error_message=None, **acl._asdict()))
            yield
    return response


def refuse(request: DeleteAclsRequest, error: KafkaError) -> DeleteAclsResponse:
    return DeleteAclsResponse(filter_results=[_failed(error)] * len(request.filters))


def _failed(error: KafkaError) -> DeleteAclsFilterResult:
    return DeleteAclsFilterResult(error_code=error.code, error_message=error.message)


HANDLER = Handler(on_broker=Forward(), on_controller=handle, refuse=refuse)
