"""Files. What storage may ask of a disk, as protocols that the OS and the simulation both serve.

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
    """An open file, used at explicit offsets only: there is no cursor to disturb."""

    path: str

    def fileno(self) -> int:
        """The OS descriptor, for `sendfile`. A simulated file answers -1."""
        ...

    def size(self) -> int: ...

    def read_at(self, offset: int, length: int) -> bytes:
        """Up to `length` bytes; fewer only at the end of the file."""
        ...

    def write_at(self, offset: int, buffers: Sequence[Buffer]) -> int:
        """Write all of `buffers` at `offset` (gathering, retrying short writes); the byte count.

        On `OSError` an unknown part of the bytes may lie in the file.
        """
        ...

    def truncate(self, size: int) -> None:
        """Cut, or extend with zeros (sparse), to exactly `size` bytes."""
        ...

    def sync(self) -> None:
        """Return once every byte written so far survives power loss."""
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
        """Names of the entries, sorted, so that behaviour never depends on the file system."""
        ...

    def make_dirs(self, path: str) -> None: ...

    def rename(self, source: str, target: str) -> None:
        """Atomic; replaces a file at `target`."""
        ...

    def remove(self, path: str) -> None: ...

    def remove_tree(self, path: str) -> None: ...

    def sync_dir(self, path: str) -> None:
        """Make creations, renames and removals in this folder survive power loss."""
        ...

    def size(self, path: str) -> int: ...

    def modified_ms(self, path: str) -> int: ...

    def set_modified_ms(self, path: str, wall_ms: int) -> None: ...

    def read_bytes(self, path: str) -> bytes: ...

    def replace_bytes(self, path: str, data: bytes) -> None:
        """Atomically and durably make `data` the content of `path` (via a synced temporary)."""
        ...

    def space(self, path: str) -> tuple[int, int]:
        """(total, usable) bytes of the volume that holds `path`."""
        ...

    def lock(self, path: str) -> Lock:
        """Take an exclusive lock file; `BlockingIOError` if another process holds it."""
        ...


class FileSlice:
    """A range of bytes of a file on its way to a socket, never read into Python."""

    __slots__ = ("count", "file", "offset")

    def __init__(self, file: File, offset: int, count: int) -> None:
        self.file = file
        self.offset = offset
        self.count = count

    def __len__(self) -> int:
        return self.count

    def read(self) -> bytes:
        """The bytes themselves, where a copy is wanted (recompression, down-conversion, tests)."""
        return self.file.read_at(self.offset, self.count)

    def __repr__(self) -> str:
        return f"FileSlice({self.file.path!r}, offset={self.offset}, count={self.count})"
