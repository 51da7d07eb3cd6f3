"""Refuses requests whose caller lacks the right on the cluster that their API asks for."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from ottla.broker.server.api_rights import API_RIGHTS
from ottla.protocol.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from ottla.broker.server.context import RequestContext
    from ottla.broker.server.contract import Refuse
    from ottla.protocol.apis import ApiKey
    from ottla.protocol.schema import Struct

C = TypeVar("C", bound="RequestContext[Any]")


def guarded(
    key: ApiKey, serve: Callable[[C, Any], Any], refuse: Refuse | None
) -> Callable[[C, Any], Any]:
    """Return `serve`, behind the check of what `API_RIGHTS` wants before it."""
    right = API_RIGHTS[key].before
    if right is None:
        return serve
    operation = right.operation

    def serve_if_allowed(context: C, request: Any) -> Any:
        if context.may_on_cluster(operation):
            return serve(context, request)
        error = KafkaError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
        if refuse is None:
            raise error
        response = refuse(request, error)
        if _has_error_code(response, context.api_version):
            response.error_code = int(error.code)
        return response

    return serve_if_allowed


def _has_error_code(response: Struct, version: int) -> bool:
    """True if the response has a field for an error of the whole request, too."""
    return any(field.name == "error_code" and field.exists_in(version) for field in response.FIELDS)
