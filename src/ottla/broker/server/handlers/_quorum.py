"""Shared by all APIs of the quorum: the quorum answers, now or later."""

from __future__ import annotations

import asyncio
from typing import Any

from ottla.broker.server.context import NodeContext
from ottla.protocol.schema import Message


def ask(context: NodeContext, request: Message) -> asyncio.Future[Any]:
    return context.services.metadata.quorum.handle(request, context.api_version)
