"""What the families of blocking administration share."""

from __future__ import annotations

from ottla.blocking.client import BlockingClient
from ottla.client.admin.admin import Admin


class AdminCalls(BlockingClient):
    """Each call waits for its asynchronous twin, in the loop's thread."""

    _admin: Admin
