"""The single object through which the rest of Ottla accesses the outside world."""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable, Coroutine
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from ottla.runtime.clock import Clock
from ottla.runtime.disk import Disk
from ottla.runtime.network import Network

if TYPE_CHECKING:
    from ottla.runtime.worker import Worker

T = TypeVar("T")


class Timer(Protocol):
    def cancel(self) -> None: ...


class Runtime(Protocol):
    clock: Clock
    disk: Disk
    network: Network
    open_files_max: int
    """The most descriptors that this process may have: files and connections share them."""
    random: random.Random
    """The only source of randomness (topic ids, session ids, jitter); seeded in a simulation."""

    def call_later(self, delay_s: float, callback: Callable[..., object], *args: Any) -> Timer: ...

    def call_soon(self, callback: Callable[..., object], *args: Any) -> None: ...

    def in_thread(self, function: Callable[..., T], *args: Any) -> Awaitable[T]:
        """Run blocking work in a thread. It starts at once; await it for the result."""
        ...

    async def start_worker(self, module: str) -> Worker | None:
        """Start a child process that runs `module` (see `runtime.worker`); None if this runtime has
        no processes. Raises `WorkerDied`."""
        ...

    def spawn(self, coroutine: Coroutine[Any, Any, object], *, name: str) -> None:
        """Start a background task that this runtime owns: its failure is logged, never lost."""
        ...

    async def close(self) -> None:
        """Cancel the spawned tasks and end the threads."""
        ...
