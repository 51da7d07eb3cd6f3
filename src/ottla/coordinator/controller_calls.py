"""What coordinators ask of the controller, wherever that is."""

from __future__ import annotations

from typing import Any, Final, Protocol

from ottla.protocol.schema import Message

ASK_TIMEOUT_MS: Final = 5_000
"""Clients wait for the answer, and try again for longer than this."""


class AskController(Protocol):
    async def __call__(self, request: Message, *, timeout_ms: int | None = None) -> Any:
        """The controller's response; raises `KafkaError` if none came in time."""
        ...
