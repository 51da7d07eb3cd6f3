"""The codec of a request type in one version, and the state of a pending request."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, NamedTuple

from ottla.buffers import Buffer
from ottla.network.versions import response_class
from ottla.protocol.codec import decoder, encoder
from ottla.protocol.headers import Chunk

Decode = Callable[[Buffer, int], tuple[Any, int]]


class Exchange(NamedTuple):
    """Looked up once per connection, then used for every request of its type and version."""

    api_key: int
    version: int
    name: str
    encode: Callable[[Any], list[Chunk]]
    decode: Decode

    @classmethod
    def of(cls, request: Any, version: int, decode: Decode | None = None) -> Exchange:
        kind = type(request)
        if decode is None:
            decode = decoder(response_class(request.API_KEY), version)
        return cls(request.API_KEY, version, kind.__name__, encoder(kind, version), decode)


class Waiting:
    """A pending request, until its response, its deadline or the end of the connection."""

    __slots__ = ("correlation_id", "deadline", "exchange", "limit_ms", "reply", "sent_at")

    def __init__(
        self,
        exchange: Exchange,
        correlation_id: int,
        reply: asyncio.Future[Any],
        now: float,
        limit_ms: float,
    ) -> None:
        self.exchange = exchange
        self.correlation_id = correlation_id
        self.reply = reply
        self.limit_ms = limit_ms
        self.sent_at = now
        self.deadline = now + limit_ms / 1000

    def begins(self, now: float) -> None:
        """Start the deadline now: the request was held back until now."""
        self.sent_at = now
        self.deadline = now + self.limit_ms / 1000

    def fail(self, error: BaseException) -> None:
        if not self.reply.done():
            self.reply.set_exception(error)
