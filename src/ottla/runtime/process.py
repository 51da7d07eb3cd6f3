"""Time, memory and files that this process uses, as the system tells."""

from __future__ import annotations

import os
import resource
import time
from typing import NamedTuple


class Usage(NamedTuple):
    cpu_s: float
    resident_bytes: int
    """0 where the system does not tell."""
    started_s: float
    """In seconds since the epoch; 0 where the system does not tell."""
    open_files: int
    open_files_max: int


def usage() -> Usage:
    return Usage(
        time.process_time(),
        _resident_bytes(),
        _started_s(),
        _open_files(),
        resource.getrlimit(resource.RLIMIT_NOFILE)[0],
    )


def thread_cpu_s() -> float:
    """Return the time that the calling thread has spent on a processor."""
    return time.thread_time()


def _resident_bytes() -> int:
    try:
        with open("/proc/self/statm", "rb") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError):
        return 0


def _started_s() -> float:
    try:
        with open("/proc/self/stat", "rb") as file:
            ticks = int(file.read().rpartition(b")")[2].split()[19])
        uptime_s = time.clock_gettime(time.CLOCK_BOOTTIME)
    except (OSError, ValueError, IndexError, AttributeError):
        return 0.0
    return time.time() - uptime_s + ticks / os.sysconf("SC_CLK_TCK")


def _open_files() -> int:
    try:
        return len(os.listdir("/proc/self/fd")) - 1  # the listing opens one itself
    except OSError:
        return 0
