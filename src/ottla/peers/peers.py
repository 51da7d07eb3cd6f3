"""Requests to other nodes, by address."""

from __future__ import annotations

import asyncio
from typing import Any, Protocol

from ottla.protocol.errors import ErrorCode
from ottla.protocol.schema import Message


class PeerError(Exception):
    """No answer came: not reached, connection lost, too late, or no version that both know.

    `code` is NETWORK_EXCEPTION, REQUEST_TIMED_OUT or UNSUPPORTED_VERSION.
    """

    def __init__(self, code: ErrorCode, reason: str) -> None:
        super().__init__(reason)
        self.code = code


class Peers(Protocol):
    def post(
        self,
        host: str,
        port: int,
        request: Message,
        *,
        timeout_ms: int,
        version: int | None = None,
        lane: str = "",
    ) -> asyncio.Future[Any]:
        """Send, over a connection that is opened if need be; the future is the response.

        Requests of one (host, port, lane) go in order, and so do their answers: what must not wait
        behind others has a lane of its own ("raft", "control", "fetch-0", "markers"). Spoken is the
        newest version that both sides know, unless `version` is given. The future fails with
        `PeerError` and nothing else, at the latest after `timeout_ms`.
        """
        ...

    def drop(self, host: str, port: int) -> None:
        """Close the connections to this address; what is under way fails."""
        ...

    def close(self) -> None:
        """Close all; what is under way, and what comes after, fails."""
        ...
