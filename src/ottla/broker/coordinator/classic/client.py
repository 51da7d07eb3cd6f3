"""The sender of a group request."""

from __future__ import annotations

from typing import NamedTuple


class Client(NamedTuple):
    client_id: str
    host: str
    """In the format that Kafka stores and shows: a slash before the address."""
    api_version: int
    """The version of the request, by which the sender understands its answer."""
