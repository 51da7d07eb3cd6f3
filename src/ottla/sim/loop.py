"""An asyncio event loop with virtual time: it never waits, it jumps to the next timer.

The seed decides how long each turn of the loop takes, how late each timer is, how long work in a
thread takes and when within that time it acts. What asyncio promises is kept: callbacks scheduled
with `call_soon` run in the order they were scheduled.
"""

from __future__ import annotations

import asyncio
import contextvars
import heapq
import os.path
import random
from collections import deque
from collections.abc import Callable, Collection, Coroutine, Iterator, Sequence
from types import FrameType
from typing import Any, TypeVar, TypeVarTuple

import ottla
from ottla.sim.process import PROCESS, Process, SimulatedCrash

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

TURN_S_MAX = 40e-6
"""A turn of the loop takes some microseconds of virtual time: work and timers interleave."""

TIMER_LATENESS_S_MAX = 100e-6
THREAD_S = 0.0005
THREAD_SLOW_S = 0.05
THREAD_SLOW_RATE = 0.03
TURNS_WITHOUT_REST_MAX = 2_000_000
_NOT_OWN = tuple(os.path.dirname(str(one.__file__)) + os.sep for one in (asyncio, ottla))
"""Files that are not the user's own: skipped when reporting where an application waits."""


class Deadlock(RuntimeError):
    """Nothing is ready and no timer is set, but the main task waits: it would wait for ever."""


class Stalled(RuntimeError):
    """The run passed its limit of virtual time, or spun without ever coming to rest."""


class NotSimulated(RuntimeError):
    """Code in a simulation used a real-world service, which no seed controls."""

    def __init__(
        self, what: str, instead: str = "only ottla's own clients and asyncio are"
    ) -> None:
        super().__init__(f"{what} is not simulated: {instead}")


class SimFuture(asyncio.Future[T]):
    """Hashed by a number, not by address: a set of futures iterates the same in every run."""

    _number = 0

    def __hash__(self) -> int:
        if not self._number:
            loop = self.get_loop()
            assert isinstance(loop, SimLoop)
            self._number = loop.next_birth()
        return self._number


class SimTask(asyncio.Task[T]):
    """Hashed by order of creation, and knows its process."""

    def __init__(self, coroutine: Coroutine[Any, Any, T], *, loop: SimLoop, **more: Any) -> None:
        self._birth = loop.next_birth()
        context = more.get("context")
        self.process = PROCESS.get(None) if context is None else context.get(PROCESS)
        super().__init__(coroutine, loop=loop, **more)

    def __hash__(self) -> int:
        return self._birth


class SimHandle(asyncio.Handle):
    """An asyncio handle without the parts that only asyncio's debug mode needs."""

    __slots__ = ()

    def __init__(
        self,
        callback: Callable[..., object],
        args: Sequence[Any],
        loop: SimLoop,
        context: contextvars.Context | None,
    ) -> None:
        self._context = contextvars.copy_context() if context is None else context
        self._loop = loop
        self._callback = callback
        self._args = args
        self._cancelled = False
        self._repr = None
        self._source_traceback = None


class SimTimer(asyncio.TimerHandle):
    __slots__ = ()

    def __init__(
        self,
        when: float,
        callback: Callable[..., object],
        args: Sequence[Any],
        loop: SimLoop,
        context: contextvars.Context | None,
    ) -> None:
        SimHandle.__init__(self, callback, args, loop, context)  # type: ignore[arg-type]
        self._when = when
        self._scheduled = False


class SimLoop(asyncio.BaseEventLoop):
    # Owned by BaseEventLoop; named here because this class drives them itself.
    _ready: deque[asyncio.Handle]
    _stopping: bool

    def __init__(self, seeded: random.Random, *, time_limit_s: float = 3600.0) -> None:
        self._now = 0.0
        self._births = 0
        self._timers: list[tuple[float, int, asyncio.Handle]] = []
        """A heap of tuples, because comparing handles takes a call each."""
        self._random = seeded
        self._turns_without_rest = 0
        self.time_limit_s = time_limit_s
        self.failures: list[str] = []
        """Errors that nobody handled, as asyncio reports them: a run with any is a failed run."""
        super().__init__()
        self.set_task_factory(_make_task)
        self.set_exception_handler(_record_failure)

    def next_birth(self) -> int:
        self._births += 1
        return self._births

    def time(self) -> float:
        return self._now

    def create_future(self) -> asyncio.Future[Any]:
        return SimFuture(loop=self)

    def call_soon(
        self,
        callback: Callable[[*Ts], object],
        *args: *Ts,
        context: contextvars.Context | None = None,
    ) -> asyncio.Handle:
        handle = SimHandle(callback, args, self, context)
        self._ready.append(handle)
        return handle

    def call_later(
        self,
        delay: float,
        callback: Callable[[*Ts], object],
        *args: *Ts,
        context: contextvars.Context | None = None,
    ) -> asyncio.TimerHandle:
        return self.call_at(self._now + delay, callback, *args, context=context)

    def call_at(
        self,
        when: float,
        callback: Callable[[*Ts], object],
        *args: *Ts,
        context: contextvars.Context | None = None,
    ) -> asyncio.TimerHandle:
        at = when + self._random.random() * TIMER_LATENESS_S_MAX
        timer = SimTimer(at, callback, args, self, context)
        self._births += 1
        heapq.heappush(self._timers, (at, self._births, timer))
        return timer

    def run_soon(self, handle: asyncio.Handle) -> None:
        """Like `call_soon`, with a handle made before: the network reuses its few handles."""
        self._ready.append(handle)

    def run_at(self, when: float, handle: asyncio.Handle) -> None:
        at = when + self._random.random() * TIMER_LATENESS_S_MAX
        self._births += 1
        heapq.heappush(self._timers, (at, self._births, handle))

    def in_thread(self, function: Callable[[*Ts], T], *args: *Ts) -> asyncio.Future[T]:
        """Run the function at a random moment of a random duration; the result comes at its end."""
        future: asyncio.Future[T] = self.create_future()
        self.call_later(self._thread_time_s(), self._act, future, function, args)
        return future

    def _thread_time_s(self) -> float:
        slow = self._random.random() < THREAD_SLOW_RATE
        return self._random.expovariate(1.0) * (THREAD_SLOW_S if slow else THREAD_S)

    def _act(
        self, future: asyncio.Future[T], function: Callable[..., T], args: tuple[Any, ...]
    ) -> None:
        rest_s = self._thread_time_s()
        try:
            result = function(*args)
        except Exception as error:
            self.call_later(rest_s, _fail, future, error)
        else:
            self.call_later(rest_s, _answer, future, result)

    def new_runtime(self) -> object:
        """Make a runtime of the current machine, for a client created without one
        (`runtime.ambient`)."""
        process = PROCESS.get(None)
        if process is None or process.new_runtime is None:
            raise RuntimeError("a simulated client needs a machine to run on: see World.boot")
        return process.new_runtime()

    def _write_to_self(self) -> None:
        """Do nothing: there is no other thread that could wake this one."""

    def _run_once(self) -> None:
        """Run turn after turn until the loop is stopped, all in one call: most turns run a single
        callback, and the overhead around it must stay small."""
        ready = self._ready
        while True:
            self._advance()
            for _ in range(len(ready)):
                handle = ready.popleft()
                if handle._cancelled:
                    continue
                context = handle._context  # type: ignore[attr-defined]
                process: Process | None = context.get(PROCESS)
                if process is not None and (process.paused or not process.alive):
                    if process.alive:
                        process.waiting.append(handle)
                    continue
                try:
                    context.run(handle._callback, *handle._args)  # type: ignore[attr-defined]
                except (SystemExit, KeyboardInterrupt):
                    raise
                except BaseException as error:
                    message = f"Exception in callback {handle!r}"
                    self.call_exception_handler({"message": message, "exception": error})
            if self._stopping:
                return

    def _advance(self) -> None:
        """Let a little time pass if there is work, else jump to the next timer."""
        timers = self._timers
        while timers and timers[0][2]._cancelled:
            heapq.heappop(timers)
        now = self._now
        if self._ready or self._stopping:
            now += self._random.random() * TURN_S_MAX
            self._turns_without_rest += 1
        elif timers:
            now = max(now, timers[0][0])
            self._turns_without_rest = 0
        else:
            raise Deadlock(f"at {now:.6f} s nothing can happen any more; {self.waiting()}")
        self._now = now
        if now > self.time_limit_s or self._turns_without_rest > TURNS_WITHOUT_REST_MAX:
            raise Stalled(f"no end in sight at {now:.6f} s; {self.waiting()}")
        while timers and timers[0][0] <= now:
            self._ready.append(heapq.heappop(timers)[2])

    def resume(self, process: Process) -> None:
        process.paused = False
        self._ready.extend(process.waiting)
        process.waiting.clear()

    def unfinished(self, process: Process) -> list[asyncio.Task[Any]]:
        return [task for task in asyncio.all_tasks(self) if _process(task) is process]

    def has_plans(self, processes: Collection[Process]) -> bool:
        """True if anything is due in one of these processes, now or later."""
        handles = (*self._ready, *(handle for _, _, handle in self._timers))
        return any(process.waiting for process in processes) or any(
            not handle._cancelled and handle._context.get(PROCESS) in processes  # type: ignore[attr-defined]
            for handle in handles
        )

    def waiting(self, of: Collection[Process] | None = None) -> str:
        """Return where unfinished tasks of living processes wait: read this first in a hang."""
        tasks = sorted(
            (
                task
                for task in asyncio.all_tasks(self)
                if _lives(task) and (of is None or _process(task) in of)
            ),
            key=lambda task: hash(task),
        )
        return "waiting: " + ("; ".join(map(_where, tasks)) or "no task")


def _refusing(name: str) -> Callable[..., Any]:
    """Return a method that raises. It raises when called, not when awaited, so that code that
    forgets to await it gets the error too."""

    def refuse(_loop: SimLoop, *_args: object, **_options: object) -> Any:
        raise NotSimulated(f"loop.{name}")

    return refuse


REFUSED = (
    "add_reader add_signal_handler add_writer connect_accepted_socket connect_read_pipe "
    "connect_write_pipe create_connection create_datagram_endpoint create_server "
    "create_unix_connection create_unix_server getaddrinfo getnameinfo run_in_executor sendfile "
    "sock_accept sock_connect sock_recv sock_recv_into sock_recvfrom sock_recvfrom_into "
    "sock_sendall sock_sendfile sock_sendto start_tls subprocess_exec subprocess_shell"
)
"""Methods of an event loop that reach the real world."""

for _name in REFUSED.split():
    setattr(SimLoop, _name, _refusing(_name))


def _make_task(loop: asyncio.AbstractEventLoop, coroutine: Any, **more: Any) -> asyncio.Task[Any]:
    assert isinstance(loop, SimLoop)
    return SimTask(coroutine, loop=loop, **more)


def _record_failure(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    assert isinstance(loop, SimLoop)
    error = context.get("exception")
    if isinstance(error, SimulatedCrash):
        return
    loop.failures.append(f"{loop.time():.6f} {context['message']}: {error!r}")
    loop.default_exception_handler(context)


def _answer(future: asyncio.Future[T], result: T) -> None:
    if not future.done():
        future.set_result(result)


def _fail(future: asyncio.Future[Any], error: Exception) -> None:
    if not future.done():
        future.set_exception(error)


def _process(task: asyncio.Task[Any]) -> Process | None:
    return task.process if isinstance(task, SimTask) else None


def _lives(task: asyncio.Task[Any]) -> bool:
    process = _process(task)
    return process is None or process.alive


def _where(task: asyncio.Task[Any]) -> str:
    process = _process(task)
    frames = list(_frames(task.get_coro()))
    own = [frame for frame in frames if not frame.f_code.co_filename.startswith(_NOT_OWN)]
    place = "?"
    if frames:
        frame = (own or frames)[-1]
        code = frame.f_code
        place = f"{os.path.basename(code.co_filename)}:{frame.f_lineno} in {code.co_qualname}"
    return f"{process or 'world'}/{task.get_name()} at {place}"


def _frames(waiting: Any) -> Iterator[FrameType]:
    """Yield the frames of a coroutine and of those it awaits, down to where it waits: a task shows
    only the first."""
    while waiting is not None:
        frame = getattr(waiting, "cr_frame", None) or getattr(waiting, "gi_frame", None)
        if frame is None:
            return
        yield frame
        waiting = getattr(waiting, "cr_await", None) or getattr(waiting, "gi_yieldfrom", None)
