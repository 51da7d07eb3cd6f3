"""The runtime that a client uses if it is given none."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ottla.runtime.runtime import Runtime


def new_runtime() -> Runtime:
    """Create a runtime for the running loop. A loop with a runtime of its own, such as a
    simulation's, has a method `new_runtime`. The caller closes the runtime."""
    make = getattr(asyncio.get_running_loop(), "new_runtime", None)
    if make is not None:
        made: Runtime = make()
        return made
    from ottla.runtime.os_runtime import OsRuntime

    return OsRuntime()
