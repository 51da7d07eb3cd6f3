"""The world that a client finds itself in when it is given none."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ottla.runtime.runtime import Runtime


def new_runtime() -> Runtime:
    """Of the running loop's world: a loop that is a world of its own, as a simulation's, says so
    by having `new_runtime`. Whoever asked closes it."""
    make = getattr(asyncio.get_running_loop(), "new_runtime", None)
    if make is not None:
        made: Runtime = make()
        return made
    from ottla.runtime.os_runtime import OsRuntime

    return OsRuntime()
