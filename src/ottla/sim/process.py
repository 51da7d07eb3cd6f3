"""One life of a program on a simulated machine, and how its code ends when the process dies.

Every callback runs in a context that names its process, and the loop asks the process before each
one. Death is therefore exact: after it no further line of that program runs, no `finally`, no
timer, as after `kill -9`. Code that is on the stack at that moment (the crash came from inside a
disk call) is unwound by `SimulatedCrash`, and whatever it touches on its way out raises it again.
"""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Callable

PROCESS: contextvars.ContextVar[Process] = contextvars.ContextVar("PROCESS")


class SimulatedCrash(BaseException):
    """The process does not exist any more. Not an `Exception`: no handler may survive a crash."""


class ProcessDied(Exception):
    """Raised in code outside a process that waits for something the process did when it died."""


class Process:
    def __init__(self, host: str, boot: int) -> None:
        self.host = host
        self.boot = boot
        self.alive = True
        self.paused = False
        self.waiting: list[asyncio.Handle] = []
        """Callbacks that came due during a pause, in order."""
        self.context = contextvars.Context()
        self.context.run(PROCESS.set, self)
        self.at_death: list[Callable[[], None]] = []
        self.operations_until_crash: int | None = None
        self.crash: Callable[[], None] = self.die
        self.new_runtime: Callable[[], object] | None = None
        """Makes another runtime for the programs of this process; each is closed on its own."""

    def check_alive(self) -> None:
        if not self.alive:
            raise SimulatedCrash(f"{self} is dead")

    def crash_is_due(self) -> bool:
        """Count down one disk operation; return True if the process is to die in this one."""
        if self.operations_until_crash is None:
            return False
        self.operations_until_crash -= 1
        return self.operations_until_crash < 0

    def crash_now(self) -> None:
        """Crash inside an operation: the caller's stack is unwound, it never gets an answer."""
        self.operations_until_crash = None
        self.crash()
        raise SimulatedCrash(f"{self} crashed inside an operation")

    def die(self) -> None:
        self.alive = False
        self.waiting.clear()
        callbacks, self.at_death = self.at_death, []
        for callback in callbacks:
            callback()

    def __repr__(self) -> str:
        return f"{self.host}#{self.boot}"
