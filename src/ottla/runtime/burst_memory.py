"""Memory for many short-lived objects.

Python allocates small objects from blocks of a megabyte, and a block is returned to the system only
when all of it is free. A request of 100,000 elements fills dozens of blocks. Some objects that
other code allocates meanwhile stay in each of them, so that a broker of 40 MB stays at 70 MB
afterwards. In a burst, objects come from the C allocator instead, which returns single pages. It is
a little slower.

Python frees an object to where it came from: it checks whether the object is in one of its blocks,
and otherwise gives it to the C allocator, as it does with all objects of more than 512 bytes.
"""

from __future__ import annotations

import ctypes
import os
import sys
import sysconfig
import threading
from collections.abc import Awaitable, Generator
from types import TracebackType
from typing import Any, Final, Generic, TypeVar

T = TypeVar("T")

_RAW, _MEMORY, _OBJECTS = 0, 1, 2
"""The domains of Python's memory, as its C interface numbers them."""


class _Allocator(ctypes.Structure):
    _fields_ = (
        ("context", ctypes.c_void_p),
        ("malloc", ctypes.c_void_p),
        ("calloc", ctypes.c_void_p),
        ("realloc", ctypes.c_void_p),
        ("free", ctypes.c_void_p),
    )


class Burst:
    """`with BURST:` around code that makes many objects and does not wait. May be nested.

    The allocators are those of the whole process: a burst of one thread is one of all threads, and
    it ends with the last of them.
    """

    def __init__(self) -> None:
        # Reentrant: making the structures below may have the collector of garbage run, and with it
        # code that ends in a burst of its own.
        self._lock = threading.RLock()
        self._usual: dict[int, _Allocator] = {}
        self._bursting: dict[int, _Allocator] = {}
        self._depth = 0
        self._is_on = False
        if _is_python_as_known():
            self._prepare()

    def _prepare(self) -> None:
        raw = _allocator_of(_RAW)
        usual = {domain: _allocator_of(domain) for domain in (_MEMORY, _OBJECTS)}
        if raw.context or any(one.context for one in usual.values()):
            return  # a tool counts or checks allocations
        self._usual = usual
        self._bursting = {
            domain: _Allocator(None, raw.malloc, raw.calloc, one.realloc, one.free)
            for domain, one in usual.items()
        }

    def __enter__(self) -> None:
        with self._lock:
            self._depth += 1
            # This would disable `tracemalloc`, if it was started since.
            if self._depth == 1 and not _allocator_of(_OBJECTS).context:
                _set_allocators(self._bursting)
                self._is_on = True

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        with self._lock:
            self._depth -= 1
            if not self._depth and self._is_on:
                self._is_on = False
                _set_allocators(self._usual)


def _is_python_as_known() -> bool:
    """True for CPython with its own allocator, which knows the objects it allocated."""
    return (
        sys.implementation.name == "cpython"
        and not sysconfig.get_config_var("Py_GIL_DISABLED")
        and os.environ.get("PYTHONMALLOC", "default") in ("", "default", "pymalloc")
    )


def _allocator_of(domain: int) -> _Allocator:
    found = _Allocator()
    ctypes.pythonapi.PyMem_GetAllocator(domain, ctypes.byref(found))
    return found


def _set_allocators(by_domain: dict[int, _Allocator]) -> None:
    for domain, allocator in by_domain.items():
        ctypes.pythonapi.PyMem_SetAllocator(domain, ctypes.byref(allocator))


BURST: Final = Burst()


async def in_bursts(awaited: Awaitable[T]) -> T:
    """Its result. Each step of it is a burst; while it waits there is none."""
    return await _InBursts(awaited)


class _InBursts(Generic[T]):
    def __init__(self, awaited: Awaitable[T]) -> None:
        self._awaited = awaited

    def __await__(self) -> Generator[Any, Any, T]:
        steps = self._awaited.__await__()
        step, told = steps.send, None
        while True:
            try:
                with BURST:
                    wanted = step(told)
            except StopIteration as done:
                result: T = done.value
                return result
            finally:
                told = None  # an error knows this frame: one that stays here would be a cycle
            try:
                step, told = steps.send, (yield wanted)
            except BaseException as error:  # a cancellation, above all
                step, told = steps.throw, error
