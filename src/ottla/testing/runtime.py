"""The runtime of one node in a test: real sockets and real files, without waiting for disks.

`fsync` is skipped: it protects against power loss, which ends the test as well. A killed node
leaves the same files with and without it.
"""

from __future__ import annotations

import os
import weakref
from collections.abc import Callable

from ottla.runtime.disk import File, Lock
from ottla.runtime.network import LEFT_TO_OS, BufferSizes, Listener, Socket
from ottla.runtime.os_disk import OsDisk, OsFile, OsLock
from ottla.runtime.os_network import OsNetwork
from ottla.runtime.os_runtime import OsRuntime
from ottla.runtime.worker import Worker

THREADS_MAX = 4


class UnsyncedFile(OsFile):
    __slots__ = ()

    def sync(self) -> None:
        """Do nothing: the page cache survives a kill of the node."""


class UnsyncedDisk(OsDisk):
    """Remembers its locks, because a killed node must lose them like a killed process."""

    def __init__(self) -> None:
        self.locks: list[Lock] = []

    def open(self, path: str, *, create: bool = False) -> File:
        flags = os.O_RDWR | os.O_CLOEXEC | (os.O_CREAT if create else 0)
        return UnsyncedFile(path, os.open(path, flags, 0o644))

    def sync_dir(self, path: str) -> None:
        """Do nothing: see `UnsyncedFile.sync`."""

    def replace_bytes(self, path: str, data: bytes) -> None:
        temporary = path + ".tmp"
        with open(temporary, "wb") as file:
            file.write(data)
        os.replace(temporary, path)

    def lock(self, path: str) -> Lock:
        held = OsLock(path)
        self.locks.append(held)
        return held


class WatchedNetwork(OsNetwork):
    """Remembers open listeners and sockets, to close them when the node is killed."""

    def __init__(self, *arguments: object) -> None:
        super().__init__(*arguments)  # type: ignore[arg-type]
        self.listeners: list[Listener] = []
        self.sockets: weakref.WeakSet[Socket] = weakref.WeakSet()

    def listen(
        self,
        host: str,
        port: int,
        accepted: Callable[[Socket], None],
        *,
        backlog: int = 50,
        buffers: BufferSizes = LEFT_TO_OS,
    ) -> Listener:
        def accept(connected: Socket) -> None:
            self.sockets.add(connected)
            accepted(connected)

        listener = super().listen(host, port, accept, backlog=backlog, buffers=buffers)
        self.listeners.append(listener)
        return listener

    async def connect(self, host: str, port: int) -> Socket:
        connected = await super().connect(host, port)
        self.sockets.add(connected)
        return connected

    def cut(self) -> None:
        for listener in self.listeners:
            listener.close()
        for connected in list(self.sockets):
            connected.close()


class TestRuntime(OsRuntime):
    """Create it in the cluster's loop, in the context of the node's life."""

    __test__ = False  # otherwise pytest takes it for a test by its name

    def __init__(self) -> None:
        super().__init__(threads_max=THREADS_MAX)
        self.unsynced = UnsyncedDisk()
        self.watched = WatchedNetwork(self.loop)
        self.disk = self.unsynced
        self.network = self.watched

    async def start_worker(self, module: str) -> Worker | None:
        """Return None: a test has no child processes, so the work runs in a thread."""
        return None

    def abandon(self) -> None:
        """Release what the OS releases for a killed process."""
        self.watched.cut()
        for lock in self.unsynced.locks:
            lock.release()

    def join_threads(self) -> None:
        """Wait for running disk calls; those that wait for a thread are cancelled."""
        self._threads.shutdown(wait=True, cancel_futures=True)
