"""Processes that outlive the one that started them: identified, signalled, and locked.

Pids are reused. So a process is identified by its pid and its start time, and signalled through a
handle that is opened before this is checked: the signal cannot reach another process.
"""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

POLL_S = 0.05


def identity_of(pid: int) -> str | None:
    """Return a text that is unique to the process while it lives; None: there is none."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except FileNotFoundError:
        return None if Path("/proc/self/stat").exists() else _identity_by_ps(pid)
    except ProcessLookupError:
        return None
    after_name = stat.rpartition(")")[2].split()
    is_zombie = after_name[0] == "Z"
    return None if is_zombie else f"{boot}:{after_name[19]}"


def _identity_by_ps(pid: int) -> str | None:
    """For systems without /proc, such as macOS."""
    command = ["ps", "-o", "stat=,lstart=", "-p", str(pid)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    state, _, started = done.stdout.strip().partition(" ")
    return None if done.returncode or state.startswith("Z") else started.strip()


def is_same(pid: int | None, identity: str | None) -> bool:
    return pid is not None and identity is not None and identity_of(pid) == identity


def send(pid: int | None, identity: str | None, number: signal.Signals) -> bool:
    """Signal exactly that process; return False if it is gone."""
    if pid is None or identity is None:
        return False
    try:
        with _handle(pid) as handle:
            if identity_of(pid) != identity:
                return False
            if handle is None:
                os.kill(pid, number)
            else:
                signal.pidfd_send_signal(handle, number)
    except ProcessLookupError:
        return False
    return True


@contextmanager
def _handle(pid: int) -> Iterator[int | None]:
    if not hasattr(os, "pidfd_open"):
        yield None
        return
    handle = os.pidfd_open(pid)
    try:
        yield handle
    finally:
        os.close(handle)


def wait_gone(pid: int | None, identity: str | None, within_s: float) -> bool:
    deadline = time.monotonic() + within_s
    while is_same(pid, identity):
        if time.monotonic() > deadline:
            return False
        time.sleep(POLL_S)
    return True


class Lock:
    """Held by the process of a pipeline as long as it lives: the kernel releases it with the
    process, however that ends. It is passed to a child as a descriptor, so that it is held at every
    moment."""

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor

    @classmethod
    def take(cls, file: Path) -> Lock | None:
        """Return the lock; None if another process has it."""
        descriptor = os.open(file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            return None
        return cls(descriptor)

    @classmethod
    def inherited(cls, descriptor: int) -> Lock:
        os.set_inheritable(descriptor, False)  # otherwise this process's children would hold it
        return cls(descriptor)

    def release(self) -> None:
        os.close(self.descriptor)


def is_locked(file: Path) -> bool:
    if not file.exists():
        return False
    lock = Lock.take(file)
    if lock is None:
        return True
    lock.release()
    return False
