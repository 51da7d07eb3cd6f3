"""Files: the operations of storage, as protocols that the OS and the simulation both implement.

Every call is synchronous; callers move the ones that may block for long (`File.sync`, loading,
deleting) into a thread with `Runtime.in_thread`. Errors are `OSError`, as the OS raises them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from ottla.buffers import Buffer


class Mapping(Protocol):
    """A file mapped into memory: random access without a system call.

    `view` is writable and stays the same object until `close`, which also releases it.
    """

    view: memoryview

    def flush(self) -> None: ...

    def close(self) -> None: ...


class File(Protocol):
    """An open file, used at explicit offsets only: there is no cursor."""

    path: str

    def fileno(self) -> int:
        """The OS descriptor, for `sendfile`. A simulated file returns -1."""
        ...

    def size(self) -> int: ...

    def read_at(self, offset: int, length: int) -> bytes:
        """Return up to `length` bytes; fewer only at the end of the file."""
        ...

    def write_at(self, offset: int, buffers: Sequence[Buffer]) -> int:
        """Write all of `buffers` at `offset` (gathering, retrying short writes); return the byte
        count.

        After an `OSError` an unknown part of the bytes may be in the file.
        """
        ...

    def truncate(self, size: int) -> None:
        """Truncate, or extend with zeros (sparse), to exactly `size` bytes."""
        ...

    def sync(self) -> None:
        """Return once every byte written so far survives a power failure."""
        ...

    def map(self, size: int) -> Mapping:
        """Map the first `size` bytes, which the file must already have."""
        ...

    def close(self) -> None: ...


class Lock(Protocol):
    def release(self) -> None: ...


class Disk(Protocol):
    """A file system."""

    def open(self, path: str, *, create: bool = False) -> File:
        """Open for reading and writing; `FileNotFoundError` if absent and not `create`."""
        ...

    def exists(self, path: str) -> bool: ...

    def is_dir(self, path: str) -> bool: ...

    def list_dir(self, path: str) -> list[str]:
        """Return the names of the entries, sorted, so that behaviour never depends on the file
        system."""
        ...

    def make_dirs(self, path: str) -> None: ...

    def rename(self, source: str, target: str) -> None:
        """Rename atomically; replaces a file at `target`."""
        ...

    def remove(self, path: str) -> None: ...

    def remove_tree(self, path: str) -> None: ...

    def sync_dir(self, path: str) -> None:
        """Make creations, renames and removals in this folder survive a power failure."""
        ...

    def size(self, path: str) -> int: ...

    def modified_ms(self, path: str) -> int: ...

    def set_modified_ms(self, path: str, wall_ms: int) -> None: ...

    def read_bytes(self, path: str) -> bytes: ...

    def replace_bytes(self, path: str, data: bytes) -> None:
        """Atomically and durably make `data` the content of `path` (via a synced temporary)."""
        ...

    def space(self, path: str) -> tuple[int, int]:
        """Return (total, usable) bytes of the volume that holds `path`."""
        ...

    def lock(self, path: str) -> Lock:
        """Take an exclusive lock file; `BlockingIOError` if another process holds it."""
        ...


class FileSlice:
    """A range of bytes of a file that is sent to a socket without being read into Python."""

    __slots__ = ("count", "file", "offset")

    def __init__(self, file: File, offset: int, count: int) -> None:
        self.file = file
        self.offset = offset
        self.count = count

    def __len__(self) -> int:
        return self.count

    def read(self) -> bytes:
        """Read the bytes, if a copy is needed (recompression, down-conversion, tests)."""
        return self.file.read_at(self.offset, self.count)

    def __repr__(self) -> str:
        return f"FileSlice({self.file.path!r}, offset={self.offset}, count={self.count})"
