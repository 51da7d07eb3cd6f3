"""Requests of this node to its own controller: served by the same handlers, without a socket."""

from __future__ import annotations

import asyncio
import inspect
from typing import TYPE_CHECKING, Any

from ottla.protocol.apis import ApiKey, api
from ottla.server.context import RequestContext
from ottla.server.dispatch import CONTROLLERS, handler
from ottla.server.pending import Pending

if TYPE_CHECKING:
    from ottla.node import Node
    from ottla.protocol.schema import Message


class LocalCaller:
    """Stands where a connection would."""

    kind = CONTROLLERS
    listener_name = ""
    peer = ("127.0.0.1", 0)


async def serve_here(node: Node, request: Message, version: int | None) -> Any:
    """What the controller of this node answers; `KafkaError` as its handlers raise it."""
    key = ApiKey(request.API_KEY or 0)
    spoken = api(key).latest_stable if version is None else version
    context = RequestContext(spoken, None, LocalCaller(), node)  # type: ignore[arg-type]
    result = handler(key, CONTROLLERS)(context, request)
    if inspect.isawaitable(result):
        result = await result
    if isinstance(result, Pending):
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        result.when_resolved(answer.set_result)
        result = await answer
    return result
