"""Requests that only the active controller can serve: from any broker to it, and the answer back.

They are sent on in the version that the client speaks, so that nothing of them changes on the way.
"""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import TYPE_CHECKING, Any

from ottla.protocol.errors import KafkaError

if TYPE_CHECKING:
    from ottla.protocol.schema import Message
    from ottla.server.context import RequestContext

Refuse = Callable[[Any, KafkaError], Any]
"""(request, error) -> the answer that tells of the error, where it is not a field of the answer."""


def forwarding(module: ModuleType) -> Callable[..., Any]:
    """The handler of a broker, for an API of the controller. Its module may have, beside `handle`,
    `refuse`; `settle(context, request, response)`: waits until what was done is known here; and
    `PATIENCE_MS` with `unled(context, error)`: what this node can say itself if no controller has
    answered for so long."""
    handle: Callable[..., Any] = module.handle
    refuse: Refuse | None = getattr(module, "refuse", None)
    settle = getattr(module, "settle", None)
    patience_ms: int | None = getattr(module, "PATIENCE_MS", None)

    async def ask(context: RequestContext, request: Message) -> Any:
        if patience_ms is not None:
            try:
                return await _forward(context, request, patience_ms)
            except KafkaError as error:
                return module.unled(context, error)
        response = await forward(context, request, refuse)
        if settle is not None:
            await settle(context, request, response)
        return response

    def serve(context: RequestContext, request: Message) -> Any:
        return (handle if context.node.metadata.is_leader else ask)(context, request)

    return serve


async def forward(context: RequestContext, request: Message, refuse: Refuse | None) -> Any:
    try:
        return await _forward(context, request)
    except KafkaError as error:
        if refuse is None:
            raise
        return refuse(request, error)


async def _forward(context: RequestContext, request: Message, timeout_ms: int | None = None) -> Any:
    link = context.node.controller_link
    return await link.ask(request, version=context.api_version, timeout_ms=timeout_ms)
