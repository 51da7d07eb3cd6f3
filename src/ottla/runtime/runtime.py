"""The one object through which the rest of Ottla reaches the world."""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Protocol, TypeVar

from ottla.runtime.clock import Clock
from ottla.runtime.disk import Disk
from ottla.runtime.network import Network
from ottla.runtime.worker import Worker

T = TypeVar("T")


class Timer(Protocol):
    def cancel(self) -> None: ...


class Runtime(Protocol):
    clock: Clock
    disk: Disk
    network: Network
    open_files_max: int
    """How many descriptors this process may have: files and connections share them."""
    random: random.Random
    """The only source of chance (topic ids, session ids, jitter); seeded in a simulation."""

    def call_later(self, delay_s: float, callback: Callable[..., object], *args: Any) -> Timer: ...

    def call_soon(self, callback: Callable[..., object], *args: Any) -> None: ...

    def in_thread(self, function: Callable[..., T], *args: Any) -> Awaitable[T]:
        """Run blocking work beside the loop. Starts at once; await it for the result."""
        ...

    async def start_worker(self, module: str) -> Worker | None:
        """A child process that runs `module` (see `runtime.worker`); None where this world has no
        processes. Raises `WorkerDied`."""
        ...

    def spawn(self, coroutine: Coroutine[Any, Any, object], *, name: str) -> None:
        """Start a background task that this runtime owns: its failure is logged, never lost."""
        ...

    async def close(self) -> None:
        """Cancel what was spawned and end the threads."""
        ...
