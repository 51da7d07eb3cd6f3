"""The operations that a client may do on a resource, as the bit field in responses."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ottla.security.rights import CLUSTER_NAME, ResourceType
from ottla.security.rights import Operation as Op

if TYPE_CHECKING:
    from ottla.broker.server.context import NodeContext

NOT_ASKED: Final = -(2**31)
"""The value if the client did not ask for its authorized operations."""

_NONE: Final = 0

_OPERATIONS: Final = {
    ResourceType.TOPIC: (
        *(Op.READ, Op.WRITE, Op.CREATE, Op.DELETE, Op.ALTER, Op.DESCRIBE),
        *(Op.DESCRIBE_CONFIGS, Op.ALTER_CONFIGS),
    ),
    ResourceType.CLUSTER: (
        *(Op.CREATE, Op.ALTER, Op.DESCRIBE, Op.CLUSTER_ACTION),
        *(Op.DESCRIBE_CONFIGS, Op.ALTER_CONFIGS, Op.IDEMPOTENT_WRITE),
    ),
    ResourceType.GROUP: (
        *(Op.READ, Op.DELETE, Op.DESCRIBE),
        *(Op.DESCRIBE_CONFIGS, Op.ALTER_CONFIGS),
    ),
}
"""The operations that there are on a type of resource."""


def authorized_operations(context: NodeContext, resource_type: ResourceType, name: str) -> int:
    """Return the operations that the client may do: without an authorizer, all there are."""
    return sum(
        1 << operation
        for operation in _OPERATIONS[resource_type]
        if context.may(operation, resource_type, name, quiet=True)
    )


def authorized_operations_on_cluster(context: NodeContext) -> int:
    """Return none to a client that may not describe the cluster, as Kafka does."""
    if not context.may_on_cluster(Op.DESCRIBE):
        return _NONE
    return authorized_operations(context, ResourceType.CLUSTER, CLUSTER_NAME)
