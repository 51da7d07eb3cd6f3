"""Peers that are created when the first request is sent: a single node never needs them, and starts
without importing their code."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

from ottla.broker.peers.peers import Peers
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

    def versions(self, host: str, port: int) -> Mapping[int, tuple[int, int]] | None:
        return None if self._peers is None else self._peers.versions(host, port)

    def drop(self, host: str, port: int) -> None:
        if self._peers is not None:
            self._peers.drop(host, port)

    def close(self) -> None:
        self._closed = True
        if self._peers is not None:
            self._peers.close()
