"""Shared by the storage tests: batches, logs and a disk that fails on request."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from ottla.broker.storage.log import Appended, Log
from ottla.buffers import Buffer
from ottla.config.topic import TopicConfig
from ottla.records.builder import build_batch
from ottla.records.header import batches, read_header
from ottla.records.reader import read_records
from ottla.records.record import Record
from ottla.runtime.disk import File
from ottla.runtime.os_disk import OsDisk

NOW_MS = 1_700_000_000_000
TOPIC_ID = bytes(range(16))


class FixedClock:
    """Time that moves only when told to."""

    def __init__(self) -> None:
        self.ms = NOW_MS

    def now(self) -> float:
        return self.ms / 1000

    def wall_ms(self) -> int:
        return self.ms


def make_batch(
    values: Iterable[bytes], *, timestamp: int = NOW_MS, base_offset: int = 0, **fields: Any
) -> bytes:
    """One record a value, timestamps ascending by 1."""
    records = [
        Record(base_offset + index, timestamp + index, b"k", value, ())
        for index, value in enumerate(values)
    ]
    return build_batch(records, **fields)


def append(
    log: Log,
    *values: bytes,
    epoch: int = 0,
    timestamp: int = NOW_MS,
    now_ms: int = NOW_MS,
    **fields: Any,
) -> Appended:
    batch = bytearray(make_batch(values, timestamp=timestamp, **fields))
    return log.append(batch, read_header(batch), epoch, now_ms)


def open_log(
    directory: Path | str, config: TopicConfig | None = None, *, clean: bool = True, **options: Any
) -> Log:
    options.setdefault("disk", OsDisk())
    options.setdefault("clock", FixedClock())
    disk, clock = options.pop("disk"), options.pop("clock")
    return Log.open(
        disk, str(directory), "t", 0, config or TopicConfig(), clock, clean=clean, **options
    )


def read_all(log: Log, offset: int | None = None, max_bytes: int = 1 << 20) -> list[Record]:
    """Every record from `offset` on, read as a consumer would: slice after slice."""
    offset = log.log_start_offset if offset is None else offset
    found: list[Record] = []
    while (part := log.read(offset, max_bytes, log.end_offset)) is not None:
        data = part.read()
        assert len(data) == len(part)
        start = offset
        for header, batch in batches(data):
            found += [record for record in read_records(batch) if record.offset >= start]
            offset = header.next_offset
        assert offset > start, "a read must bring at least one whole batch"
    return found


def values_of(log: Log, **options: Any) -> list[tuple[int, bytes | None]]:
    return [(record.offset, record.value) for record in read_all(log, **options)]


def file_names(directory: Path | str) -> list[str]:
    return sorted(os.listdir(directory))


class FaultyFile:
    """A file whose disk may fail. What was written before the fault stays written."""

    def __init__(self, disk: FaultyDisk, file: File) -> None:
        self._disk = disk
        self._file = file
        self.path = file.path

    def write_at(self, offset: int, buffers: Sequence[Buffer]) -> int:
        fault = self._disk.fault_for("write", self.path)
        if fault is None:
            return self._file.write_at(offset, buffers)
        data = b"".join(bytes(buffer) for buffer in buffers)
        self._file.write_at(offset, [data[: self._disk.partial_bytes]])
        raise fault

    def read_at(self, offset: int, length: int) -> bytes:
        if (fault := self._disk.fault_for("read", self.path)) is not None:
            raise fault
        return self._file.read_at(offset, length)

    def sync(self) -> None:
        if (fault := self._disk.fault_for("sync", self.path)) is not None:
            raise fault
        self._disk.synced.append(self.path)
        self._file.sync()

    def truncate(self, size: int) -> None:
        if (fault := self._disk.fault_for("truncate", self.path)) is not None:
            raise fault
        self._file.truncate(size)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)


class FaultyDisk:
    """The real disk, with failures per kind of operation and part of the path."""

    def __init__(self) -> None:
        self._disk = OsDisk()
        self._faults: dict[str, tuple[str, int]] = {}
        self.partial_bytes = 0
        self.synced: list[str] = []

    def fail(
        self, operation: str, number: int = errno.EIO, *, where: str = ".log", partial: int = 0
    ) -> None:
        self._faults[operation] = (where, number)
        self.partial_bytes = partial

    def heal(self) -> None:
        self._faults.clear()

    def fault_for(self, operation: str, path: str) -> OSError | None:
        where, number = self._faults.get(operation, ("", 0))
        if number and where in path:
            return OSError(number, os.strerror(number), path)
        return None

    def open(self, path: str, *, create: bool = False) -> Any:
        if (fault := self.fault_for("open", path)) is not None:
            raise fault
        return FaultyFile(self, self._disk.open(path, create=create))

    def list_dir(self, path: str) -> list[str]:
        if (fault := self.fault_for("list", path)) is not None:
            raise fault
        return self._disk.list_dir(path)

    def make_dirs(self, path: str) -> None:
        if (fault := self.fault_for("make_dirs", path)) is not None:
            raise fault
        self._disk.make_dirs(path)

    def sync_dir(self, path: str) -> None:
        self.synced.append(path)
        self._disk.sync_dir(path)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._disk, name)


def offset_for_timestamp(log: Log, timestamp: int) -> tuple[int, int, int] | None:
    """(timestamp, offset, leader epoch) of the first record that is not older."""
    offset = log.log_start_offset
    while (timed := log.batch_for_timestamp(timestamp, offset)) is not None:
        if isinstance(timed, int):
            offset = timed
            continue
        if (found := timed.find(timestamp, offset)) is not None:
            return found
        offset = timed.header.next_offset
    return None


def offset_of_max_timestamp(log: Log) -> tuple[int, int, int] | None:
    """(timestamp, offset, leader epoch) of the youngest record; of several, the first."""
    timed = log.batch_of_max_timestamp()
    return None if timed is None else timed.find(timed.header.max_timestamp, 0)
