"""DescribeAcls: the ACLs that a filter matches, by resource."""

from __future__ import annotations

from collections.abc import Coroutine, Generator, Mapping
from typing import TYPE_CHECKING, Any, Final

from ottla.broker.server.contract import Handler
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.describe_acls import (
    AclDescription,
    DescribeAclsRequest,
    DescribeAclsResource,
    DescribeAclsResponse,
)
from ottla.runtime.pace import at_once, many_in_slices
from ottla.security.acls import AclFilter

if TYPE_CHECKING:
    from ottla.broker.server.context import NodeContext
    from ottla.security.acls import AccessControlEntry

AT_ONCE_ACLS_MAX: Final = 1_000
"""Above this number of ACLs the answer is built in slices."""


def handle(
    context: NodeContext, request: DescribeAclsRequest
) -> DescribeAclsResponse | Coroutine[Any, Any, DescribeAclsResponse]:
    services = context.services
    if services.authorizer is None:
        return DescribeAclsResponse(
            error_code=ErrorCode.SECURITY_DISABLED,
            error_message="No Authorizer is configured on the broker",
        )
    acls = services.metadata.image.acls
    steps = _answer(acls, request)
    if len(acls) <= AT_ONCE_ACLS_MAX:
        return at_once(steps)
    return many_in_slices(services.runtime, steps)


def _answer(
    acls: Mapping[bytes, AccessControlEntry], request: DescribeAclsRequest
) -> Generator[None, None, DescribeAclsResponse]:
    wanted = AclFilter(
        request.resource_type_filter,
        request.resource_name_filter,
        request.pattern_type_filter,
        request.principal_filter,
        request.host_filter,
        request.operation,
        request.permission_type,
    )
    resources: dict[tuple[int, str, int], DescribeAclsResource] = {}
    for acl in acls.values():
        if wanted.matches(acl):
            pattern = acl[:3]
            resource = resources.get(pattern)
            if resource is None:
                kind, name, pattern_type = pattern
                resource = resources[pattern] = DescribeAclsResource(
                    resource_type=kind, resource_name=name, pattern_type=pattern_type
                )
            resource.acls.append(
                AclDescription(
                    principal=acl.principal,
                    host=acl.host,
                    operation=acl.operation,
                    permission_type=acl.permission_type,
                )
            )
        yield
    response = DescribeAclsResponse(resources=list(resources.values()))
    while resources:  # freeing them in one go takes tens of milliseconds
        resources.popitem()
        yield
    return response


HANDLER = Handler(on_broker=handle, on_controller=handle)
