"""Returns free memory that the process keeps to the system."""

from __future__ import annotations

import asyncio
import ctypes
import os
import time
from pathlib import Path
from typing import Final

from ottla.runtime.collector import collect_if_short

_M_MXFAST: Final = 1
_M_TRIM_THRESHOLD: Final = -1
_M_MMAP_THRESHOLD: Final = -3
_M_ARENA_MAX: Final = -8
MAPPED_FROM_BYTES: Final = 2 * 1024 * 1024
KEPT_BYTES_MAX: Final = 4 * 1024 * 1024
"""The most free memory at the end of the heap, until the next `give_back`."""

LOOK_S: Final = 3.0
LOOK_S_MAX: Final = 12.0
"""The longest time between two checks, after several that found nothing to return."""
EFFORT_MAX: Final = 0.002
"""The share of the time that returning memory may take."""
WORTH_BYTES: Final = 1024 * 1024

_PAGE_BYTES: Final = os.sysconf("SC_PAGE_SIZE")


def bound_kept_memory() -> None:
    """Make large blocks of memory go back to the system as soon as they are free.

    glibc raises both bounds by itself, to as much as 32 and 64 MB, once a large block was freed;
    opening a few large batches would then cost a broker that much in each of its threads for good.
    Setting them once keeps them where they are. Other allocators are left alone.

    glibc merges small blocks with free neighbours not when they are freed but all at once later,
    which takes 40 ms after a request of 100,000 elements. With this setting it merges them one by
    one.

    All threads share one heap. With a heap for each thread, the default, `malloc_trim` does not
    return the free end of each: 4 MB in each of 16 threads once they have recompressed batches.
    Threads seldom wait for each other: the interpreter's lock lets one run at a time, and code that
    runs without it allocates little.

    Call this before there are threads: a heap that exists stays in use.
    """
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError):
        return
    mallopt(_M_MMAP_THRESHOLD, MAPPED_FROM_BYTES)
    mallopt(_M_TRIM_THRESHOLD, KEPT_BYTES_MAX)
    mallopt(_M_MXFAST, 0)
    mallopt(_M_ARENA_MAX, 1)


async def give_back_now_and_then() -> None:
    """Return memory after the process has grown; runs for ever.

    Memory goes back by itself only if nothing around it is in use. After a request of many elements
    some is: Python's free lists for tuples and lists, and objects allocated meanwhile. A check
    costs a few microseconds, returning memory one or two milliseconds.
    """
    pause_s, least = LOOK_S, own_bytes()
    while True:
        await asyncio.sleep(pause_s)
        before = own_bytes()
        least = min(before, least)
        if before < least + WORTH_BYTES:
            pause_s = LOOK_S
            continue
        began_s = time.thread_time()
        give_back()
        took_s = time.thread_time() - began_s
        after = own_bytes()
        least = min(after, least)
        # Memory that is really in use should not be scanned every few seconds.
        pause_s = LOOK_S if before - after >= WORTH_BYTES else min(2 * pause_s, LOOK_S_MAX)
        pause_s = max(pause_s, took_s / EFFORT_MAX)


def give_back() -> None:
    """Return free memory to the system."""
    collect_if_short()  # a full collection also empties Python's free lists of tuples and others
    try:
        trim = ctypes.CDLL(None).malloc_trim
    except (AttributeError, OSError):
        return
    trim(0)


def own_bytes() -> int:
    """Return the resident memory of this process that is not from files; 0 if it is unknown."""
    try:
        _, resident, shared, *_ = Path("/proc/self/statm").read_text().split()
    except (OSError, ValueError):
        return 0
    return (int(resident) - int(shared)) * _PAGE_BYTES
