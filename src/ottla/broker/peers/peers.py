"""Requests to other nodes, by address."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, Protocol

from ottla.protocol.errors import ErrorCode
from ottla.protocol.schema import Message


class PeerError(Exception):
    """No answer came: the node was not reached, the connection was lost, the time was up, or there
    is no common version.

    `code` is NETWORK_EXCEPTION, REQUEST_TIMED_OUT or UNSUPPORTED_VERSION. `refused`: no process
    listens at the address.
    """

    def __init__(self, code: ErrorCode, reason: str, *, refused: bool = False) -> None:
        super().__init__(reason)
        self.code = code
        self.refused = refused


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
        """Send a request, over a connection that is opened if necessary; the future is the
        response.

        Requests of one (host, port, lane) are sent in order and answered in order: requests that
        must not wait for others have a lane of their own ("raft", "control", "fetch-0", "markers").
        The newest version that both sides know is used, unless `version` is given. The future fails
        with `PeerError` and nothing else, at the latest after `timeout_ms`.
        """
        ...

    def versions(self, host: str, port: int) -> Mapping[int, tuple[int, int]] | None:
        """Return API key -> (lowest, highest) version that the node serves; None if there is no
        connection to it."""
        ...

    def drop(self, host: str, port: int) -> None:
        """Close the connections to this address; requests in flight fail."""
        ...

    def close(self) -> None:
        """Close all connections; requests in flight, and later ones, fail."""
        ...
