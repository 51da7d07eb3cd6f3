"""The disk as one simulated process sees it, with faults; a `Volume` holds the data."""

from __future__ import annotations

import errno
import os
import posixpath
import random
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from ottla.buffers import Buffer
from ottla.runtime.disk import File, Lock, Mapping
from ottla.sim.inode import PAGE_BYTES, Inode
from ottla.sim.process import Process
from ottla.sim.trace import Trace
from ottla.sim.volume import Folder, Volume

SIMULATED_CAPACITY_BYTES = 1 << 40
BATCH_LENGTH_END = 12
BATCH_CHECKED_FROM = 21
"""The checksum of a record batch covers the bytes from here on. Offset and epoch, which brokers
set, lie before and are covered by nothing in Kafka's format."""


@dataclass
class Faults:
    """Faults of a disk: at random rates, or always below certain paths."""

    read_error_rate: float = 0.0
    write_error_rate: float = 0.0
    sync_error_rate: float = 0.0
    broken: dict[str, frozenset[str]] = field(default_factory=dict)
    """Path prefix -> the operations that fail there: read, write, sync, name."""
    flip_rate: float = 0.0
    """How often a read of a log segment below `flipped_below` returns one wrong bit; the data on
    the disk stays right."""
    flipped_below: tuple[str, ...] = ()
    struck: bool = False
    """True if the disk was broken or an operation failed since the last `heal`."""

    @property
    def is_quiet(self) -> bool:
        rates = self.read_error_rate or self.write_error_rate or self.sync_error_rate
        return not (rates or self.broken)

    def fail(self, path: str, *operations: str) -> None:
        self.broken[path] = frozenset(operations or ("read", "write", "sync", "name"))

    def heal(self) -> None:
        self.read_error_rate = self.write_error_rate = self.sync_error_rate = 0.0
        self.flip_rate = 0.0
        self.broken.clear()
        self.struck = False

    def strikes(self, operation: str, path: str, chance: random.Random) -> bool:
        if self.is_quiet:
            return False
        for prefix, operations in self.broken.items():
            if operation in operations and path.startswith(prefix):
                self.struck = True
                return True
        rate = float(getattr(self, f"{operation}_error_rate", 0.0))
        if rate > 0.0 and chance.random() < rate:
            self.struck = True
            return True
        return False


class Machinery:
    """State that the disk objects of one process share: the volume, the faults, the process."""

    def __init__(self, process: Process, volume: Volume, faults: Faults, trace: Trace) -> None:
        self.process = process
        self.volume = volume
        self.faults = faults
        self._trace = trace

    def begin(self, operation: str, path: str, detail: str = "") -> None:
        """Begin an operation: raise if the process is dead, crash it if due, or inject an error."""
        self.process.check_alive()
        if operation != "read":
            self.tell(f"{operation} {path} {detail}")
            if self.process.crash_is_due():
                self.process.crash_now()
        if self.faults.strikes(operation, path, self.volume.chance):
            self.tell(f"{operation} {path} fails")
            raise OSError(errno.EIO, os.strerror(errno.EIO), path)

    def tell(self, what: str) -> None:
        self._trace.add(self.process.host, what)


class SimMapping:
    def __init__(self, machinery: Machinery, inode: Inode, path: str, size: int) -> None:
        self._machinery = machinery
        self._inode = inode
        self._path = path
        self._open = True
        self.view = inode.map(size)

    def flush(self) -> None:
        _sync(self._machinery, self._inode, self._path)

    def close(self) -> None:
        self._machinery.process.check_alive()
        if self._open:
            self._open = False
            self.view.release()
            self._inode.unmap()


class SimFile:
    def __init__(self, machinery: Machinery, inode: Inode, path: str) -> None:
        self._machinery = machinery
        self._inode = inode
        self._open = True
        self.path = path

    def fileno(self) -> int:
        return -1

    def _check_open(self) -> None:
        self._machinery.process.check_alive()
        if not self._open:
            raise OSError(errno.EBADF, os.strerror(errno.EBADF), self.path)

    def size(self) -> int:
        self._check_open()
        return self._inode.size

    def read_at(self, offset: int, length: int) -> bytes:
        self._check_open()
        if offset < 0 or length < 0:
            raise OSError(errno.EINVAL, os.strerror(errno.EINVAL), self.path)
        machinery = self._machinery
        machinery.begin("read", self.path)
        data = self._inode.read(offset, length)
        if machinery.faults.flip_rate:
            return self._misread(data, offset)
        return data

    def peek(self, offset: int, length: int) -> bytes:
        """Read for checkers: the data as it is on the disk, without faults."""
        return self._inode.read(offset, length)

    def _misread(self, data: bytes, offset: int) -> bytes:
        """Flip a bit at random, only where the checksum of a record batch covers it."""
        machinery = self._machinery
        faults, chance = machinery.faults, machinery.volume.chance
        is_log = self.path.endswith(".log") and self.path.startswith(faults.flipped_below)
        if not (is_log and data) or chance.random() >= faults.flip_rate:
            return data
        position = chance.randrange(len(data))
        if not _is_checked(self._inode, offset + position):
            return data
        wrong = bytearray(data)
        wrong[position] ^= 1 << chance.randrange(8)
        machinery.tell(f"read {self.path} flips a bit at {offset + position}")
        return bytes(wrong)

    def write_at(self, offset: int, buffers: Sequence[Buffer]) -> int:
        self._check_open()
        data = b"".join(buffers)
        machinery = self._machinery
        machinery.process.check_alive()
        machinery.tell(f"write {self.path} {offset}+{len(data)} crc {zlib.crc32(data):08x}")
        if machinery.process.crash_is_due():
            self._put(offset, data[: _some_pages(len(data), machinery.volume.chance)])
            machinery.process.crash_now()
        if machinery.faults.strikes("write", self.path, machinery.volume.chance):
            self._put(offset, data[: _some_pages(len(data), machinery.volume.chance)])
            raise OSError(errno.EIO, os.strerror(errno.EIO), self.path)
        fits = machinery.volume.room_for(self._inode, offset, len(data))
        self._put(offset, data[:fits])
        if fits < len(data):
            machinery.tell(f"write {self.path} finds room for {fits} only")
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), self.path)
        return len(data)

    def _put(self, offset: int, data: bytes) -> None:
        self._inode.write(offset, data)
        self._inode.modified_ms = self._machinery.volume.wall_ms()

    def truncate(self, size: int) -> None:
        self._check_open()
        self._machinery.begin("write", self.path, f"truncate {size}")
        self._inode.truncate(size)
        self._inode.modified_ms = self._machinery.volume.wall_ms()

    def sync(self) -> None:
        self._check_open()
        _sync(self._machinery, self._inode, self.path)

    def map(self, size: int) -> Mapping:
        self._check_open()
        return SimMapping(self._machinery, self._inode, self.path, size)

    def close(self) -> None:
        self._machinery.process.check_alive()
        self._open = False

    def __repr__(self) -> str:
        return f"SimFile({self.path!r})"


def _is_checked(inode: Inode, position: int) -> bool:
    """True if the checksum of its batch covers the byte."""
    start = 0
    while start + BATCH_LENGTH_END <= inode.size:
        length = int.from_bytes(inode.read(start + 8, 4), "big")
        if position < start + BATCH_LENGTH_END + length:
            return position >= start + BATCH_CHECKED_FROM
        start += BATCH_LENGTH_END + length
    return False


def _sync(machinery: Machinery, inode: Inode, path: str) -> None:
    try:
        machinery.begin("sync", path)
    except OSError:
        inode.fail_sync(machinery.volume.chance)
        raise
    inode.sync()


def _some_pages(length: int, chance: random.Random) -> int:
    """Return where an interrupted write stops: at a page, where the kernel checks signals."""
    return min(length, chance.randint(0, length // PAGE_BYTES + 1) * PAGE_BYTES)


class SimLock:
    def __init__(self, locks: dict[str, Process], path: str, process: Process) -> None:
        holder = locks.get(path)
        if holder is not None and holder.alive:
            raise BlockingIOError(errno.EAGAIN, "another process holds the lock", path)
        locks[path] = process
        self._release: Callable[[], object] = lambda: locks.pop(path, None)

    def release(self) -> None:
        self._release()
        self._release = bool


class SimDisk:
    def __init__(self, machinery: Machinery, locks: dict[str, Process]) -> None:
        self._machinery = machinery
        self._volume = machinery.volume
        self._locks = locks

    def _begin(self, operation: str, path: str, detail: str = "") -> None:
        self._machinery.begin(operation, path, detail)

    def open(self, path: str, *, create: bool = False) -> File:
        self._begin("read", path)
        node = self._volume.find(path)
        if node is None and create:
            self._begin("name", path, "create")
            return SimFile(self._machinery, self._volume.create(path), path)
        return SimFile(self._machinery, self._volume.inode(path), path)

    def peek(self, path: str) -> SimFile | None:
        """Return a file for checkers to `peek` into, without faults and unseen by the process."""
        node = self._volume.find(path)
        return SimFile(self._machinery, node, path) if isinstance(node, Inode) else None

    def exists(self, path: str) -> bool:
        self._machinery.process.check_alive()
        return self._volume.find(path) is not None

    def is_dir(self, path: str) -> bool:
        self._machinery.process.check_alive()
        return isinstance(self._volume.find(path), Folder)

    def list_dir(self, path: str) -> list[str]:
        self._begin("read", path)
        return sorted(self._volume.folder(path).entries)

    def make_dirs(self, path: str) -> None:
        if not self.is_dir(path):
            self._begin("name", path, "make folder")
            self._volume.make_dirs(path)

    def rename(self, source: str, target: str) -> None:
        self._begin("name", source, f"rename to {target}")
        self._volume.rename(source, target)

    def remove(self, path: str) -> None:
        self._begin("name", path, "remove")
        self._volume.remove(path)

    def remove_tree(self, path: str) -> None:
        for below in self._volume.remove_tree(path):
            self._begin("name", below, "remove")

    def sync_dir(self, path: str) -> None:
        self._begin("sync", path)
        self._volume.sync_dir(path)

    def size(self, path: str) -> int:
        self._begin("read", path)
        return self._volume.inode(path).size

    def modified_ms(self, path: str) -> int:
        self._begin("read", path)
        node = self._volume.find(path)
        return 0 if isinstance(node, Folder) else self._volume.inode(path).modified_ms

    def set_modified_ms(self, path: str, wall_ms: int) -> None:
        self._begin("name", path, f"modified {wall_ms}")
        self._volume.inode(path).modified_ms = wall_ms

    def read_bytes(self, path: str) -> bytes:
        self._begin("read", path)
        inode = self._volume.inode(path)
        return inode.read(0, inode.size)

    def replace_bytes(self, path: str, data: bytes) -> None:
        """Replace the file in the same steps as the real disk, each of which may crash."""
        temporary = path + ".tmp"
        file = self.open(temporary, create=True)
        file.truncate(0)
        file.write_at(0, [data])
        file.sync()
        file.close()
        self.rename(temporary, path)
        self.sync_dir(posixpath.dirname(path) or "/")

    def space(self, path: str) -> tuple[int, int]:
        self._begin("read", path)
        total = self._volume.capacity_bytes or SIMULATED_CAPACITY_BYTES
        return total, max(0, total - self._volume.used_bytes())

    def lock(self, path: str) -> Lock:
        self.open(path, create=True)
        return SimLock(self._locks, posixpath.normpath(path), self._machinery.process)
