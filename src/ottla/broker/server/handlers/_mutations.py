"""The quota of clients that create and delete partitions (KIP-599)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.quotas.mutations import Mutation

if TYPE_CHECKING:
    from ottla.broker.server.context import ControllerContext


def mutation_of(context: ControllerContext, strict_from: int) -> Mutation:
    """Return what the request takes from its client's budget. From version `strict_from` on,
    clients know THROTTLING_QUOTA_EXCEEDED; older ones are only made to wait."""
    services, caller = context.services, context.caller
    is_strict = context.api_version >= strict_from
    quotas = services.metadata.image.client_quotas
    if not quotas or caller.is_this_node:
        return services.mutations.unlimited()
    return services.mutations.mutation(
        quotas, caller.principal.name, context.client_id or "", is_strict=is_strict
    )
