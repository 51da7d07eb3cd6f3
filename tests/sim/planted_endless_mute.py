"""Planted: a connection is muted for as many seconds as its client was told milliseconds."""

import pytest

from ottla.broker.server.connections.meter import Mute
from ottla.runtime.runtime import Runtime

init = Mute.__init__


def plant(patch: pytest.MonkeyPatch) -> None:
    def for_long(self: Mute, runtime: Runtime, throttle_ms: int) -> None:
        init(self, runtime, throttle_ms * 1000)

    patch.setattr(Mute, "__init__", for_long)
