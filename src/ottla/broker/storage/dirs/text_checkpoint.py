"""The text format of Kafka's checkpoint files: version, number of entries, one entry per line."""

from __future__ import annotations

from collections.abc import Sequence

from ottla.broker.storage.errors import CorruptFile
from ottla.runtime.disk import Disk

VERSION = 0


def read_checkpoint(disk: Disk, path: str, *, columns: int) -> list[list[str]]:
    """Return the entries, split into words. Raises `CorruptFile` unless the whole file is valid."""
    try:
        lines = disk.read_bytes(path).decode().splitlines()
        if len(lines) < 2:
            raise CorruptFile(path, "damaged: it ends before the number of its entries")
        version, count = int(lines[0]), int(lines[1])
        entries = [line.split() for line in lines[2:] if line]
        if version != VERSION:
            raise CorruptFile(path, f"version {version} is unknown: expected {VERSION}")
        if len(entries) != count or any(len(entry) != columns for entry in entries):
            raise CorruptFile(path, f"does not hold the {count} entries of {columns} words it says")
        for entry in entries:
            int(entry[-1])
    except ValueError as error:
        if isinstance(error, CorruptFile):
            raise
        raise CorruptFile(path, f"not a checkpoint: {error}") from None
    return entries


def write_checkpoint(disk: Disk, path: str, entries: Sequence[str]) -> None:
    """Write the entries, atomically and durably."""
    text = "\n".join([str(VERSION), str(len(entries)), *entries, ""])
    disk.replace_bytes(path, text.encode())
