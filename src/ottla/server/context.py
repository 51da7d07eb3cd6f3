"""What a handler is told about the request besides its body."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ottla.node import Node
    from ottla.server.connection import Connection


class RequestContext:
    __slots__ = ("api_version", "client_id", "connection", "node")

    def __init__(
        self, api_version: int, client_id: str | None, connection: Connection, node: Node
    ) -> None:
        self.api_version = api_version
        self.client_id = client_id
        self.connection = connection
        self.node = node
