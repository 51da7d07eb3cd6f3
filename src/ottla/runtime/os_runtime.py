"""The real runtime: one event loop, a few threads, the machine's clock, disk and network."""

from __future__ import annotations

import asyncio
import random
import resource
import signal
from collections.abc import Awaitable, Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, TypeVar

from ottla.logs import get_logger
from ottla.runtime.clock import Clock, SystemClock
from ottla.runtime.disk import Disk
from ottla.runtime.network import Network
from ottla.runtime.os_disk import OsDisk
from ottla.runtime.os_network import OsNetwork
from ottla.runtime.runtime import Timer

if TYPE_CHECKING:
    from ottla.runtime.worker import Worker

log = get_logger("ottla.runtime")

T = TypeVar("T")

THREADS_MAX = 16
"""Blocking work is mostly fsync, which waits for a device: more threads would only queue there."""

OPEN_FILES_WANTED = 1_048_576


class OsRuntime:
    """Create it inside a running event loop; it belongs to that loop."""

    def __init__(self, *, threads_max: int = THREADS_MAX) -> None:
        self.loop = asyncio.get_running_loop()
        self.clock: Clock = SystemClock()
        self.disk: Disk = OsDisk()
        self.network: Network = OsNetwork(self.loop)
        self.random: random.Random = random.SystemRandom()
        self._threads = ThreadPoolExecutor(threads_max, thread_name_prefix="ottla")
        self._tasks: dict[asyncio.Task[object], None] = {}
        self._stop_signals: list[signal.Signals] = []
        self.open_files_max = raise_open_files_limit()

    def call_later(self, delay_s: float, callback: Callable[..., object], *args: Any) -> Timer:
        return self.loop.call_later(delay_s, callback, *args)

    def call_soon(self, callback: Callable[..., object], *args: Any) -> None:
        self.loop.call_soon(callback, *args)

    def in_thread(self, function: Callable[..., T], *args: Any) -> Awaitable[T]:
        return self.loop.run_in_executor(self._threads, function, *args)

    async def start_worker(self, module: str) -> Worker | None:
        from ottla.runtime.worker import ChildWorker

        return await self.in_thread(ChildWorker, module)

    def spawn(self, coroutine: Coroutine[Any, Any, object], *, name: str) -> None:
        task = self.loop.create_task(coroutine, name=name)
        self._tasks[task] = None
        task.add_done_callback(self._finished)

    def _finished(self, task: asyncio.Task[object]) -> None:
        self._tasks.pop(task, None)
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("background task %s failed", task.get_name(), exc_info=error)

    async def close(self) -> None:
        current = asyncio.current_task()
        tasks = [task for task in self._tasks if task is not current]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        try:
            # In a thread: work that is still running may need the loop to finish.
            await asyncio.to_thread(self._threads.shutdown)
        except RuntimeError:
            # The interpreter is ending (a client closed by atexit, or by a thread that outlives the
            # main one): it starts no threads any more, and has waited for the existing ones.
            self._threads.shutdown(wait=False)
        for number in self._stop_signals:
            # Everything is closed. One more signal must not change the exit code.
            signal.signal(number, signal.SIG_IGN)

    def on_stop_signal(
        self, stop: Callable[[], object], hurry: Callable[[], object] = lambda: None
    ) -> None:
        """Call `stop` on Ctrl-C, SIGTERM and the end of the terminal instead of terminating, and
        `hurry` on each further signal. A SIGHUP is not a further one: kernel and shell both send
        it."""
        self._stop_signals = stop_signals()
        asked = False

        def handle(number: int, _: object) -> None:
            nonlocal asked
            if not asked:
                asked = True
                self.loop.call_soon_threadsafe(stop)
            elif number != signal.SIGHUP:
                self.loop.call_soon_threadsafe(hurry)

        # Not by the loop, which would restore the default handlers before everything has ended.
        for number in self._stop_signals:
            signal.signal(number, handle)


def stop_signals() -> list[signal.Signals]:
    """Return the signals that ask a process to stop. SIGHUP is not among them if it is ignored:
    `nohup` lets a process outlive its terminal."""
    hangs_up = signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN
    return [signal.SIGINT, signal.SIGTERM, *([signal.SIGHUP] if hangs_up else [])]


def raise_open_files_limit() -> int:
    """Raise the limit of open files as far as the OS allows; return the limit now in force.

    A broker holds a descriptor per segment and per connection, and the usual default is 1,024.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = OPEN_FILES_WANTED if hard == resource.RLIM_INFINITY else hard
    if soft != resource.RLIM_INFINITY and soft < wanted:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
        except (OSError, ValueError):
            log.warning("the limit of open files could not be raised; it stays at %d", soft)
    return resource.getrlimit(resource.RLIMIT_NOFILE)[0]


async def _serve(main: Callable[[OsRuntime], Coroutine[Any, Any, T]]) -> T:
    runtime = OsRuntime()
    try:
        return await main(runtime)
    finally:
        await runtime.close()


def run(main: Callable[[OsRuntime], Coroutine[Any, Any, T]]) -> T:
    """Run `main` on a new event loop of the fastest kind available, then close the runtime."""
    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        return runner.run(_serve(main))


def new_event_loop() -> asyncio.AbstractEventLoop:
    """Create an event loop of the fastest kind that is installed."""
    try:
        import uvloop
    except ImportError:
        return asyncio.new_event_loop()
    return uvloop.new_event_loop()
