"""A process and all processes it has started: a driver, its JVM and its Python workers."""

from __future__ import annotations

import os
from pathlib import Path

_TICKS_PER_S = os.sysconf("SC_CLK_TCK")


def cpu_s(root: int) -> float:
    """Return user and system time of the tree so far, including children that have ended."""
    stats = _stats()
    return sum(sum(map(int, stats[pid][11:15])) for pid in _tree(root, stats)) / _TICKS_PER_S


def pids(root: int) -> list[int]:
    """Return those that run now."""
    return _tree(root, _stats())


def _tree(root: int, stats: dict[int, list[str]]) -> list[int]:
    children: dict[int, list[int]] = {}
    for pid, fields in stats.items():
        children.setdefault(int(fields[1]), []).append(pid)
    found, waiting = [], [root]
    while waiting:
        pid = waiting.pop()
        waiting += children.get(pid, [])
        found += [pid] if pid in stats else []
    return found


def _stats() -> dict[int, list[str]]:
    """Return, by process, the fields of `/proc/PID/stat` after the name: state, parent, ..."""
    found: dict[int, list[str]] = {}
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            text = Path(f"/proc/{name}/stat").read_text()
        except OSError:
            continue  # it has just ended
        found[int(name)] = text.rpartition(")")[2].split()
    return found
