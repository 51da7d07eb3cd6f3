"""Replaces Python's clocks and randomness by those of the simulation while it runs.

This affects only the thread of the simulation: all other threads use the real ones. Calls that
would block or leave the simulation (threads, real sockets, `time.sleep`) are refused.
"""

from __future__ import annotations

import contextlib
import os
import random
import socket
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any
from unittest import mock

from ottla.sim.clock import SimClock
from ottla.sim.loop import NotSimulated
from ottla.sim.process import PROCESS
from ottla.sim.world import World

NANOSECONDS = 1_000_000_000


@contextlib.contextmanager
def virtual_python(world: World) -> Iterator[None]:
    state = random.getstate()
    random.seed(f"{world.seed}/random")
    try:
        with contextlib.ExitStack() as patches:
            for target, name, simulated in (*_clocks(world), *_dice(world), *_exits()):
                replaced = _here_only(getattr(target, name), simulated)
                patches.enter_context(mock.patch.object(target, name, replaced))
            yield
    finally:
        random.setstate(state)


def _here_only(real: Callable[..., Any], simulated: Callable[..., Any]) -> Callable[..., Any]:
    here = threading.get_ident()

    def call(*args: Any, **options: Any) -> Any:
        inside = threading.get_ident() == here
        return simulated(*args, **options) if inside else real(*args, **options)

    return call


def _clocks(world: World) -> Iterator[tuple[object, str, Callable[..., Any]]]:
    nobodys = SimClock(world.loop.time)

    def wall_ms() -> int:
        """Return the time of the calling machine's clock, which may be wrong."""
        process = PROCESS.get(None)
        return (nobodys if process is None else world.machine(process.host).clock).wall_ms()

    now = world.loop.time
    yield time, "time", lambda: wall_ms() / 1000
    yield time, "time_ns", lambda: wall_ms() * 1_000_000
    for name in ("monotonic", "perf_counter"):
        yield time, name, now
        yield time, f"{name}_ns", lambda: int(now() * NANOSECONDS)


def _dice(world: World) -> Iterator[tuple[object, str, Callable[..., Any]]]:
    """Replace the source of uuid4, secrets and SystemRandom; `random` itself is seeded."""
    entropy = world.chance("entropy")
    yield os, "urandom", entropy.randbytes
    yield random, "_urandom", entropy.randbytes


def _exits() -> Iterator[tuple[object, str, Callable[..., Any]]]:
    yield time, "sleep", _refusing("time.sleep", "await asyncio.sleep(), which takes no real time")
    alone = "everything runs in one thread, on virtual time"
    yield threading.Thread, "start", _refusing("a thread", alone)
    for name in ("connect", "connect_ex", "bind"):
        yield socket.socket, name, _refusing(f"socket.{name}", "only ottla's own clients connect")


def _refusing(what: str, instead: str) -> Callable[..., Any]:
    def refuse(*_args: object, **_options: object) -> Any:
        raise NotSimulated(what, instead)

    return refuse
