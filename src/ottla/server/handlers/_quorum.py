"""What all APIs of the quorum have in common: the core has the answer, now or later."""

from __future__ import annotations

import asyncio
from typing import Any

from ottla.protocol.schema import Message
from ottla.server.context import RequestContext


def ask(context: RequestContext, request: Message) -> asyncio.Future[Any]:
    return context.node.metadata.quorum.handle(request, context.api_version)
