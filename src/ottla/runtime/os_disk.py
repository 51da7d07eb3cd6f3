"""The operating system's file system, through positioned reads and writes on descriptors."""

from __future__ import annotations

import fcntl
import mmap
import os
import shutil
import sys
from collections.abc import Sequence

from ottla.buffers import Buffer
from ottla.runtime.disk import File, Lock, Mapping

IOV_MAX = os.sysconf("SC_IOV_MAX") if "SC_IOV_MAX" in os.sysconf_names else 1024

if sys.platform == "darwin":

    def sync_data(fd: int) -> None:
        """Plain fsync on macOS stops at the drive's cache; only this command flushes it."""
        fcntl.fcntl(fd, fcntl.F_FULLFSYNC)

else:
    # fdatasync skips only timestamps: a grown size is needed to find the data, so it is synced.
    sync_data = os.fdatasync


if sys.version_info >= (3, 13):

    def _map_shared(fd: int, size: int) -> mmap.mmap:
        return mmap.mmap(fd, size, trackfd=False)

else:

    def _map_shared(fd: int, size: int) -> mmap.mmap:
        """Before 3.13 a mapping keeps a duplicate of the descriptor: close the file once mapped."""
        return mmap.mmap(fd, size)


class OsMapping:
    """Shared, writable memory over the first bytes of a file."""

    __slots__ = ("_memory", "view")

    def __init__(self, fd: int, size: int) -> None:
        self._memory = _map_shared(fd, size)
        self.view = memoryview(self._memory)

    def flush(self) -> None:
        self._memory.flush()

    def close(self) -> None:
        self.view.release()
        try:
            self._memory.close()
        except BufferError:
            # A slice of the view still exists: the pages are freed with it.
            pass


class OsFile:
    """A descriptor. Closing is idempotent; use after closing is an `OSError` (bad descriptor)."""

    __slots__ = ("_fd", "path")

    def __init__(self, path: str, fd: int) -> None:
        self.path = path
        self._fd = fd

    def fileno(self) -> int:
        return self._fd

    def size(self) -> int:
        return os.fstat(self._fd).st_size

    def read_at(self, offset: int, length: int) -> bytes:
        data = os.pread(self._fd, length, offset)
        if len(data) == length or not data:
            return data
        return self._read_rest(data, offset, length)

    def _read_rest(self, data: bytes, offset: int, length: int) -> bytes:
        """Read on: a short read is the end of the file only if the next one returns nothing."""
        parts = [data]
        got = len(data)
        while got < length and (more := os.pread(self._fd, length - got, offset + got)):
            parts.append(more)
            got += len(more)
        return b"".join(parts)

    def write_at(self, offset: int, buffers: Sequence[Buffer]) -> int:
        if len(buffers) == 1:
            only = buffers[0]
            written = os.pwrite(self._fd, only, offset)
            if written == _byte_count(only):
                return written
        elif len(buffers) <= IOV_MAX:
            written = os.pwritev(self._fd, buffers, offset)
        else:
            written = 0
        return self._write_rest(offset, buffers, written)

    def _write_rest(self, offset: int, buffers: Sequence[Buffer], written: int) -> int:
        total = sum(map(_byte_count, buffers))
        if written == total:
            return total
        left = _skip([memoryview(buffer).cast("B") for buffer in buffers], written)
        while written < total:
            count = os.pwritev(self._fd, left[:IOV_MAX], offset + written)
            written += count
            left = _skip(left, count)
        return total

    def truncate(self, size: int) -> None:
        os.ftruncate(self._fd, size)

    def sync(self) -> None:
        sync_data(self._fd)

    def map(self, size: int) -> Mapping:
        return OsMapping(self._fd, size)

    def close(self) -> None:
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)

    def __del__(self) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"OsFile({self.path!r})"


def _byte_count(buffer: Buffer) -> int:
    return buffer.nbytes if isinstance(buffer, memoryview) else len(buffer)


def _skip(buffers: list[memoryview], count: int) -> list[memoryview]:
    """Return the rest of `buffers` after their first `count` bytes."""
    for index, buffer in enumerate(buffers):
        if count < len(buffer):
            return [buffer[count:], *buffers[index + 1 :]]
        count -= len(buffer)
    return []


class OsLock:
    """Held until `release` or the end of the process, however that comes."""

    __slots__ = ("_fd",)

    def __init__(self, path: str) -> None:
        self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if sys.platform == "linux":
                # flock distinguishes two nodes even inside one process. A JVM broker takes record
                # locks, which flock does not see, so both kinds are held.
                fcntl.lockf(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            self.release()
            raise BlockingIOError(
                error.errno, "the lock is held by another process", path
            ) from None

    def release(self) -> None:
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)


class OsDisk:
    """Paths are used as given; relative ones are relative to the working directory."""

    def open(self, path: str, *, create: bool = False) -> File:
        flags = os.O_RDWR | os.O_CLOEXEC | (os.O_CREAT if create else 0)
        return OsFile(path, os.open(path, flags, 0o644))

    def exists(self, path: str) -> bool:
        return os.path.exists(path)

    def is_dir(self, path: str) -> bool:
        return os.path.isdir(path)

    def list_dir(self, path: str) -> list[str]:
        return sorted(os.listdir(path))

    def make_dirs(self, path: str) -> None:
        os.makedirs(path, exist_ok=True)

    def rename(self, source: str, target: str) -> None:
        os.replace(source, target)

    def remove(self, path: str) -> None:
        os.remove(path)

    def remove_tree(self, path: str) -> None:
        shutil.rmtree(path)

    def sync_dir(self, path: str) -> None:
        fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)

    def size(self, path: str) -> int:
        return os.stat(path).st_size

    def modified_ms(self, path: str) -> int:
        return os.stat(path).st_mtime_ns // 1_000_000

    def set_modified_ms(self, path: str, wall_ms: int) -> None:
        wall_ns = wall_ms * 1_000_000
        os.utime(path, ns=(wall_ns, wall_ns))

    def read_bytes(self, path: str) -> bytes:
        with open(path, "rb") as file:
            return file.read()

    def replace_bytes(self, path: str, data: bytes) -> None:
        temporary = path + ".tmp"
        fd = os.open(temporary, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o644)
        file = OsFile(temporary, fd)
        try:
            file.write_at(0, [data])
            file.sync()
        finally:
            file.close()
        os.replace(temporary, path)
        self.sync_dir(os.path.dirname(path) or ".")

    def space(self, path: str) -> tuple[int, int]:
        volume = os.statvfs(path)
        return volume.f_blocks * volume.f_frsize, volume.f_bavail * volume.f_frsize

    def lock(self, path: str) -> Lock:
        return OsLock(path)
