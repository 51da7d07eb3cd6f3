"""Planted: the broker tells a client to wait, and serves its next request at once."""

from typing import Any

import pytest

from ottla.broker.server.connections.connection import Connection


def plant(patch: pytest.MonkeyPatch) -> None:
    def mute(self: Connection, *_: Any) -> None:
        pass

    patch.setattr(Connection, "_mute", mute)
