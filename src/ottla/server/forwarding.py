"""Requests that only the active controller can serve: from any broker to it, and the answer back.

They are sent on in the version that the client speaks, so that nothing of them changes on the way.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ottla.protocol.errors import KafkaError

if TYPE_CHECKING:
    from ottla.protocol.schema import Message
    from ottla.server.context import RequestContext

Refuse = Callable[[Any, KafkaError], Any]
"""(request, error) -> the answer that tells of the error, where it is not a field of the answer."""


def forwarding(handle: Callable[..., Any], refuse: Refuse | None) -> Callable[..., Any]:
    """The handler of a broker, for an API of the controller."""

    def serve(context: RequestContext, request: Message) -> Any:
        if context.node.metadata.is_leader:
            return handle(context, request)
        return forward(context, request, refuse)

    return serve


async def forward(context: RequestContext, request: Message, refuse: Refuse | None) -> Any:
    try:
        return await context.node.controller_link.ask(request, version=context.api_version)
    except KafkaError as error:
        if refuse is None:
            raise
        return refuse(request, error)
