"""Several nodes on one event loop, each of which can be killed or frozen like a process.

Every callback runs in a context that names its node's life, and the loop checks that life before
each one. A killed node runs no more code: no `finally`, no timer, as after `kill -9`. A frozen one
runs nothing until it is resumed, while its timers come due and its sockets fill, as after SIGSTOP.
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
    """One run of a node, from its start to its end or kill."""

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
        """End the pause, and run what came due meanwhile, in order."""
        self.paused = False
        waiting, self._waiting = self._waiting, []
        for action in waiting:
            action()

    def die(self) -> list[asyncio.Future[Any]]:
        """Run nothing more, and return unfinished tasks, which must be kept until the loop ends."""
        self.alive = False
        self._waiting.clear()
        return [task for task in self.tasks if not task.done()]

    def defer(self, action: Callable[[], object]) -> None:
        self._waiting.append(action)


class _Gate:
    """A callback of a node, which runs only if the node does."""

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
            return
        # The handle refers to this gate. Without this, the cycle would keep the callback's
        # arguments, such as a large response, until the garbage collector finds it.
        self.handle = None
        if self.life.alive:
            self.callback(*self.args)

    def run(self) -> None:
        """Run after a pause, unless a callback that ran before has cancelled it."""
        if self.handle is None or not self.handle.cancelled():
            self()


class _FileGate:
    """A node's callback for a ready file. It is a class, because a nested function that refers to
    itself would be a reference cycle."""

    __slots__ = ("add", "callback", "fd", "life", "remove")

    def __init__(
        self,
        life: Life,
        callback: Callable[[], object],
        add: Callable[..., object],
        remove: Callable[[Any], object],
        fd: Any,
    ) -> None:
        self.life = life
        self.callback = callback
        self.add = add
        self.remove = remove
        self.fd = fd

    def __call__(self) -> None:
        if not self.life.paused:
            if self.life.alive:
                self.callback()
            return
        # A socket stays readable until it is read: the loop must not spin on it.
        context = contextvars.copy_context()
        self.life.defer(lambda: context.run(self.add, self.fd, self))
        self.remove(self.fd)


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

        return (_FileGate(life, lambda: callback(*args), add, remove, fd),)

    def create_task(  # type: ignore[override]
        self, coro: Coroutine[Any, Any, Any], **options: Any
    ) -> asyncio.Task[Any]:
        task = super().create_task(coro, **options)
        context = options.get("context") or contextvars.copy_context()
        if (life := context.get(LIFE)) is not None:
            life.tasks.add(task)
        return task
