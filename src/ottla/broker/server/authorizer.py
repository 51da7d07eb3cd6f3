"""The interface to who may do what."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from ottla.broker.server.context import NodeContext
    from ottla.security.rights import Operation, ResourceType


class Authorizer(Protocol):
    def allows(
        self,
        context: NodeContext,
        operation: Operation,
        resource_type: ResourceType,
        name: str,
        *,
        quiet: bool = False,
    ) -> bool:
        """True if the caller of a request has the right. `quiet`: do not log a refusal."""
        ...

    def allows_on_any(
        self, context: NodeContext, operation: Operation, resource_type: ResourceType
    ) -> bool:
        """True if there is a resource, of whatever name, on which the caller has the right."""
        ...
