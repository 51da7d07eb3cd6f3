"""Peers that are made when the first request is sent: a node without others never needs them, and
starts without what they are made of."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from ottla.peers.peers import Peers
from ottla.protocol.schema import Message


class LatePeers:
    def __init__(self, make: Callable[[], Peers]) -> None:
        self._make = make
        self._peers: Peers | None = None
        self._closed = False

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
        if self._peers is None:
            self._peers = self._make()
            if self._closed:
                self._peers.close()
        return self._peers.post(
            host, port, request, timeout_ms=timeout_ms, version=version, lane=lane
        )

    def drop(self, host: str, port: int) -> None:
        if self._peers is not None:
            self._peers.drop(host, port)

    def close(self) -> None:
        self._closed = True
        if self._peers is not None:
            self._peers.close()
