"""Who sends a request to a group."""

from __future__ import annotations

from typing import NamedTuple


class Client(NamedTuple):
    client_id: str
    host: str
    """As Kafka stores and shows it: a slash before the address."""
    api_version: int
    """The version of the request: what its sender understands."""
