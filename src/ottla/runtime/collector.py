"""Controls when Python's garbage collector may run.

A full collection scans all objects in one go: about 0.3 ms per thousand of them. A request that
names 100,000 things creates so many that each collection would block the event loop for a tenth of
a second. These objects have no cycles and are freed without it.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

PAUSE_S_MAX: Final = 60.0
"""A caller that never ends must not prevent garbage collection for ever."""

COLLECTED_OBJECTS_MAX: Final = 50_000
"""Looking through more of them would hold the event loop for longer than 15 ms."""

STARTING_THRESHOLD: Final = 100_000
"""How many more objects there must be before a collection, while a program starts."""

_is_settled = False
_usual: tuple[int, int, int] | None = None
_users = 0
_paused_at_s = 0.0


@contextmanager
def collector_paused() -> Iterator[None]:
    """Keep the collector from running by itself. May be nested and may overlap."""
    global _users, _paused_at_s
    if _users:
        if time.monotonic() - _paused_at_s > PAUSE_S_MAX:
            gc.collect()
            _paused_at_s = time.monotonic()
    elif gc.isenabled():
        gc.disable()
        _paused_at_s = time.monotonic()
    else:
        yield  # it was disabled elsewhere, on purpose
        return
    _users += 1
    try:
        yield
    finally:
        _users -= 1
        if not _users:
            gc.enable()


def starting() -> None:
    """Collect seldom until `settle`: what a program creates while it starts is there to stay."""
    global _usual
    _usual = gc.get_threshold()
    gc.set_threshold(STARTING_THRESHOLD)


def settle() -> None:
    """Exempt all objects that exist now from garbage collection. For programs, once they have
    started."""
    global _is_settled, _usual
    if _usual is not None:
        gc.set_threshold(*_usual)
        _usual = None
    gc.collect()
    gc.freeze()
    _is_settled = True


def keep() -> None:
    """Exempt the objects created since, such as a thousand partitions that are there to stay. They
    have no cycles: if they are dropped one day, they are freed without the collector.

    Garbage is collected first, unless there are too many objects to scan. If there are, garbage
    that has survived two collections stays for ever, so call this only as often as a program grows.
    It does nothing in a program that never called `settle`.
    """
    if _is_settled:
        if not collect_if_short():
            gc.collect(1)
        gc.freeze()


def collect_if_short() -> bool:
    """Collect all garbage, except among what is exempt; False, and nothing done, if it would take
    long."""
    if len(gc.get_objects()) > COLLECTED_OBJECTS_MAX:
        return False
    gc.collect()
    return True
