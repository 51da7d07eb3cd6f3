"""DescribeAcls: refused, as there is no authorizer yet."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.server.contract import Handler
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.describe_acls import DescribeAclsRequest, DescribeAclsResponse

if TYPE_CHECKING:
    from ottla.broker.server.context import NodeContext


def handle(_context: NodeContext, _request: DescribeAclsRequest) -> DescribeAclsResponse:
    return DescribeAclsResponse(
        error_code=ErrorCode.SECURITY_DISABLED,
        error_message="No Authorizer is configured on the broker",
    )


HANDLER = Handler(on_broker=handle, on_controller=handle)
