"""Several nodes on one event loop, each of which can be killed or frozen as a process can.

Every callback runs in a context that names its node's life, and the loop asks that life before
each one. A killed node runs no further line: no `finally`, no timer, as after `kill -9`. A frozen
one runs nothing until it is let go on, while its timers come due and its sockets fill, as after
SIGSTOP.
"""

from __future__ import annotations

import asyncio
import contextvars
import weakref
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

H = TypeVar("H", bound=asyncio.Handle)
LIFE: contextvars.ContextVar[Life] = contextvars.ContextVar("LIFE")


class Life:
    """From the start of a node to its end, however that comes."""

    def __init__(self) -> None:
        self.alive = True
        self.paused = False
        self.context = contextvars.Context()
        self.context.run(LIFE.set, self)
        self.tasks: weakref.WeakSet[asyncio.Future[Any]] = weakref.WeakSet()
        self._waiting: list[Callable[[], object]] = []

    def pause(self) -> None:
        self.paused = True

    def resume(self) -> None:
        """What came due meanwhile runs now, in its order."""
        self.paused = False
        waiting, self._waiting = self._waiting, []
        for action in waiting:
            action()

    def die(self) -> list[asyncio.Future[Any]]:
        """No line of it runs any more; its unfinished tasks, to be kept until the loop ends."""
        self.alive = False
        self._waiting.clear()
        return [task for task in self.tasks if not task.done()]

    def defer(self, action: Callable[[], object]) -> None:
        self._waiting.append(action)


class _Gate:
    """A callback of a node, which runs if the node does."""

    __slots__ = ("args", "callback", "handle", "life", "loop")

    def __init__(
        self, loop: LivesLoop, life: Life, callback: Callable[..., object], args: tuple[Any, ...]
    ) -> None:
        self.loop = loop
        self.life = life
        self.callback = callback
        self.args = args
        self.handle: asyncio.Handle | None = None

    def __call__(self) -> None:
        if self.life.paused:
            context = contextvars.copy_context()
            self.life.defer(lambda: self.loop.call_soon(self.run, context=context))
        elif self.life.alive:
            self.callback(*self.args)

    def run(self) -> None:
        """After a pause, unless one that ran before it has taken it back."""
        if self.handle is None or not self.handle.cancelled():
            self()


class LivesLoop(asyncio.SelectorEventLoop):
    def call_soon(  # type: ignore[override]
        self,
        callback: Callable[..., object],
        *args: Any,
        context: contextvars.Context | None = None,
    ) -> asyncio.Handle:
        return self._gated(super().call_soon, (), callback, args, context)

    def call_soon_threadsafe(  # type: ignore[override]
        self,
        callback: Callable[..., object],
        *args: Any,
        context: contextvars.Context | None = None,
    ) -> asyncio.Handle:
        return self._gated(super().call_soon_threadsafe, (), callback, args, context)

    def call_at(  # type: ignore[override]
        self,
        when: float,
        callback: Callable[..., object],
        *args: Any,
        context: contextvars.Context | None = None,
    ) -> asyncio.TimerHandle:
        return self._gated(super().call_at, (when,), callback, args, context)

    def _gated(
        self,
        schedule: Callable[..., H],
        before: tuple[Any, ...],
        callback: Callable[..., object],
        args: tuple[Any, ...],
        context: contextvars.Context | None,
    ) -> H:
        context = context if context is not None else contextvars.copy_context()
        life = context.get(LIFE)
        if life is None or isinstance(getattr(callback, "__self__", None), _Gate):
            return schedule(*before, callback, *args, context=context)
        gate = _Gate(self, life, callback, args)
        gate.handle = handle = schedule(*before, gate, context=context)
        return handle

    def add_reader(  # type: ignore[override]
        self, fd: Any, callback: Callable[..., object], *args: Any
    ) -> None:
        again = super().add_reader
        again(fd, *self._gated_file(callback, args, again, self.remove_reader, fd))

    def add_writer(  # type: ignore[override]
        self, fd: Any, callback: Callable[..., object], *args: Any
    ) -> None:
        again = super().add_writer
        again(fd, *self._gated_file(callback, args, again, self.remove_writer, fd))

    def _gated_file(
        self,
        callback: Callable[..., object],
        args: tuple[Any, ...],
        add: Callable[..., object],
        remove: Callable[[Any], object],
        fd: Any,
    ) -> tuple[Any, ...]:
        life = LIFE.get(None)
        if life is None:
            return (callback, *args)

        def ready() -> None:
            if not life.paused:
                if life.alive:
                    callback(*args)
                return
            # A socket stays readable for as long as nobody reads: the loop must not spin on it.
            context = contextvars.copy_context()
            life.defer(lambda: context.run(add, fd, ready))
            remove(fd)

        return (ready,)

    def create_task(  # type: ignore[override]
        self, coro: Coroutine[Any, Any, Any], **options: Any
    ) -> asyncio.Task[Any]:
        task = super().create_task(coro, **options)
        context = options.get("context") or contextvars.copy_context()
        if (life := context.get(LIFE)) is not None:
            life.tasks.add(task)
        return task
