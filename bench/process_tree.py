"""Processor time of a process and all it has started: a driver, its JVM and its Python workers."""

from __future__ import annotations

import os
from pathlib import Path

_TICKS_PER_S = os.sysconf("SC_CLK_TCK")


def cpu_s(root: int) -> float:
    """User and system time of the tree so far, that of children which have ended included."""
    stats = {pid: fields for pid in _processes() if (fields := _stat(pid)) is not None}
    children: dict[int, list[int]] = {}
    for pid, fields in stats.items():
        children.setdefault(int(fields[1]), []).append(pid)
    total, waiting = 0, [root]
    while waiting:
        pid = waiting.pop()
        waiting += children.get(pid, [])
        if pid in stats:
            total += sum(map(int, stats[pid][11:15]))
    return total / _TICKS_PER_S


def _processes() -> list[int]:
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]


def _stat(pid: int) -> list[str] | None:
    """The fields after the name: state, parent, ..."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None  # it has just ended
