"""Requests of coordinators to the controller."""

from __future__ import annotations

from typing import Any, Final, Protocol

from ottla.protocol.schema import Message

ASK_TIMEOUT_MS: Final = 5_000
"""Clients wait for the answer, and retry for longer than this."""


class AskController(Protocol):
    async def __call__(self, request: Message, *, timeout_ms: int | None = None) -> Any:
        """Return the controller's response; raise `KafkaError` if none came in time."""
        ...
